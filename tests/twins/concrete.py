"""The slow twin of the interpreter: one expression on one row, in plain Python.

Written to be obviously right for the functions that `tests/support/expressions.py` generates, in
UTC. Spark itself judges the rest (`tests/spark/test_functions.py`). Values are those of literals:
dates are days, timestamps microseconds.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Final

import numpy as np

from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.sparktype import spark_type

Value = int | float | str | bool | None
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Failed(Exception):
    """The evaluation is an error."""


def evaluate(expr: Expr, row: Mapping[int, Value], now: int) -> Value:
    """Return what the expression gives on a row."""
    match expr:
        case Column():
            return row[expr.id]
        case Literal():
            return expr.value  # type: ignore[return-value]
        case Call():
            lazy = [_later(arg, row, now) for arg in expr.args]
            if expr.function in _LAZY:
                return _LAZY[expr.function](lazy)
            if expr.function == "current_timestamp":
                return now
            values = [arg() for arg in lazy]
            if any(value is None for value in values):
                return None
            return _STRICT[expr.function](expr, values)
        case _:
            raise Failed


def _later(arg: Expr, row: Mapping[int, Value], now: int) -> Callable[[], Value]:
    return lambda: evaluate(arg, row, now)


# Functions that choose what to evaluate, or look at null themselves.


def _and(args: list[Callable[[], Value]]) -> Value:
    result: Value = True
    for arg in args:
        value = arg()
        if value is False:
            return False
        result = None if value is None else result
    return result


def _or(args: list[Callable[[], Value]]) -> Value:
    negated = [(lambda arg=arg: None if (v := arg()) is None else not v) for arg in args]
    result = _and(negated)
    return None if result is None else not result


def _case_when(args: list[Callable[[], Value]]) -> Value:
    for condition, value in zip(args[0:-1:2], args[1::2], strict=False):
        if condition():
            return value()
    return args[-1]() if len(args) % 2 else None


def _coalesce(args: list[Callable[[], Value]]) -> Value:
    return next((v for arg in args if (v := arg()) is not None), None)


def _extreme(pick: Callable[..., Value]) -> Callable[[list[Callable[[], Value]]], Value]:
    def function(args: list[Callable[[], Value]]) -> Value:
        values = [v for arg in args if (v := arg()) is not None]
        return pick(values, key=order) if values else None

    return function


def _equal_null_safe(args: list[Callable[[], Value]]) -> Value:
    a, b = (arg() for arg in args)
    return (a is None and b is None) or (a is not None and b is not None and order(a) == order(b))


def _in(args: list[Callable[[], Value]]) -> Value:
    value, unknown = args[0](), False
    if value is None:
        return None
    for arg in args[1:]:
        item = arg()
        if item is None:
            unknown = True
        elif order(item) == order(value):
            return True
    return None if unknown else False


_LAZY: dict[str, Callable[[list[Callable[[], Value]]], Value]] = {
    "and": _and,
    "or": _or,
    "if": _case_when,
    "case_when": _case_when,
    "coalesce": _coalesce,
    "greatest": _extreme(max),
    "least": _extreme(min),
    "is_null": lambda args: args[0]() is None,
    "is_not_null": lambda args: args[0]() is not None,
    "is_nan": lambda args: (v := args[0]()) is not None and math.isnan(v),  # type: ignore[arg-type]
    "equal_null_safe": _equal_null_safe,
    "in": _in,
}


def order(value: Value) -> tuple[bool, object]:
    """Return a key that orders as Spark: NaN last and equal to itself, text by bytes."""
    if isinstance(value, str):
        return False, value.encode()
    isnan = isinstance(value, float) and math.isnan(value)
    return isnan, 0.0 if isnan else value


# Strict functions.


def _fit(call: Call, value: int) -> Value:
    kind = spark_type(call.type)
    if kind.low <= value <= kind.high:
        return value
    mode = call.option("ansi", "ansi")
    if mode == "ansi":
        raise Failed
    if mode == "try":
        return None
    size = kind.high - kind.low + 1
    return (value - kind.low) % size + kind.low


def _number(call: Call, value: float | int) -> Value:
    kind = spark_type(call.type)
    if kind.family == "int":
        return _fit(call, int(value))
    if kind.family == "decimal":  # sums of few digits, which always fit
        return value
    return rounded(value) if kind.single else float(value)


def rounded(value: float) -> float:
    """Return a number rounded to 32 bits: of a sum of such numbers, in 64 bits, it is exact."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _arithmetic(operation: Callable[..., float]) -> Callable[[Call, list[Value]], Value]:
    return lambda call, v: _number(call, operation(v[0], v[1]))


def _zero(call: Call) -> Value:
    if call.option("ansi", "ansi") == "ansi":
        raise Failed
    return None


def _divide(call: Call, v: list[Value]) -> Value:
    a, b = float(v[0]), float(v[1])  # type: ignore[arg-type]
    return _zero(call) if b == 0 else a / b


_UNITS: Final = {"second": 10**6, "minute": 6 * 10**7, "hour": 36 * 10**8, "day": 864 * 10**8}


def _timestamp_diff(call: Call, v: list[Value]) -> Value:
    micros, unit = int(v[1]) - int(v[0]), _UNITS[call.option("unit")]  # type: ignore[arg-type]
    if not -(2**63) <= micros < 2**63:
        raise Failed
    return int(Fraction(micros, unit))


def _instant(value: int) -> Value:
    """Return whole microseconds; an overflow fails in every mode."""
    if not -(2**63) <= value < 2**63:
        raise Failed
    return value


def _days(value: int) -> Value:
    """Return days, which wrap."""
    return (value + 2**31) % 2**32 - 2**31


def _remainder(call: Call, v: list[Value]) -> Value:
    a, b = v
    assert isinstance(a, int)
    assert isinstance(b, int)
    return _zero(call) if b == 0 else abs(a) % abs(b) * (1 if a >= 0 else -1)


def _cast(call: Call, v: list[Value]) -> Value:
    source, target = spark_type(call.args[0].type), spark_type(call.type)
    value = v[0]
    if source.name.startswith("timestamp") and target.name == "date":
        return int(value) // 86_400_000_000  # type: ignore[arg-type]
    if source.name == "timestamp" and target.name == "long":
        return int(value) // 1_000_000  # type: ignore[arg-type]
    if source.family == target.family == "decimal":
        return value
    if source.name == "date" and target.name == "timestamp":
        return int(value) * 86_400_000_000  # type: ignore[arg-type]
    if target.family == "float":
        return float(value)  # type: ignore[arg-type]
    assert target.family == "int"
    if isinstance(value, float):
        if call.option("ansi", "ansi") == "legacy":
            whole = 0 if math.isnan(value) else int(max(min(value, 1e30), -1e30))
            return max(min(whole, target.high), target.low)
        if math.isnan(value) or math.isinf(value):
            return _zero(call)
        return _fit(call, int(value))
    return _fit(call, int(value))  # type: ignore[arg-type]


def _date_trunc(call: Call, v: list[Value]) -> Value:
    unit, micros = str(v[0]).lower(), v[1]
    moment = EPOCH + timedelta(microseconds=int(micros))  # type: ignore[arg-type]
    if unit == "week":
        moment -= timedelta(days=moment.weekday())
    keep = {"year": 1, "month": 2, "week": 3, "day": 3, "hour": 4, "minute": 5}[unit]
    full = (*moment.timetuple()[:keep], *(1, 1, 1, 0, 0)[keep:])
    return (datetime(*full, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def _day(days: Value) -> date:
    return date(1970, 1, 1) + timedelta(days=int(days))  # type: ignore[arg-type]


def _add_months(call: Call, v: list[Value]) -> Value:
    start = _day(v[0])
    month = start.year * 12 + start.month - 1 + int(v[1])  # type: ignore[arg-type]
    for last in (start.day, 30, 29, 28):
        try:
            moved = date(month // 12, month % 12 + 1, min(start.day, last))
        except ValueError:
            continue
        return (moved - date(1970, 1, 1)).days
    raise AssertionError


def _like(call: Call, v: list[Value]) -> Value:
    text, pattern = str(v[0]), str(v[1])
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_like(call, [text[i:], pattern[1:]]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _like(call, [text[1:], pattern[1:]])


def _compared(test: Callable[[object, object], bool]) -> Callable[[Call, list[Value]], Value]:
    return lambda call, v: test(order(v[0]), order(v[1]))


_STRICT: dict[str, Callable[[Call, list[Value]], Value]] = {
    "equal_to": _compared(lambda a, b: a == b),
    "less_than": _compared(lambda a, b: a < b),  # type: ignore[operator]
    "less_than_or_equal": _compared(lambda a, b: a <= b),  # type: ignore[operator]
    "greater_than": _compared(lambda a, b: a > b),  # type: ignore[operator]
    "greater_than_or_equal": _compared(lambda a, b: a >= b),  # type: ignore[operator]
    "not": lambda call, v: not v[0],
    "add": _arithmetic(lambda a, b: a + b),
    "subtract": _arithmetic(lambda a, b: a - b),
    "multiply": _arithmetic(lambda a, b: a * b),
    "divide": _divide,
    "remainder": _remainder,
    "unary_minus": lambda call, v: _number(call, -v[0]),  # type: ignore[operator]
    "abs": lambda call, v: _number(call, abs(v[0])),  # type: ignore[arg-type]
    "cast": _cast,
    "date_trunc": _date_trunc,
    "year": lambda call, v: _day(v[0]).year,
    "month": lambda call, v: _day(v[0]).month,
    "date_add": lambda call, v: _days(int(v[0]) + int(v[1])),  # type: ignore[arg-type]
    "date_sub": lambda call, v: _days(int(v[0]) - int(v[1])),  # type: ignore[arg-type]
    "date_diff": lambda call, v: _days(int(v[0]) - int(v[1])),  # type: ignore[arg-type]
    "subtract_dates": lambda call, v: _instant((int(v[0]) - int(v[1])) * 864 * 10**8),  # type: ignore[arg-type]
    "subtract_timestamps": lambda call, v: _instant(int(v[0]) - int(v[1])),  # type: ignore[arg-type]
    "timestamp_diff": _timestamp_diff,
    "unix_date": lambda call, v: v[0],
    "unix_micros": lambda call, v: v[0],
    "unix_millis": lambda call, v: int(v[0]) // 1000,  # type: ignore[arg-type]
    "unix_seconds": lambda call, v: int(v[0]) // 10**6,  # type: ignore[arg-type]
    "unix_timestamp": lambda call, v: int(Fraction(int(v[0]), 10**6)),  # type: ignore[arg-type]
    "add_months": _add_months,
    "timestamp_add_interval": lambda call, v: _instant(int(v[0]) + int(v[1])),  # type: ignore[arg-type]
    "starts_with": lambda call, v: str(v[0]).startswith(str(v[1])),
    "like": _like,
    "substring": lambda call, v: str(v[0])[: max(int(v[2]), 0)],  # type: ignore[arg-type]
    "concat": lambda call, v: "".join(map(str, v)),
}
