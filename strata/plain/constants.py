"""Fit constants to the column that they are compared with, as Spark's analysis coerces them.

Where Spark would widen the column beyond what is listed here, or cast a text of an unusual form,
the constant is refused: the filter then needs Spark.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from enum import Enum, auto
from typing import Any, Final

from strata.errors import InvalidRequest
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.sparktype import INT32, INT64, spark_type
from strata.plain.types import WHOLE

CAST: Final = (("ansi", "ansi"), ("zone", "UTC"))
_WIDE: Final = Context(prec=76)
_LISTED_DIGITS: Final = {"integer": 10, "long": 20}  # of the decimals that hold these types
_EXACT_DIGITS: Final = 15  # of a decimal that a double holds without rounding twice
_WHOLE: Final = re.compile(r"-?\d+", re.ASCII)
_POINT: Final = re.compile(r"-?(\d+\.\d*|\.\d+)", re.ASCII)
_POWER: Final = re.compile(r"-?(\d+\.?\d*|\.\d+)[eE][+-]?\d+", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2})(?:(:\d{2})(\.\d{1,6})?)?(Z?)", re.ASCII
)
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000


class Spelling(Enum):
    """How a constant is written."""

    NUMBER = auto()
    TEXT = auto()
    BOOL = auto()
    DATE = auto()  # date'...'
    TIMESTAMP = auto()  # timestamp'...'
    TIMESTAMP_NTZ = auto()  # timestamp_ntz'...'


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a filter's text."""

    kind: Spelling
    text: str  # without quotes


def coerced(
    column: Expr, constants: Sequence[Constant | Expr], *, listed: bool = False
) -> tuple[Expr, tuple[Expr, ...]]:
    """Return a value of a row and constants in the type in which Spark compares them.

    `constants`: as written, or times that depend on the clock.
    `listed`: the constants of an IN, where Spark gives a whole number all digits of its type.
    Raises: InvalidRequest where that is not one of the simple cases.
    """
    if column.type == "timestamp_ntz" and any(map(_is_zoned, constants)):
        column = Call("cast", (column,), "timestamp", CAST)
    written = [one for one in constants if isinstance(one, Constant)]
    column, values = _coerced(column, written, listed=listed)
    fitted = iter(values)
    return column, tuple(
        next(fitted) if isinstance(one, Constant) else _of_clock(one, column) for one in constants
    )


def _is_zoned(constant: Constant | Expr) -> bool:
    if isinstance(constant, Constant):
        return constant.kind is Spelling.TIMESTAMP
    return constant.type == "timestamp"


def _of_clock(time: Expr, column: Expr) -> Expr:
    if time.type != column.type:
        raise needs_spark(f"a comparison of {column.type} with {time.type}")
    return time


def _coerced(
    column: Expr, constants: Sequence[Constant], *, listed: bool
) -> tuple[Expr, tuple[Expr, ...]]:
    if column.type in WHOLE:
        return _whole(column, [_integer(one) for one in constants])
    if column.type == "float":
        column_seen: Expr = Call("cast", (column,), "double", CAST)
        return column_seen, tuple(Literal(_double(one), "double") for one in constants)
    if spark_type(column.type).family == "decimal":
        values = [_decimal(one, column.type, listed=listed) for one in constants]
        return column, tuple(Literal(value, column.type) for value in values)
    convert = _CONVERT.get(column.type)
    if convert is None:
        raise needs_spark(column.type)
    return column, tuple(Literal(convert(one, column.type), column.type) for one in constants)


def _whole(column: Expr, values: Sequence[int]) -> tuple[Expr, tuple[Expr, ...]]:
    """Return an integer column and constants in the widest of their types."""
    names = [column.type, *(_integer_type(value) for value in values)]
    widest = max(names, key=WHOLE.index)
    seen = column if column.type == widest else Call("cast", (column,), widest, CAST)
    return seen, tuple(Literal(value, widest) for value in values)


def _integer(constant: Constant) -> int:
    if constant.kind is not Spelling.NUMBER or not _WHOLE.fullmatch(constant.text):
        raise needs_spark(constant.text)
    value = int(constant.text) if len(constant.text) <= 20 else INT64[1] + 1
    if not INT64[0] <= value <= INT64[1]:
        raise needs_spark(constant.text)
    return value


def _integer_type(value: int) -> str:
    return "integer" if INT32[0] <= value <= INT32[1] else "long"


def _decimal(constant: Constant, kind: str, *, listed: bool) -> Decimal:
    """Return a number that decimal(p, s) holds, with s digits behind the point."""
    text = constant.text
    if constant.kind is not Spelling.NUMBER or len(text) > 40:
        raise needs_spark(text)
    if _WHOLE.fullmatch(text):
        number = _integer(constant)
        least = _LISTED_DIGITS[_integer_type(number)] if listed else 1
        value = Decimal(number)
    elif _POINT.fullmatch(text):
        value, least = Decimal(text), 0
    else:
        raise needs_spark(text)
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    before = max(len(digits) - scale, least)
    held = spark_type(kind)
    precision = len(str(held.high))
    if scale > held.scale or before > precision - held.scale:
        raise needs_spark(text)
    scaled = value.quantize(Decimal(1).scaleb(-held.scale), context=_WIDE)
    return scaled if scaled else abs(scaled)  # a decimal has no negative zero


def _double(constant: Constant, _: str = "double") -> float:
    text = constant.text
    if constant.kind is not Spelling.NUMBER:
        raise needs_spark(text)
    if _WHOLE.fullmatch(text):
        if abs(_integer(constant)) > 2**53:
            raise needs_spark(text)
        return float(int(text))
    digits = text.replace(".", "").lstrip("-0").rstrip("0")
    if _POINT.fullmatch(text) and len(digits) <= _EXACT_DIGITS and len(text) <= 2 * _EXACT_DIGITS:
        return float(text) or 0.0  # a decimal has no negative zero
    value = float(text) if _POWER.fullmatch(text) else math.nan
    if not math.isfinite(value) or not value:
        raise needs_spark(text)
    return value


def _text(constant: Constant, _: str) -> str:
    if constant.kind is not Spelling.TEXT:
        raise needs_spark(constant.text)
    return constant.text


def _bool(constant: Constant, _: str) -> bool:
    if constant.kind is not Spelling.BOOL:
        raise needs_spark(constant.text)
    return constant.text == "true"


def _date(constant: Constant, _: str) -> int:
    if constant.kind not in (Spelling.TEXT, Spelling.DATE) or not _DAY.fullmatch(constant.text):
        raise needs_spark(constant.text)
    return _days(constant.text)


def _timestamp(constant: Constant, kind: str) -> int:
    """Return microseconds since 1970 of a day or moment; `Z` only where the type has a zone."""
    zoned = kind == "timestamp"
    typed = Spelling.TIMESTAMP if zoned else Spelling.TIMESTAMP_NTZ
    text = constant.text
    if constant.kind not in (Spelling.TEXT, Spelling.DATE, typed):
        raise needs_spark(text)
    if _DAY.fullmatch(text):
        return _days(text) * _DAY_US
    found = _MOMENT.fullmatch(text)
    if constant.kind is Spelling.DATE or found is None or (found[5] and not zoned):
        raise needs_spark(text)
    try:
        clock = datetime.strptime(found[2] + (found[3] or ":00"), "%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        raise needs_spark(text) from None
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
    fraction = int((found[4] or ".").removeprefix(".").ljust(6, "0"))
    return _days(found[1]) * _DAY_US + seconds * 1_000_000 + fraction


def _days(text: str) -> int:
    """Return days since 1970; a day that no calendar has is refused."""
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        raise needs_spark(text) from None


_CONVERT: Final[Mapping[str, Callable[[Constant, str], Any]]] = {
    "double": _double,
    "string": _text,
    "boolean": _bool,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
}


def needs_spark(construct: str) -> InvalidRequest:
    """Return the refusal of a filter, for a part of it that is not plain."""
    return InvalidRequest(
        "the filter needs Spark",
        construct=construct[:200],
        cure="read it with Spark, or compare columns with constants of their types",
    )
