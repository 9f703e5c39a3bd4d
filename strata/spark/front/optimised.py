"""Errors of a filter that only Spark's optimiser causes: constants for columns, another order.

If a conjunct is `c = 5`, Spark's optimiser replaces `c` by 5 in the comparisons beside it. No
answer changes, since the conjunct is false or null wherever `c` is not 5. But an error may appear,
because Spark evaluates conditions beside a null and in front of it: in `c = 5 AND if(c > 3, 1 / d >
2, false)` the division is then evaluated where `c` is null.

If a common expression is evaluated once (`between`, `nullif`), conjuncts that do not use it move in
front of those that do, and nothing hides their errors any more.

Source: `ConstantPropagation` of Spark 4.3, and the rules that prepare it: `NOT` moved inward, `IF`
with a constant branch as `AND` or `OR`, `IN` of one constant, casts around the column.
"""

from collections.abc import Mapping
from typing import Final

from strata.expr.nodes import Call, Column, Expr, Literal
from strata.spark.front.forms import also_failing, shape

_EQUALITIES: Final = frozenset({"equal_to", "equal_null_safe", "in"})
_COMPARISONS: Final = _EQUALITIES | {
    "less_than",
    "less_than_or_equal",
    "greater_than",
    "greater_than_or_equal",
}
_NEVER_FAIL: Final = _COMPARISONS | {"try_eval", "and", "or", "not", "is_null", "is_not_null"}
_BRANCHING: Final = frozenset({"if", "case_when", "coalesce"})
_ROUNDS: Final = 4  # x = c AND c = 5 pins x one round later

# Column -> the constant in its place, the conjunct that pins it
Pins = Mapping[int, tuple[Expr, Expr]]


def with_propagated(expr: Expr) -> Expr:
    """Return the filter, failing also where Spark's constants make it fail.

    Errs: towards errors. Cost: nothing unless a column is pinned and compared once more.
    """
    for plain in dict.fromkeys((shape(expr), expr)):  # NOT moves before or after this
        optimised = plain
        for _ in range(_ROUNDS):
            optimised = _propagated(optimised, null_is_false=True)
        if optimised != plain and _may_fail(optimised):
            expr = also_failing(expr, optimised)
    return expr


def _may_fail(expr: Expr) -> bool:
    """Return whether an expression contains more than comparisons and logic."""
    if isinstance(expr, Call):
        inner = () if expr.function == "try_eval" else expr.args
        return expr.function not in _NEVER_FAIL or any(_may_fail(arg) for arg in inner)
    return not isinstance(expr, Column | Literal)


def _propagated(expr: Expr, null_is_false: bool) -> Expr:
    """Return a condition after one round, as a filter or (`null_is_false` not) inside of NOT."""
    if not isinstance(expr, Call) or expr.function not in ("and", "or", "not"):
        return expr
    inside = null_is_false and expr.function != "not"
    parts = tuple(_propagated(arg, inside) for arg in expr.args)
    if expr.function == "and":
        pins: Pins = {pin[0]: (pin[1], part) for part in parts if (pin := _pin(part, inside))}
        said = tuple(conjunct for _, conjunct in pins.values())
        parts = tuple(p if p in said else _replaced(p, pins) for p in parts) if pins else parts
    return Call(expr.function, parts, expr.type, expr.options)


def _pin(expr: Expr, null_is_false: bool) -> tuple[int, Expr] | None:
    """Return the column that a conjunct pins, and its constant."""
    if not isinstance(expr, Call) or expr.function not in _EQUALITIES or len(expr.args) != 2:
        return None
    for side, other in (expr.args, expr.args[::-1]):
        column = side
        while isinstance(column, Call) and column.function == "cast":
            column = column.args[0]
        if not isinstance(column, Column) or not _constant(other):
            continue
        if column.nullable and not null_is_false:
            continue
        if column is side:
            return column.id, other
        return column.id, Call("cast", (other,), column.type, (("ansi", "ansi"), ("zone", "UTC")))
    return None


def _constant(expr: Expr) -> bool:
    """Return whether an expression has one value for a whole read, whose clock stands still."""
    if isinstance(expr, Call):
        return all(_constant(arg) for arg in expr.args)
    return isinstance(expr, Literal)


def _replaced(expr: Expr, pins: Pins, compared: bool = False, always: bool = True) -> Expr:
    """Return an expression with constants for the columns inside its comparisons.

    An expression that becomes constant and is `always` evaluated fails while Spark plans, for any
    rows, or never. In a branch of a condition it fails where the branch is taken.
    """
    if isinstance(expr, Column):
        return pins[expr.id][0] if compared and expr.id in pins else expr
    if not isinstance(expr, Call):
        return expr
    compared = compared or (expr.function in _COMPARISONS and len(expr.args) == 2)
    if compared and always and not _constant(expr):
        everywhere = _replaced(expr, pins, compared, always=False)
        if _constant(everywhere):
            return Call("try_eval", (everywhere,), expr.type)
    inside = always and expr.function not in _BRANCHING
    args = tuple(_replaced(arg, pins, compared, inside) for arg in expr.args)
    return Call(expr.function, args, expr.type, expr.options)
