"""Plain filters judged one row at a time, as Spark's documentation defines SQL's three values."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

from strata.expr.nodes import Call, Column, Expr, Literal

DAY_US = 86_400_000_000
ERA_DAYS = 146_097  # of 400 years, after which the calendar repeats


def _dated(days: int) -> tuple[date, int]:
    """Return a day within Python's calendar and the years to add to it."""
    eras = (days + 719_162) // ERA_DAYS - 4  # from the year 1
    return date(1970, 1, 1) + timedelta(days - eras * ERA_DAYS), eras * 400


PARTS: Mapping[str, Callable[[int], int]] = {
    "year": lambda days: _dated(days)[0].year + _dated(days)[1],
    "quarter": lambda days: (_dated(days)[0].month + 2) // 3,
    "month": lambda days: _dated(days)[0].month,
    "day_of_month": lambda days: _dated(days)[0].day,
    "day_of_year": lambda days: _dated(days)[0].timetuple().tm_yday,
    "day_of_week": lambda days: _dated(days)[0].isoweekday() % 7 + 1,
    "week_of_year": lambda days: _dated(days)[0].isocalendar().week,
    "hour": lambda micros: micros % DAY_US // 3_600_000_000,
    "minute": lambda micros: micros // 60_000_000 % 60,
    "second": lambda micros: micros // 1_000_000 % 60,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "length": len,
    "lower": str.lower,
    "upper": str.upper,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": str.__contains__,
    "remainder": lambda value, by: abs(value) % by * (1 if value >= 0 else -1),
}


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
        case Call("is_null" | "is_not_null" as function, (arg,)):
            return (judged(row, arg) is None) is (function == "is_null")
        case Call("equal_null_safe", args):
            left, right = (judged(row, arg) for arg in args)
            return left is right if left is None or right is None else _rank(left) == _rank(right)
        case Call("cast", (arg,), kind):
            value = judged(row, arg)
            return None if value is None else _cast(value, arg.type, kind)
        case Call("in", (arg, *listed)):
            return _member(judged(row, arg), [judged(row, one) for one in listed])
        case Call(function, args):
            return _called(function, [judged(row, arg) for arg in args])
    raise AssertionError(expr)


def _cast(value: Any, before: str, after: str) -> Any:
    if after == "double":
        return float(value)
    if "date" in (before, after) and before != after:
        return value // DAY_US if after == "date" else value * DAY_US
    return value


def _member(value: Any, listed: list[Any]) -> bool | None:
    if value is None:
        return None
    if any(_rank(value) == _rank(one) for one in listed if one is not None):
        return True
    return None if None in listed else False


def _called(function: str, values: list[Any]) -> Any:
    """Return the value of a function that may see nulls."""
    if function == "coalesce":
        return next((value for value in values if value is not None), None)
    if function == "is_nan":
        return values[0] is not None and math.isnan(values[0])
    return None if None in values else _strict(function, values)


def _strict(function: str, values: list[Any]) -> Any:
    """Return the value of a function without nulls."""
    first, *others = values
    if function in PARTS:
        return PARTS[function](first)
    if function in FUNCTIONS:
        return FUNCTIONS[function](first, *others)
    match function:
        case "not":
            return not first
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
