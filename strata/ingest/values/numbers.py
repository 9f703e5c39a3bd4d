"""Converts text and number columns to numbers, exactly or not at all.

Arrow's casts to decimals (26.0.1) wrap modulo 2**128 if a text, or a decimal with its new scale,
has too many digits; they round floats, and they read `0x10` as 16. So Arrow converts only values
for which none of that can happen. `exact_decimal` reads the few others.

Text of a float is rounded once, to the nearest value of the column's own width. Nothing else is
ever rounded.
"""

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.values.column import (
    NONE_BAD,
    Cast,
    Rows,
    all_or_halves,
    choose,
    valid,
    with_nulls,
)
from strata.model.types import Kind

MOST_DIGITS: Final = 38  # a decimal of 128 bits holds any number of this many digits
MOST_SHIFT: Final = 10_000  # with a larger exponent, no type holds any number except zero
DECIMAL: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
NUMBER: Final = r"(?i)^[+-]?\d*\.?\d*(?:e[+-]?\d+)?$"
NOT_A_NUMBER: Final = r"(?i)^[+-]?nan$"
INFINITE: Final = r"(?i)^[+-]?inf(inity)?$"
NOT_ZERO: Final = r"^[^eE]*[1-9]"
SPACE, NOT_ASCII = 0x20, 0x80
LONG_ZERO: Final = 38  # characters: no shorter text without exponent is below float32's numbers


def decimals(texts: pa.Array, goal: pa.Decimal128Type) -> Cast:
    """Return texts without white space around them as decimals; texts that do not fit are bad.

    Zeros after the type's last digit do not count: `1.500` fits `numeric(10,2)`.
    """
    convert: Callable[[pa.Array], pa.Array] = lambda some: pc.cast(some, goal)  # noqa: E731
    doubtful = _may_wrap(texts, goal.scale)
    if doubtful is None:
        return all_or_halves(texts, goal, convert, NUMBER)
    plain = all_or_halves(with_nulls(texts, np.flatnonzero(doubtful)), goal, convert, NUMBER)
    others = _one_by_one(with_nulls(texts, np.flatnonzero(~doubtful)), goal)
    return choose(doubtful.tolist(), others, plain)


def _may_wrap(texts: pa.Array, scale: int) -> Rows | None:
    """Return for each text whether it may have too many digits for Arrow; None: none may.

    A text always fits if it has no exponent and is no longer than the allowed digits before the
    point, at any position of its point.
    """
    room = MOST_DIGITS - scale
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    doubtful = lengths > room
    if has_byte(texts, b"eE"):
        shifted = pc.fill_null(pc.match_substring(texts, "e", ignore_case=True), False)
        doubtful |= shifted.to_numpy(zero_copy_only=False)
    return doubtful if doubtful.any() else None


def trimmed(texts: pa.Array) -> pa.Array:
    """Return texts without the white space around them."""
    raw = _bytes_of(texts)
    spaced = bool((raw <= SPACE).any()) or bool((raw >= NOT_ASCII).any())
    return pc.utf8_trim_whitespace(texts) if spaced else texts


def has_byte(texts: pa.Array, wanted: bytes) -> bool:
    """Return whether a column of texts has one of some bytes, possibly under a null."""
    raw = _bytes_of(texts)
    return any(bool((raw == byte).any()) for byte in wanted)


def _bytes_of(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of all texts, one behind the other."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return np.empty(0, np.uint8)
    edges = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8)[edges[0] : edges[-1]]


def _one_by_one(texts: pa.Array, goal: pa.Decimal128Type) -> Cast:
    encoded = texts.dictionary_encode()
    found = [
        text if text is None else exact_decimal(text, goal.precision, goal.scale)
        for text in encoded.dictionary.to_pylist()
    ]
    values = pa.array(found, goal).take(encoded.indices)
    return Cast(values, np.flatnonzero(valid(texts) & ~valid(values)))


def exact_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Return the number in a text, with `scale` places; None if it does not fit exactly.

    >>> exact_decimal("1.500e1", 4, 2), exact_decimal("1e99", 38, 0), exact_decimal("0.001", 4, 2)
    (Decimal('15.00'), None, None)
    """
    found = DECIMAL.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        return None
    part = found[3] or ""
    digits = (found[2] + part).lstrip("0")
    kept = digits.rstrip("0")
    if not kept:
        return Decimal((0, (0,), -scale))
    power = found[4] or "0"
    if len(power.lstrip("+-0")) > len(str(MOST_SHIFT)):
        return None
    shift = int(power) - len(part) + len(digits) - len(kept) + scale
    if shift < 0 or len(kept) + shift > precision:
        return None
    units = tuple(map(int, kept + "0" * shift))
    return Decimal((int(found[1] == "-"), units, -scale))


def as_decimals(values: pa.Array, goal: pa.Decimal128Type) -> Cast:
    """Return a column of numbers of any Arrow type as decimals of the same value.

    A float keeps its own value if it fits; see `float_texts`.
    """
    kind = values.type
    if pa.types.is_decimal(kind):
        places = max(kind.scale, goal.scale)
        fits = kind.precision - kind.scale + places <= MOST_DIGITS and kind.scale >= 0
        if fits and pa.types.is_decimal128(kind) and _within(values):
            return all_or_halves(values, goal, lambda some: pc.cast(some, goal))
    if pa.types.is_floating(kind):
        fits = partial(exact_decimal, precision=goal.precision, scale=goal.scale)
        return decimals(float_texts(values, lambda text: fits(text) is not None), goal)
    return decimals(as_texts(values), goal)


def _within(decimals: pa.Decimal128Array) -> bool:
    """Return whether no number has more digits than its type says, as a HUGEINT of DuckDB may.

    Arrow sees it in all but the least of them, whose opposite exceeds 128 bits.
    """
    least = pc.min(decimals).as_py()
    return least is None or len(least.as_tuple().digits) <= decimals.type.precision


def float_texts(values: pa.Array, fits: Callable[[str], bool]) -> pa.Array:
    """Return floats as the texts of the decimals that they become.

    A float becomes its own value if that `fits`, such as 9007199254740993536. Otherwise it becomes
    the number of its shortest text, so that 0.1 is 0.1 and not 55 digits.
    """
    encoded = as_texts(values).dictionary_encode()
    first = pc.index_in(pa.array(np.arange(len(encoded.dictionary))), encoded.indices)
    some = values.take(first).to_pylist()
    found = []
    for short, value in zip(encoded.dictionary.to_pylist(), some, strict=True):
        exact = str(Decimal(value))
        found.append(exact if math.isfinite(value) and fits(exact) else short)
    return pa.array(found, pa.string()).take(encoded.indices)


def as_texts(values: pa.Array) -> pa.Array:
    """Return numbers as their exact text, or as the text that identifies the float."""
    if pa.types.is_float16(values.type):  # Arrow would write the float32
        found = [v if v is None else str(np.float16(v)) for v in values.to_pylist()]
        return pa.array(found, pa.string())
    return pc.cast(values, pa.string())


def as_floats(values: pa.Array, goal: pa.DataType) -> Cast:
    """Return a column of numbers as floats; a number that is not such a float is bad.

    A decimal is treated and rounded like a text; see `check_floats`.
    """
    if pa.types.is_decimal(values.type):
        texts = as_texts(values)
        return check_floats(pc.cast(texts, goal), texts)
    cast = all_or_halves(values, goal, lambda some: pc.cast(some, goal))
    if pa.types.is_floating(values.type) and values.type.bit_width > goal.bit_width:
        back = pc.cast(cast.values, values.type)
        same = pc.or_(pc.equal(back, values), pc.and_(pc.is_nan(back), pc.is_nan(values)))
        rows = np.flatnonzero(~pc.fill_null(same, True).to_numpy(zero_copy_only=False))
        return Cast(with_nulls(cast.values, rows), cast.bad).also(rows)
    return cast


def check_floats(values: pa.Array, texts: pa.Array) -> Cast:
    """Return floats read from `texts`; those that overflowed, underflowed or became NaN are bad."""
    wrong = np.zeros(len(values), np.bool_)
    for found, meant in ((pc.is_inf(values), INFINITE), (pc.is_nan(values), NOT_A_NUMBER)):
        rows = _rows(found)
        if len(rows):
            wrong[rows[~_matches(texts, rows, meant)]] = True
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > LONG_ZERO or has_byte(texts, b"eE"):
        rows = _rows(pc.equal(values, 0.0))
        if len(rows):
            wrong[rows[_matches(texts, rows, NOT_ZERO)]] = True
    bad = np.flatnonzero(wrong)
    return Cast(with_nulls(values, bad), bad) if len(bad) else Cast(values, NONE_BAD)


def _rows(mask: pa.BooleanArray) -> Rows:
    found: Rows = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
    return found


def _matches(texts: pa.Array, rows: Rows, pattern: str) -> Rows:
    some = pc.utf8_trim_whitespace(texts.take(pa.array(rows)))
    found: Rows = pc.match_substring_regex(some, pattern).to_numpy(zero_copy_only=False)
    return found


def hexadecimal(texts: pa.Array) -> Rows:
    """Return the rows with an x, as in 0x10, which Arrow reads as an integer."""
    if not has_byte(texts, b"xX"):
        return NONE_BAD
    return _rows(pc.match_substring(texts, "x", ignore_case=True))


def no_floats(values: Sequence[object], kind: Kind) -> set[int]:
    """Return the rows whose numbers are none of the floats of a type; others are not looked at.

    >>> no_floats([2**53, 2**53 + 1, "x", 0.1], Kind.FLOAT64), no_floats([0.1, 0.5], Kind.FLOAT32)
    ({1}, {0})
    """
    width: Any = np.float32 if kind is Kind.FLOAT32 else np.float64
    numbers = ((row, one) for row, one in enumerate(values) if isinstance(one, int | float))
    return {row for row, one in numbers if type(one) is not bool and not _is_float(one, width)}


def _is_float(value: float, width: Any) -> bool:
    if value != value:  # noqa: PLR0124 - NaN
        return True
    try:
        with np.errstate(over="ignore"):
            return bool(float(width(value)) == value)
    except OverflowError:
        return False
