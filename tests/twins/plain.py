"""Plain filters judged one row at a time, as Spark's documentation defines SQL's three values."""

import math
import re
from typing import Any

from strata.expr.nodes import Call, Column, Expr, Literal


def judged(row: dict[str, Any], expr: Expr) -> Any:
    """Return the value of an expression on a row: None for null."""
    match expr:
        case Column():
            return row[expr.name]
        case Literal():
            return expr.value
        case Call("and" | "or" as function, args):
            decisive = function == "or"
            found = [judged(row, arg) for arg in args]
            if decisive in found:
                return decisive
            return None if None in found else not decisive
        case Call("is_null", (arg,)):
            return judged(row, arg) is None
        case Call("is_not_null", (arg,)):
            return judged(row, arg) is not None
        case Call("equal_null_safe", args):
            left, right = (judged(row, arg) for arg in args)
            return left is right if left is None or right is None else _rank(left) == _rank(right)
        case Call(function, args):
            values = [judged(row, arg) for arg in args]
            return None if None in values else _strict(function, values)
    raise AssertionError(expr)


def _strict(function: str, values: list[Any]) -> Any:
    """Return the value of a function without nulls."""
    first, *others = values
    match function:
        case "not":
            return not first
        case "cast":
            return first
        case "in":
            return any(_rank(first) == _rank(other) for other in others)
        case "like":
            pattern = "".join(
                ".*" if c == "%" else "." if c == "_" else re.escape(c) for c in others[0]
            )
            return re.fullmatch(pattern, first, re.DOTALL) is not None
    left, right = _rank(first), _rank(others[0])
    return {
        "equal_to": left == right,
        "greater_than": left > right,
        "greater_than_or_equal": left >= right,
        "less_than": left < right,
        "less_than_or_equal": left <= right,
    }[function]


def _rank(value: Any) -> Any:
    """Return what orders values: NaN is equal to itself and above all numbers, texts are bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value
