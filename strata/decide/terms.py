"""What a value is made of, where a pair of places may say how it compares with another.

A term is the value of one place, perhaps moved by a constant, counted in whole units (seconds,
days), and moved again. Two terms in the same unit differ as their places do. Casts that change no
number are looked through.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from strata.decide.places import accessed
from strata.expr.calendar import DAY_US, SECOND_US
from strata.expr.entry import abroad, wraps
from strata.expr.functions.timestamps import foreign
from strata.expr.nodes import Call, Column, Expr
from strata.expr.sparktype import SparkType, spark_type
from strata.stats.wire import pair_name, parse_inside

FURTHEST: Final = 2**60  # constants beyond it are not used, so that no sum overflows
COMPARED: Final = frozenset(
    {"equal_to", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"}
)
SUBTRACTED: Final = frozenset(
    {"subtract", "date_diff", "subtract_dates", "subtract_timestamps", "timestamp_diff"}
)
PAIRED: Final = COMPARED | SUBTRACTED | {"divide"}
_NUMBERS: Final = frozenset({"byte", "short", "integer", "long", "float", "double"})
_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
_COUNTED: Final = {
    "unix_seconds": SECOND_US,
    "unix_millis": 1000,
    "unix_micros": 1,
    "unix_timestamp": SECOND_US,
}
Constant = Callable[[Expr], int | None]  # the value of a constant expression


@dataclass(frozen=True, slots=True)
class Held:
    """A value that may wrap when it is moved: it must stay in its type's range."""

    expr: Expr  # what is moved
    by: int
    kind: SparkType


@dataclass(frozen=True, slots=True)
class Term:
    """The value of a place: floor((value + before) / unit) + after."""

    column: Column
    place: str  # the statistics of the place
    before: int = 0
    unit: int = 1
    toward_zero: bool = False  # rounded so, instead of down
    after: int = 0
    sure: bool = True  # computing it never fails
    held: tuple[Held, ...] = ()


def term(expr: Expr, constant: Constant) -> Term | None:
    """Return what a value is made of; None if it is not made of one place."""
    if (plain := _place(expr)) is not None:
        return plain
    if not isinstance(expr, Call) or not expr.args:
        return None
    name, kind = expr.function, spark_type(expr.type)
    if name == "cast":
        return _cast(expr, constant)
    if name in _COUNTED:
        return _counted(expr, constant)
    if name == "unix_date":
        return term(expr.args[0], constant)
    if name in ("add", "subtract") and kind.family == "int" and expr.type in _INTEGERS:
        return _moved(expr, constant, wraps(expr), falling=name == "subtract")
    if name == "timestamp_add_interval" and not foreign(expr):
        return _moved(expr, constant, held=False)
    if name in ("date_add", "date_sub"):
        return _moved(expr, constant, held=True, falling=name == "date_sub")
    return None


def _place(expr: Expr) -> Term | None:
    place, column = accessed(expr), _column(expr)
    if place is None or column is None or parse_inside(place) is None:
        return None
    return Term(column, place)


def _column(expr: Expr) -> Column | None:
    while isinstance(expr, Call) and expr.function == "get_struct_field":
        expr = expr.args[0]
    return expr if isinstance(expr, Column) else None


def _cast(call: Call, constant: Constant) -> Term | None:
    source, target = spark_type(call.args[0].type), spark_type(call.type)
    inner = term(call.args[0], constant)
    if inner is None:
        return None
    if source.name in ("timestamp", "timestamp_ntz") and target.name == "date":
        day = inner.unit == 1 and not foreign(call)
        return replace(inner, unit=DAY_US) if day and not inner.after else None
    if source.name == "timestamp" and target.name == "long":  # whole seconds, rounded down
        return replace(inner, unit=SECOND_US) if inner.unit == 1 else None
    return inner if _keeps(source, target) else None


def _keeps(source: SparkType, target: SparkType) -> bool:
    """Return whether a cast changes no number."""
    if source.name in _INTEGERS and target.name in _INTEGERS:
        return source.high <= target.high
    if source.family == target.family == "decimal":
        return source.scale == target.scale and source.high <= target.high
    return source == target or (source.name, target.name) == ("float", "double")


def _counted(call: Call, constant: Constant) -> Term | None:
    if call.args[0].type not in ("timestamp", "timestamp_ntz"):
        return None
    if call.args[0].type == "timestamp_ntz" and abroad(call):
        return None
    inner = term(call.args[0], constant)
    if inner is None or inner.unit != 1:
        return None
    unit = _COUNTED[call.function]
    return replace(inner, unit=unit, toward_zero=call.function == "unix_timestamp")


def _moved(call: Call, constant: Constant, held: bool, *, falling: bool = False) -> Term | None:
    """Return a term moved by a constant; a sum may have its constant on either side."""
    pairs = [(0, 1)] if falling or call.function != "add" else [(0, 1), (1, 0)]
    for place, other in pairs:
        inner = term(call.args[place], constant)
        by = None if inner is None else constant(call.args[other])
        if inner is None or by is None:
            continue
        by = -by if falling else by
        moved = inner.after + by if inner.unit != 1 else inner.before + by
        if abs(moved) > FURTHEST:
            return None
        if held:
            one = Held(call.args[place], by, spark_type(call.type))
            inner = replace(inner, held=(*inner.held, one))
        if inner.unit != 1:
            return replace(inner, after=moved, sure=False)
        return replace(inner, before=moved, sure=False)
    return None


def dividend(expr: Expr) -> Term | None:
    """Return the place of a number that is divided, looking through casts to double."""
    while isinstance(expr, Call) and expr.function == "cast" and expr.type == "double":
        if expr.args[0].type not in _NUMBERS:
            return None
        expr = expr.args[0]
    return _place(expr) if expr.type in _NUMBERS else None


def subtracted(expr: Expr) -> tuple[Call, Term, Term] | None:
    """Return a difference of two places that is divided, and the places."""
    if isinstance(expr, Call) and expr.function == "cast" and expr.type == "double":
        expr = expr.args[0]
    if not isinstance(expr, Call) or expr.function != "subtract":
        return None
    if expr.type not in (*_INTEGERS, "double"):
        return None
    left, right = (term(arg, lambda _: None) for arg in expr.args)
    return None if left is None or right is None else (expr, left, right)


def paired_places(expr: Expr) -> Iterator[str]:
    """Yield the statistics of all pairs that an expression compares, some more than once."""
    if not isinstance(expr, Call):
        return
    if expr.function in PAIRED and len(expr.args) == 2:
        yield from _of_terms(*(term(arg, _some_constant) for arg in expr.args))
    if expr.function == "divide":
        yield from _of_terms(*map(dividend, expr.args))
        if (found := subtracted(expr.args[0])) is not None:
            yield from _of_terms(*found[1:])
    for arg in expr.args:
        yield from paired_places(arg)


def _of_terms(left: Term | None, right: Term | None) -> Iterator[str]:
    if left is not None and right is not None and left.place != right.place:
        yield pair_name(left.place, right.place)
        yield pair_name(right.place, left.place)


def reads_column(expr: Expr) -> bool:
    """Return whether an expression depends on a row."""
    if isinstance(expr, Call):
        return any(map(reads_column, expr.args))
    return isinstance(expr, Column)


def _some_constant(expr: Expr) -> int | None:
    """Return a number for any constant: which one does not matter for the places."""
    return None if reads_column(expr) else 0
