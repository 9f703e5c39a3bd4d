"""What the strings at a path of JSON are written like: whole numbers, numbers, moments.

One string after another takes away what it is not. Once nothing is left, strings of that path cost
one comparison. What is left at the end is what `strata.stats.shapes` finds in the same texts; but
long numbers are no numbers here.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bytes, Floats, Int, Ints
from strata.kernels.jit import inlined, lean
from strata.kernels.json_state import (
    DAY_FIRST,
    FORM,
    HIGH_AMOUNT,
    HIGH_WHOLE,
    LIKE,
    LOW_AMOUNT,
    LOW_WHOLE,
    MONTH_FIRST,
    NUMBERS,
    WHOLES,
    YEAR_FIRST,
)

LONGEST: Final = 32  # bytes of a string that is looked at
WHOLE_BYTES: Final = 18  # of a whole number, with its sign
EXACT_DIGITS: Final = 15  # of a number with a fraction: its float64 is a quotient of exact numbers
# How the fields of a date lie: the year in front, behind, or in front without signs between.
AHEAD, BEHIND, JOINED = range(1, 4)

_ZERO, _NINE, _MINUS, _POINT, _SLASH = (np.int64(ord(char)) for char in "09-./")
_SPACE, _T, _Z, _COLON = (np.int64(ord(char)) for char in " TZ:")


@lean
def add_shape(
    cells: Ints, reals: Floats, node: Int, source: Bytes, start: Int, length: Int
) -> None:
    """Take away what a string at a path is not, and extend the bounds of its numbers."""
    like = cells[node + LIKE]
    if length == 0 or length > LONGEST:
        like = 0
    if like & NUMBERS:
        like &= ~(NUMBERS | WHOLES) | _number(cells, reals, node, source, start, length)
    if like & (YEAR_FIRST | DAY_FIRST | MONTH_FIRST):
        form, fits = _moment(source, start, length)
        if cells[node + FORM] == 0:
            cells[node + FORM] = form
        if form != cells[node + FORM]:
            fits = 0
        like &= (NUMBERS | WHOLES) | fits
    cells[node + LIKE] = like


@inlined
def _number(cells: Ints, reals: Floats, node: Int, source: Bytes, start: Int, length: Int) -> Int:
    """Return which kinds of number a string is, and extend the bounds of the path."""
    minus = source[start] == _MINUS
    value, digits, behind = _digits(source, start + minus, start + length)
    if digits == 0 or (minus and value == 0):
        return 0
    value = -value if minus else value
    whole = behind == 0 and length <= WHOLE_BYTES
    if not whole and digits > EXACT_DIGITS:
        return 0
    if whole:
        cells[node + LOW_WHOLE] = min(cells[node + LOW_WHOLE], value)
        cells[node + HIGH_WHOLE] = max(cells[node + HIGH_WHOLE], value)
    power = np.float64(1)
    for _ in range(behind):
        power *= 10.0
    amount = np.float64(value) / power
    reals[node + LOW_AMOUNT] = min(reals[node + LOW_AMOUNT], amount)
    reals[node + HIGH_AMOUNT] = max(reals[node + HIGH_AMOUNT], amount)
    return NUMBERS | WHOLES if whole else NUMBERS


@inlined
def _digits(source: Bytes, first: Int, end: Int) -> tuple[Int, Int, Int]:
    """Return the number that digits stand for without their point, and how many there are.

    Third: how many are behind the point. No digits: it is no number, or too long a one.
    """
    value, digits = np.int64(0), np.int64(0)
    point: Int = np.int64(-1)
    for k in range(first, end):
        byte = np.int64(source[k])
        if _ZERO <= byte <= _NINE and digits < WHOLE_BYTES:
            digits += 1
            value = value * 10 + (byte - _ZERO)
        elif byte == _POINT and point < 0 and digits > 0 and k < end - 1:
            point = k
        else:
            return np.int64(0), np.int64(0), np.int64(0)
    return value, digits, np.int64(end - 1 - point if point >= 0 else 0)


@inlined
def _two(source: Bytes, place: Int) -> Int:
    """Return the number that two digits stand for, below zero if one is none."""
    one, other = np.int64(source[place]) - _ZERO, np.int64(source[place + 1]) - _ZERO
    if one < 0 or one > 9 or other < 0 or other > 9:
        return np.int64(-1)
    return one * 10 + other


@inlined
def _is_day(year: Int, month: Int, day: Int) -> bool:
    """Return whether a day is in the calendar of the years 1 to 9999."""
    if year < 1 or month < 1 or month > 12 or day < 1:
        return False
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return bool(day <= (29 if leap else 28))
    return bool(day <= (30 if month in (4, 6, 9, 11) else 31))


@inlined
def _is_sign(byte: Int) -> bool:
    return bool(byte == _MINUS or byte == _SLASH or byte == _POINT or byte == _SPACE)


@lean
def _moment(source: Bytes, start: Int, length: Int) -> tuple[Int, Int]:
    """Return the form in which a string is written as a moment, and in which orders it is one.

    The form is the layout of the date, the sign in it, the sign in front of the time, the bytes of
    the time, and whether there is a Z behind, a byte each.
    """
    layout, sign, rest = 0, np.int64(0), 10
    if length >= 10 and source[start + 4] == source[start + 7] and _is_sign(source[start + 4]):
        layout, sign = AHEAD, np.int64(source[start + 4])
        high, low = _two(source, start), _two(source, start + 2)
        one, other = _two(source, start + 5), _two(source, start + 8)
    elif length >= 10 and source[start + 2] == source[start + 5] and _is_sign(source[start + 2]):
        layout, sign = BEHIND, np.int64(source[start + 2])
        high, low = _two(source, start + 6), _two(source, start + 8)
        one, other = _two(source, start), _two(source, start + 3)
    elif length >= 8:
        layout, rest = JOINED, 8
        high, low = _two(source, start), _two(source, start + 2)
        one, other = _two(source, start + 4), _two(source, start + 6)
    else:
        return 0, 0
    if high < 0 or low < 0 or one < 0 or other < 0:
        return 0, 0
    clock = _clock(source, start, length, rest)
    if clock < 0:
        return 0, 0
    fits, year = 0, high * 100 + low
    if layout != BEHIND:
        fits = YEAR_FIRST if _is_day(year, one, other) else 0
    else:
        fits |= DAY_FIRST if _is_day(year, other, one) else 0
        fits |= MONTH_FIRST if _is_day(year, one, other) else 0
    return layout | sign << 8 | clock << 16, fits


@inlined
def _clock(source: Bytes, start: Int, length: Int, rest: Int) -> Int:
    """Return the form of the time behind a date, below zero if there is none that exists."""
    if rest == length:
        return np.int64(0)
    join = np.int64(source[start + rest])
    begin, end = start + rest + 1, start + length
    zone = np.int64(source[end - 1] == _Z)
    size = end - zone - begin
    if (join != _SPACE and join != _T) or (size != 5 and size != 8 and not 10 <= size <= 15):
        return np.int64(-1)
    if not 0 <= _two(source, begin) <= 23 or not _is_part(source, begin + 2):
        return np.int64(-1)
    if size >= 8 and not _is_part(source, begin + 5):
        return np.int64(-1)
    if size > 8 and not _is_fraction(source, begin + 8, begin + size):
        return np.int64(-1)
    return join | np.int64(size) << 8 | zone << 16


@inlined
def _is_part(source: Bytes, place: Int) -> bool:
    """Return whether there are a colon and minutes or seconds."""
    return bool(source[place] == _COLON and 0 <= _two(source, place + 1) <= 59)


@inlined
def _is_fraction(source: Bytes, place: Int, end: Int) -> bool:
    """Return whether there are a point and digits."""
    for k in range(place + 1, end):
        if not _ZERO <= np.int64(source[k]) <= _NINE:
            return False
    return bool(source[place] == _POINT)
