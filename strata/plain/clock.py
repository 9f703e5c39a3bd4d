"""Times that depend on the clock of a read: now and today, and some time before or after.

`clock_value` reads them from SQLGlot's tree, `settled` puts the time of one read in their place.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal

_DAY_US: Final = 86_400_000_000
_UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "SECOND": 1_000_000,
        "MINUTE": 60_000_000,
        "HOUR": 3_600_000_000,
        "DAY": _DAY_US,
        "WEEK": 7 * _DAY_US,
    }
)
_COUNT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
_ZONE: Final = (("zone", "UTC"),)
UNBRACKETED: Final = frozenset({"CURRENT_TIMESTAMP", "CURRENT_DATE"})
NOW: Final = Call("current_timestamp", (), "timestamp")
TODAY: Final = Call("current_date", (), "date", _ZONE)


def clock_value(node: exp.Expr) -> Expr | None:
    """Return a time that depends on the clock; None for anything else."""
    if _is_now(node):
        return NOW
    if _is_today(node):
        return TODAY
    if isinstance(node, exp.TsOrDsAdd):
        return _moved_days(node)
    if isinstance(node, exp.Add | exp.Sub) and not set(node.args) - {"this", "expression"}:
        return _moved(node, -1 if isinstance(node, exp.Sub) else 1)
    return None


def _is_now(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() == "now" and not node.expressions
    return isinstance(node, exp.CurrentTimestamp) and not any(node.args.values())


def _is_today(node: exp.Expr) -> bool:
    return isinstance(node, exp.CurrentDate) and not any(node.args.values())


def _moved_days(node: exp.Expr) -> Expr | None:
    """Return date_add or date_sub of today."""
    days, unit = node.expression, node.args.get("unit")
    if not _is_today(node.this) or unit is None or unit.name != "DAY":
        return None
    if isinstance(days, exp.Mul) and days.expression == exp.Neg(this=exp.Literal.number(1)):
        count = _number(days.this)
        return None if count is None else _later("date_sub", count)
    count = _number(days)
    return None if count is None else _later("date_add", count)


def _later(function: str, days: int) -> Expr:
    return Call(function, (TODAY, Literal(days, "integer")), "date")


def _moved(node: exp.Expr, sign: int) -> Expr | None:
    """Return now or today, some interval or number of days earlier or later."""
    by = node.expression
    if _is_today(node.this) and isinstance(by, exp.Literal):
        count = _number(by)
        return None if count is None else _later("date_sub" if sign < 0 else "date_add", count)
    span = _span(by)
    if span is None:
        return None
    if _is_now(node.this):
        moved = Literal(sign * span, "interval day to second")
        return Call("timestamp_add_interval", (NOW, moved), "timestamp", _ZONE)
    if _is_today(node.this) and by.args["unit"].name.upper().rstrip("S") == "DAY":
        return _later("date_add", sign * (span // _DAY_US))
    return None


def _span(node: exp.Expr) -> int | None:
    """Return an interval of one unit, in microseconds."""
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    size = _UNITS.get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
    text = node.this.this
    return int(text) * size if size is not None and _COUNT.fullmatch(text) else None


def _number(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Neg):
        found = _number(node.this)
        return None if found is None else -found
    if not isinstance(node, exp.Literal) or node.is_string or not _COUNT.fullmatch(node.this):
        return None
    return int(node.this)


def settled(filter: Filter) -> Expr:
    """Return the expression of a filter with the time of its read in the place of the clock.

    Units: as in `strata.plain.rows`: microseconds and days since 1970.
    """
    return _settled(filter.expr, filter.now_low)


def _settled(expr: Expr, now: int) -> Expr:
    if not isinstance(expr, Call):
        return expr
    args = tuple(_settled(arg, now) for arg in expr.args)
    rule = _SETTLED.get(expr.function)
    return replace(expr, args=args) if rule is None else Literal(rule(now, args), expr.type)


_Rule = Callable[[int, tuple[Expr, ...]], int]
_SETTLED: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        "current_timestamp": lambda now, _: now,
        "current_date": lambda now, _: now // _DAY_US,
        "timestamp_add_interval": lambda _, args: _sum(args, 1),
        "date_add": lambda _, args: _sum(args, 1),
        "date_sub": lambda _, args: _sum(args, -1),
    }
)


def _sum(args: tuple[Expr, ...], sign: int) -> int:
    first, second = map(_constant, args)
    return first + sign * second


def _constant(expr: Expr) -> int:
    assert isinstance(expr, Literal)
    assert isinstance(expr.value, int)
    return expr.value
