"""Weaken the condition of another engine to a plain filter, which may choose parts for it.

The engine filters the rows itself, by its own meaning. So the plain filter has to be true on every
row on which the engine's condition is true, and may be true on others: what is not surely
understood is left out of an AND. The filter is a text of `strata.plain.parse`, so it is planned,
logged and softly evaluated like any other.

Meanings differ in these places, and the weaker one is taken: NaN (Arrow: unlike everything; Spark,
Polars, DuckDB: largest), null in a list, -0.0 in a list, constants that a column cannot hold.

Errs: towards a filter that keeps more. Law: `tests/laws/test_engines.py`.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, assert_never

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.model.schema import Relation
from strata.plain.conditions import (
    OPPOSITE,
    Among,
    And,
    Compare,
    Condition,
    Day,
    Flag,
    IsNan,
    IsNull,
    Leaf,
    Moment,
    Not,
    NotUnderstood,
    Only,
    Or,
    StartsWith,
    Value,
)
from strata.plain.parse import plain_filter
from strata.plain.types import WHOLE, comparable_type

LISTED_MAX: Final = 100  # values of a list; a longer one becomes the range that holds them
TEXT_MAX: Final = 200  # characters of a text
_FLOATING: Final = {"double": 2**53, "float": 2**24}  # up to where they hold every whole number
_BITS: Final = dict(zip(WHOLE, (8, 16, 32, 64), strict=True))
_ABOVE: Final = "1.7976931348623157E308"  # only infinity and, in Spark's order, NaN lie above it
_RISING: Final = frozenset({"=", ">", ">="})
_TROUBLE: Final = frozenset("'\\`$")  # ends of a text, escapes, variables


def weaker(relation: Relation, condition: Condition, now: int | None = None) -> Filter | None:
    """Return a plain filter that is true wherever `condition` is; None if there is no use in one.

    Units: `now` as in `plain_filter`.
    """
    try:
        text = _Weaker(relation).text(condition, wanted=True)
        return None if text is None else plain_filter(relation, text, now)
    except (InvalidRequest, RecursionError):  # too long, or too deep
        return None


class _Weaker:
    """Writes texts over the columns of one relation."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._kinds = {
            c.name: comparable_type(c.type)
            for c in relation.columns
            if "`" not in c.name and c.name.isprintable()
        }

    def text(self, condition: Condition, *, wanted: bool) -> str | None:
        """Return what is true wherever the condition is `wanted`: true, or false."""
        match condition:
            case NotUnderstood():
                return None
            case Not(part):
                return self.text(part, wanted=not wanted)
            case And(parts) | Or(parts):
                some = [self.text(part, wanted=wanted) for part in parts]
                return _all(some) if isinstance(condition, And) is wanted else _any(some)
            case Only(first, then):
                return _all([self.text(first, wanted=True), self.text(then, wanted=wanted)])
        return self._checked(condition, wanted=wanted)

    def _checked(self, leaf: Leaf, *, wanted: bool) -> str | None:
        """Return the text of a leaf if it is plain."""
        kind = self._kinds.get(leaf.column)
        found = None if kind is None else self._leaf(leaf, kind, wanted=wanted)
        if found is None:
            return None
        try:
            plain_filter(self._relation, found, 0)
        except InvalidRequest:
            return None
        return found

    def _leaf(self, leaf: Leaf, kind: str, *, wanted: bool) -> str | None:
        name = f"`{leaf.column}`"
        match leaf:
            case Compare():
                return _compared(leaf, name, kind, wanted=wanted)
            case Among():
                return _listed(leaf, name, kind, wanted=wanted)
            case IsNull():
                nan = leaf.nan and kind in _FLOATING and wanted
                return _any([f"{name} is {'' if wanted else 'not '}null", *_nan(name, nan)])
            case IsNan():
                if kind not in _FLOATING:
                    return None
                return f"{name} > {_ABOVE}" if wanted else f"{name} is not null"
            case StartsWith():
                return _begun(leaf, name, kind, wanted=wanted)
            case Flag():
                return name if wanted else f"not {name}"
        assert_never(leaf)


def _all(texts: Sequence[str | None]) -> str | None:
    """Return the conjunction of what is known."""
    known = [text for text in texts if text is not None]
    return _joined(" and ", known) if known else None


def _any(texts: Sequence[str | None]) -> str | None:
    """Return the disjunction, if all of it is known."""
    known = [text for text in texts if text is not None]
    return _joined(" or ", known) if known and len(known) == len(texts) else None


def _joined(word: str, texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else "(" + word.join(f"({text})" for text in texts) + ")"


def _nan(name: str, wanted: bool) -> list[str]:
    return [f"{name} > {_ABOVE}"] if wanted else []


def _compared(leaf: Compare, name: str, kind: str, *, wanted: bool) -> str | None:
    operator = leaf.operator if wanted else OPPOSITE[leaf.operator]
    value = leaf.value
    if isinstance(value, float) and math.isinf(value):
        above = value > 0 and operator in _RISING and kind in _FLOATING
        return f"{name} > {_ABOVE}" if above else None
    constant = _constant(value, kind)
    if constant is None:
        begun = _clean(value) if isinstance(value, str) and kind == "string" else ""
        return f"{name} >= '{begun}'" if begun and operator in _RISING else None
    # In Arrow NOT (x > 1) is true of NaN.
    nan = kind in _FLOATING and not wanted and leaf.operator in (">", ">=")
    return _any([f"{name} {operator} {constant}", *_nan(name, nan)])


def _listed(leaf: Among, name: str, kind: str, *, wanted: bool) -> str | None:
    if not wanted and kind in _FLOATING:
        return None  # whether -0.0 is in a list that has 0.0 differs
    if kind == "float" and not all(_single(value) for value in leaf.values):
        return None  # Arrow rounds them
    constants = [_constant(value, kind) for value in leaf.values]
    known = [constant for constant in constants if constant is not None]
    if not known or len(known) < len(constants):
        return None
    null = [f"{name} is null"] if leaf.null or not wanted else []
    if len(known) <= LISTED_MAX:
        return _any([f"{name} {'' if wanted else 'not '}in ({', '.join(known)})", *null])
    if not wanted:
        return None
    ends = _ends(leaf.values, kind)
    return _any([f"{name} between {ends[0]} and {ends[1]}", *null]) if ends else None


def _single(value: Value) -> bool:
    """Return whether a float of 32 bits holds a number."""
    try:
        return isinstance(value, float) and struct.unpack("f", struct.pack("f", value))[0] == value
    except OverflowError:
        return False


def _ends(values: Sequence[Value], kind: str) -> tuple[str, str] | None:
    """Return the constants between which all values lie."""
    first = values[0]
    if not all(type(value) is type(first) for value in values):
        return None
    order = _ORDERS.get(type(first), lambda value: value)
    low, high = _constant(min(values, key=order), kind), _constant(max(values, key=order), kind)
    return None if low is None or high is None else (low, high)


def _begun(leaf: StartsWith, name: str, kind: str, *, wanted: bool) -> str | None:
    clean = _clean(leaf.prefix)
    if kind != "string" or not clean:
        return None
    if clean == leaf.prefix and not {"%", "_"} & set(clean):
        return f"{name} {'' if wanted else 'not '}like '{clean}%'"
    return f"{name} >= '{clean}'" if wanted else None


def _clean(text: str) -> str:
    """Return the beginning of a text that means itself between quotes."""
    for position, letter in enumerate(text[:TEXT_MAX]):
        if letter in _TROUBLE or not letter.isprintable():
            return text[:position]
    return text[:TEXT_MAX]


def _constant(value: Value, kind: str) -> str | None:
    """Return a value in Spark SQL, if it is exactly comparable with a column of this type."""
    written = _WRITTEN.get(type(value))
    return None if written is None else written(value, kind)


def _bool(value: bool, kind: str) -> str | None:
    return str(value).lower() if kind == "boolean" else None


def _whole(value: int, kind: str) -> str | None:
    if kind in _FLOATING:
        return _float(float(value), kind) if abs(value) <= _FLOATING[kind] else None
    if kind in _BITS:
        half = 1 << (_BITS[kind] - 1)
        return str(value) if -half <= value < half else None
    return str(value) if kind.startswith("decimal") else None


def _float(value: float, kind: str) -> str | None:
    if kind not in _FLOATING or not math.isfinite(value):
        return None
    return f"{value:.16e}" if value else "0"  # an exponent makes it a double, not a decimal


def _decimal(value: Decimal, kind: str) -> str | None:
    if not kind.startswith("decimal") or not value.is_finite():
        return None
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0")
    return (text if "." in text else f"{text}.") if value else "0"


def _text(value: str, kind: str) -> str | None:
    return f"'{value}'" if kind == "string" and _clean(value) == value else None


def _day(value: Day, kind: str) -> str | None:
    try:
        text = (date(1970, 1, 1) + timedelta(value.days)).isoformat()
    except OverflowError:
        return None
    return f"date'{text}'" if kind == "date" else None


def _moment(value: Moment, kind: str) -> str | None:
    try:
        moment = datetime(1970, 1, 1) + timedelta(microseconds=value.microseconds)  # noqa: DTZ001
    except OverflowError:
        return None
    if kind != ("timestamp" if value.zoned else "timestamp_ntz"):
        return None
    return f"'{moment.isoformat(' ', 'microseconds')}{'Z' if value.zoned else ''}'"


_WRITTEN: Final[Mapping[type, Callable[[Any, str], str | None]]] = MappingProxyType(
    {
        bool: _bool,
        int: _whole,
        float: _float,
        Decimal: _decimal,
        str: _text,
        Day: _day,
        Moment: _moment,
    }
)
_ORDERS: Final[Mapping[type, Callable[[Any], Any]]] = MappingProxyType(
    {
        str: lambda value: value.encode(),
        Day: lambda value: value.days,
        Moment: lambda value: value.microseconds,
    }
)
