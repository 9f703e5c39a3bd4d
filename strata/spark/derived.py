"""Conditions that Spark derives from a filter, and evaluates before the filter itself.

From `a = b AND CAST(a AS INT) > 5` Spark's optimiser derives `CAST(b AS INT) > 5` and puts it in
front, so that it fails on rows on which `a = b` is false. Strata's own sessions forbid that (see
`strata.spark.session`); in a session that allows it, no error of such a filter is hidden.
"""

from typing import Final

import numpy as np
from pyspark.sql import SparkSession

from strata.expr.entry import Context
from strata.expr.interpret import Interpreter, Unknown
from strata.expr.nodes import Call, Column, Expr, Opaque
from strata.prune.decide import split

SETTING: Final = "spark.sql.constraintPropagation.enabled"


def with_derived(spark: SparkSession, expr: Expr) -> Expr:
    """Return the condition as this session evaluates it: what is derived of it in front."""
    if spark.conf.get(SETTING, "true") != "true":
        return expr
    conjuncts = split(expr)
    if not any(map(_equates, conjuncts)) or not any(map(_may_fail, conjuncts)):
        return expr
    reason = f"conditions that Spark derives from an equality of columns; see {SETTING}"
    return Call("and", (Opaque(reason, "boolean"), *conjuncts), "boolean")


def _equates(conjunct: Expr) -> bool:
    """Return whether a conjunct says that two columns, cast or not, are equal."""
    if not isinstance(conjunct, Call) or conjunct.function != "equal_to":
        return False
    return all(_is_column(arg) for arg in conjunct.args)


def _is_column(expr: Expr) -> bool:
    while isinstance(expr, Call) and expr.function == "cast":
        expr = expr.args[0]
    return isinstance(expr, Column)


def _may_fail(conjunct: Expr) -> bool:
    """Return whether a conjunct may fail on some row of whatever is stored."""
    spec = Interpreter(Context(0, 0)).evaluate(conjunct, Unknown())
    return bool(np.any(spec.fail))
