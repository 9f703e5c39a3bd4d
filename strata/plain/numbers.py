"""Fit numbers to a column of whole numbers or decimals, as Spark widens both sides.

Compared with a fraction, a column of whole numbers stays whole: `a > 3.5` is `a > 3`. In a list or
an equality both sides become the decimal that holds them. An exponent makes both a double, and a
text makes both a long.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import Enum, auto
from typing import Final

from strata.errors import InvalidRequest
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.sparktype import INT32, INT64, spark_type
from strata.plain.types import WHOLE

CAST: Final = (("ansi", "ansi"), ("zone", "UTC"))
_WIDE: Final = Context(prec=76)
_MOST_DIGITS: Final = 38  # of a decimal
_LONGEST: Final = 40  # characters of a number
_WHOLE_DIGITS: Final = dict(zip(WHOLE, (3, 5, 10, 20), strict=True))  # of decimals that hold them
_LONGEST_DOUBLE: Final = 30  # characters; Java and Python round what is shorter alike
_WHOLE: Final = re.compile(r"-?\d+", re.ASCII)
_POINT: Final = re.compile(r"-?(\d+\.\d*|\.\d+)", re.ASCII)
_POWER: Final = re.compile(r"-?(\d+\.?\d*|\.\d+)[eE][+-]?\d+", re.ASCII)
_ZERO: Final = re.compile(r"[0.]+[eE][+-]?\d+", re.ASCII)  # but not -0e0
_TEXT_OF_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


class Spelling(Enum):
    """How a constant is written."""

    NUMBER = auto()
    TEXT = auto()
    BOOL = auto()
    NULL = auto()
    DATE = auto()  # date'...'
    TIMESTAMP = auto()  # timestamp'...'
    TIMESTAMP_NTZ = auto()  # timestamp_ntz'...'


class Compared(Enum):
    """How a value is compared with constants."""

    WITHIN = auto()  # not at all: a function takes both, and keeps the type of whole numbers
    EQUAL = auto()
    LISTED = auto()  # in IN, where Spark gives a whole number all digits of its type
    ABOVE = auto()  # value > constant, value <= constant: as with the whole number below it
    BELOW = auto()  # value >= constant, value < constant: as with the whole number above it


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a filter's text."""

    kind: Spelling
    text: str  # without quotes


Fitted = tuple[Expr, tuple[Expr, ...]]  # a value of a row, and the constants, in one type


def with_whole(column: Expr, constants: Sequence[Constant], how: Compared) -> Fitted:
    """Return a whole number of a row and constants as Spark compares them.

    Raises: InvalidRequest for constants that need Spark.
    """
    other = next((one for one in constants if not _is_whole(one)), None)
    if other is None:
        return _in_widest(column, [_integer(one) for one in constants])
    if how is Compared.WITHIN:
        raise needs_spark(other.text)
    if any(one.kind is Spelling.TEXT for one in constants):
        return _as("long", column, [_integer(one, text=True) for one in constants])
    if any(_POWER.fullmatch(one.text) for one in constants):
        return _as("double", column, [as_double(one) for one in constants])
    if how in (Compared.ABOVE, Compared.BELOW):
        rounding = ROUND_FLOOR if how is Compared.ABOVE else ROUND_CEILING
        return _as("long", column, [_rounded(one, rounding) for one in constants])
    digits = _WHOLE_DIGITS[column.type]
    kind, values = _in_decimal(constants, digits, 0, listed=how is Compared.LISTED)
    if how is Compared.EQUAL:
        column = cast_to(column, f"decimal({digits},0)")
    return cast_to(column, kind), values


def with_decimal(column: Expr, constants: Sequence[Constant], how: Compared) -> Fitted:
    """Return a decimal of a row and constants as Spark compares them.

    Raises: InvalidRequest for constants that need Spark.
    """
    held = spark_type(column.type)
    before = len(str(held.high)) - held.scale
    kind, values = _in_decimal(constants, before, held.scale, listed=how is Compared.LISTED)
    return cast_to(column, kind), values


def as_double(constant: Constant, *, text: bool = False) -> float:
    """Return a number that a double holds as Spark reads it; `text`: it may stand in quotes.

    Raises: InvalidRequest for one that needs Spark.
    """
    written = constant.text
    if constant.kind is Spelling.TEXT and text and _TEXT_OF_NUMBER.fullmatch(written):
        value = float(written)
        if len(written) > _LONGEST_DOUBLE or (not value and written.startswith("-")):
            raise needs_spark(written)
        return value
    if constant.kind is not Spelling.NUMBER:
        raise needs_spark(written)
    if _WHOLE.fullmatch(written):
        if abs(_integer(constant)) > 2**53:
            raise needs_spark(written)
        return float(int(written))
    if _POINT.fullmatch(written) and len(written) <= _LONGEST_DOUBLE:
        return float(written) or 0.0  # a decimal has no negative zero
    value = float(written) if _POWER.fullmatch(written) else math.nan
    if not math.isfinite(value) or (not value and not _ZERO.fullmatch(written)):
        raise needs_spark(written)
    return value


def cast_to(value: Expr, kind: str) -> Expr:
    """Return a value in another type; itself if it has that type."""
    return value if value.type == kind else Call("cast", (value,), kind, CAST)


def _is_whole(constant: Constant) -> bool:
    return constant.kind is Spelling.NUMBER and _WHOLE.fullmatch(constant.text) is not None


def _in_widest(column: Expr, values: Sequence[int]) -> Fitted:
    """Return whole numbers in the widest of their types."""
    names = [column.type, *(_integer_type(value) for value in values)]
    return _as(max(names, key=WHOLE.index), column, values)


def _as(kind: str, column: Expr, values: Sequence[float]) -> Fitted:
    return cast_to(column, kind), tuple(Literal(value, kind) for value in values)


def _integer(constant: Constant, *, text: bool = False) -> int:
    """Return a whole number; `text`: it may stand in quotes."""
    fits = constant.kind is Spelling.NUMBER or (text and constant.kind is Spelling.TEXT)
    if not fits or not _WHOLE.fullmatch(constant.text):
        raise needs_spark(constant.text)
    value = int(constant.text) if len(constant.text) <= 20 else INT64[1] + 1
    if not INT64[0] <= value <= INT64[1]:
        raise needs_spark(constant.text)
    return value


def _integer_type(value: int) -> str:
    return "integer" if INT32[0] <= value <= INT32[1] else "long"


def _rounded(constant: Constant, rounding: str) -> int:
    """Return the whole number below or above a fraction, or the number itself."""
    value = int(_fraction(constant).to_integral_value(rounding))
    if not INT64[0] <= value <= INT64[1]:
        raise needs_spark(constant.text)
    return value


def _fraction(constant: Constant) -> Decimal:
    plain = constant.kind is Spelling.NUMBER and len(constant.text) <= _LONGEST
    if not plain or not _POINT.fullmatch(constant.text):
        raise needs_spark(constant.text)
    return Decimal(constant.text)


def _in_decimal(
    constants: Sequence[Constant], before: int, scale: int, *, listed: bool
) -> tuple[str, tuple[Expr, ...]]:
    """Return the decimal type of a column and constants, and the constants in it.

    `before`, `scale`: the digits of the column before and behind the point.
    """
    numbers: list[Decimal] = []
    for one in constants:
        if _is_whole(one):
            integer = _integer(one)
            value, least = Decimal(integer), 1
            if listed:
                least = _WHOLE_DIGITS[_integer_type(integer)]
        else:
            value, least = _fraction(one), 0
        _, digits, exponent = value.as_tuple()
        behind = max(-int(exponent), 0)
        before, scale = max(before, len(digits) - behind, least), max(scale, behind)
        numbers.append(value)
    if before + scale > _MOST_DIGITS:
        raise needs_spark(constants[0].text)
    kind = f"decimal({before + scale},{scale})"
    scaled = [one.quantize(Decimal(1).scaleb(-scale), context=_WIDE) for one in numbers]
    # A decimal has no negative zero.
    return kind, tuple(Literal(one if one else abs(one), kind) for one in scaled)


def needs_spark(construct: str) -> InvalidRequest:
    """Return the refusal of a filter, for a part of it that is not plain."""
    return InvalidRequest(
        "the filter needs Spark",
        construct=construct[:200],
        cure="read it with Spark, or compare columns with constants of their types",
    )


_ROUNDED: Final[Mapping[str, Compared]] = {
    "greater_than": Compared.ABOVE,
    "less_than_or_equal": Compared.ABOVE,
    "greater_than_or_equal": Compared.BELOW,
    "less_than": Compared.BELOW,
}
_OTHER_SIDE: Final = {Compared.ABOVE: Compared.BELOW, Compared.BELOW: Compared.ABOVE}


def compared_by(function: str, *, mirrored: bool = False) -> Compared:
    """Return how a comparison sees its constant; `mirrored`: the constant stands first.

    >>> compared_by("less_than", mirrored=True)  # 5 < a is a > 5
    <Compared.ABOVE: 4>
    """
    found = _ROUNDED.get(function, Compared.EQUAL)
    return _OTHER_SIDE.get(found, found) if mirrored else found
