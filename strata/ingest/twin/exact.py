"""Numbers as their digits: they are rounded only when a type requires it, and only once."""

import re
import struct
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from strata.ingest.twin.unreadable import Unreadable
from strata.model.types import ColumnType, Kind

NAN: Final = "NaN"  # a text, as NaN is not equal to itself
DIGITS: Final = 39  # of a numeric without a precision
FAR: Final = 10**15  # larger exponents are cut to this, which makes no difference
INTEGERS: Final = {
    Kind.INT16: (-(2**15), 2**15 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
    Kind.UINT8: (0, 2**8 - 1),
    Kind.UINT16: (0, 2**16 - 1),
    Kind.UINT32: (0, 2**32 - 1),
    Kind.UINT64: (0, 2**64 - 1),
    Kind.OID: (0, 2**32 - 1),
    Kind.MZ_TIMESTAMP: (0, 2**64 - 1),
    Kind.YEAR_MONTH: (-(2**31), 2**31 - 1),
}
FORM: Final = re.compile(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]+))?")
SPECIAL: Final = {"nan": NAN, "inf": "inf", "infinity": "inf"}
MAX_FLOAT32: Final = Fraction(2) ** 128


@dataclass(frozen=True, slots=True)
class Exact:
    """A number: digits * 10^exponent; no zeros at either end of the digits, zero has none."""

    negative: bool
    digits: str
    exponent: int

    @classmethod
    def of(cls, text: str) -> "Exact":
        """Return the number that a decimal text says. Raises: Unreadable."""
        found = FORM.fullmatch(text)
        if found is None:
            raise Unreadable("not a number")
        sign, whole, behind, only, power = found.groups()
        fraction = only or behind or ""
        digits = ((whole or "") + fraction).lstrip("0")
        kept = digits.rstrip("0")
        if not kept:
            return cls(False, "", 0)
        exponent = _power(power or "0") - len(fraction) + len(digits) - len(kept)
        return cls(sign == "-", kept, exponent)

    @classmethod
    def of_decimal(cls, value: Decimal) -> "Exact":
        """Return a finite decimal as it is."""
        return cls.of(str(value))

    @property
    def size(self) -> int:
        """Return the power of ten above the first digit."""
        return len(self.digits) + self.exponent

    def decimal(self) -> Decimal:
        """Return the same number as a decimal."""
        return Decimal((int(self.negative), tuple(map(int, self.digits)), self.exponent))

    def integer(self) -> int:
        """Return a number without a fraction of at most 40 digits. Raises: Unreadable."""
        if not self.digits:
            return 0
        if self.exponent < 0:
            raise Unreadable("not an integer")
        if self.size > 40:
            raise Unreadable("out of range")
        number: int = int(self.digits) * 10**self.exponent
        return -number if self.negative else number


def _power(text: str) -> int:
    digits = text.lstrip("+-").lstrip("0")
    number = FAR if len(digits) > 15 else int(digits or "0")
    return -number if text.startswith("-") else number


def as_integer(number: Exact, column_type: ColumnType) -> int:
    """Return the integer of a number. Raises: Unreadable outside the type's limits."""
    value = number.integer()
    low, high = INTEGERS[column_type.kind]
    if not low <= value <= high:
        raise Unreadable("out of range")
    return value


def as_float(number: Exact, column_type: ColumnType) -> float:
    """Return the nearest float of the type, rounded once, ties to even.

    Raises: Unreadable if that is infinite, or zero for another number.
    """
    if not number.digits:
        return 0.0
    if column_type.kind is Kind.FLOAT32:
        value = _float32(number)
    else:
        value = float(f"{'-' if number.negative else ''}{number.digits}e{number.exponent}")
    if value in (float("inf"), float("-inf")):
        raise Unreadable("out of range")
    if not value:
        raise Unreadable("so small that it would be zero")
    return value


def _float32(number: Exact) -> float:
    if number.size > 40:
        raise Unreadable("out of range")
    if number.size < -50:
        return 0.0
    exact = Fraction(int(Decimal(number.digits))) * Fraction(10) ** number.exponent
    power = exact.numerator.bit_length() - exact.denominator.bit_length()
    if Fraction(2) ** power > exact:
        power -= 1
    step = Fraction(2) ** (max(power, -126) - 23)
    rounded = round(exact / step) * step  # of fractions: ties to even
    if rounded >= MAX_FLOAT32:
        raise Unreadable("out of range")
    value = float(rounded)
    return -value + 0.0 if number.negative else value


def as_numeric(number: Exact, column_type: ColumnType) -> Decimal:
    """Return the number itself. Raises: Unreadable if the type cannot hold all its digits."""
    precision, scale = column_type.precision, column_type.scale
    if precision is None or scale is None:
        if len(number.digits) > DIGITS or abs(number.exponent) >= 2**31:
            raise Unreadable(f"more than {DIGITS} digits")
        return number.decimal()
    if number.digits and (-number.exponent > scale or number.size > precision - scale):
        raise Unreadable(f"does not fit into {column_type}")
    return number.decimal()


def special_number(text: str) -> str | float | None:
    """Return NaN or an infinity that a text names, else None."""
    body = text.lower()
    negative, plain = body.startswith("-"), body.removeprefix("-")
    name = SPECIAL.get(plain if negative else body.removeprefix("+"))
    if name is None or name == NAN:
        return name
    return float("-inf" if negative else "inf")


def number_from_text(text: str, column_type: ColumnType) -> object:
    """Return a float or numeric that a text says. Raises: Unreadable."""
    named = special_number(text)
    if named is None:
        return number_of(Exact.of(text), column_type)
    if column_type.kind is Kind.NUMERIC:
        if column_type.precision is not None:
            raise Unreadable("NaN and infinities need a numeric without a precision")
        return named if isinstance(named, str) else Decimal(named)
    return named


def number_of(number: Exact, column_type: ColumnType) -> object:
    """Return a number in the form of any numeric type. Raises: Unreadable."""
    if column_type.kind in INTEGERS:
        return as_integer(number, column_type)
    if column_type.kind is Kind.NUMERIC:
        return as_numeric(number, column_type)
    return as_float(number, column_type)


def _numeric_of_float(value: float, column_type: ColumnType, width: str) -> Decimal:
    """Return a float's exact value if it fits, else the number of its shortest text.

    Raises: Unreadable if neither fits.
    """
    for number in (Exact.of_decimal(Decimal(value)), Exact.of(shortest(value, width))):
        with suppress(Unreadable):
            return as_numeric(number, column_type)
    raise Unreadable(f"does not fit into {column_type}")


def shortest(value: float, width: str) -> str:
    """Return the shortest decimal text of a finite float; the nearest one, if some are as short.

    `width`: the letter of the float in `struct`: d, f or e.

    >>> shortest(0.1, "d"), shortest(0.10000000149011612, "f"), shortest(0.0999755859375, "e")
    ('0.1', '0.1', '0.1')
    """
    if width == "d" or not value:
        return repr(value)
    exact = Decimal(value)
    for digits in range(1, 18):
        last = Decimal((0, (1,), exact.adjusted() - digits + 1))
        near = exact.quantize(last)
        tries = sorted(
            (near, near - last, near + last),
            key=lambda one: abs(Fraction(one) - Fraction(exact)),
        )
        for text in (str(one.normalize()) for one in tries):
            if _rounded(text, width) == value:
                return text
    raise AssertionError(value)


def _rounded(text: str, width: str) -> float | None:
    try:
        found: float = struct.unpack(width, struct.pack(width, float(text)))[0]
    except OverflowError:
        return None
    return found


def number_of_float(value: float, column_type: ColumnType, width: str = "d") -> object:
    """Return a float's value in the form of any numeric type; for `width` see `shortest`.

    Raises: Unreadable.
    """
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124  NaN
        if column_type.kind in INTEGERS:
            raise Unreadable("not an integer")
        return number_from_text(str(value), column_type)
    if column_type.kind is Kind.NUMERIC:
        return _numeric_of_float(value, column_type, width)
    return number_of(Exact.of_decimal(Decimal(value)), column_type)
