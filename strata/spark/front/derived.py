"""Conditions that Spark derives from a filter, and evaluates before the filter itself.

From `a = b AND CAST(a AS INT) > 5` Spark's optimiser derives `CAST(b AS INT) > 5` and puts it in
front, so it fails on rows where `a = b` is false. A session may forbid that at any time
(`spark.sql.constraintPropagation.enabled`). If Spark runs a filter as the user wrote it, we assume
that no error of such a condition is hidden. Spark cannot split the filters of
`strata.spark.front.rowfilter`.
"""

from collections.abc import Iterator
from typing import Final

from strata.decide.decision import split_conjuncts
from strata.expr.nodes import Call, Column, Expr, Opaque
from strata.spark.front.forms import may_fail

SETTING: Final = "spark.sql.constraintPropagation.enabled"
_EQUATING: Final = frozenset({"equal_to", "equal_null_safe", "in"})


def with_derived(expr: Expr) -> Expr:
    """Return the condition as any session may evaluate it, preceded by derived conditions."""
    if not any(map(_equates, _walk(expr))) or not may_fail(expr):
        return expr
    reason = f"conditions that Spark derives from an equality of columns; see {SETTING}"
    return Call("and", (Opaque(reason, "boolean"), *split_conjuncts(expr)), "boolean")


def _equates(node: Expr) -> bool:
    """Return whether a comparison may state, in any sense, that two columns are equal."""
    if not isinstance(node, Call) or node.function not in _EQUATING:
        return False
    reading = [arg for arg in node.args if any(isinstance(n, Column) for n in _walk(arg))]
    return len(reading) > 1


def _walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from _walk(arg)
