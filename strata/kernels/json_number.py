"""The numbers of JSON texts: read once, to 64 bits or the nearest float64."""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bytes, Floats, Int, Ints
from strata.kernels.floats import LEAST, MOST, about, float_of
from strata.kernels.jit import inlined, lean
from strata.kernels.json_state import (
    HIDDEN,
    HIGH_INTEGER,
    HIGH_REAL,
    INTEGER,
    LEVEL,
    LOW_INTEGER,
    LOW_REAL,
    REAL,
    SLOW,
    get,
    put,
)
from strata.kernels.json_text import REFUSE, at
from strata.kernels.memory import load64, trailing_zeros

MAX_NUMBER: Final = 900  # bytes; Spark's parser stops at 1,000
_EXPONENT_LIMIT: Final = 99_999
ZEROS: Final = np.uint64(0x3030303030303030)
TO_TOPS: Final = np.uint64(0x7676767676767676)  # added, it sets the highest bit of bytes above 9
TOPS: Final = np.uint64(0x8080808080808080)
POWERS: Final = np.array([10**n for n in range(9)])
MARGIN: Final = 1e-15  # more than the relative error of `about`


@inlined
def add_number(
    cells: Ints, reals: Floats, slow: Ints, used: Ints, text: Bytes, i: Int, end: Int, node: Int
) -> Int:
    """Add the number at `i`; return the position after it."""
    start = i
    negative = text[i] == 0x2D
    first = i + 1 if negative else i
    digits, i = _digits(text, first, end, 0)
    leading_zero = at(text, first, end) == 0x30
    if i == first or (leading_zero and i > first + 1):
        return REFUSE
    whole = True
    exponent: Int = 0
    significant = 0 if leading_zero else i - first
    if at(text, i, end) == 0x2E:
        whole, dot = False, i + 1
        digits, i = _digits(text, dot, end, digits)
        if i == dot:
            return REFUSE
        exponent = dot - i
        significant += i - dot  # too many for 0.00…, which is only slower
    if at(text, i, end) | 0x20 == 0x65:
        whole = False
        i, power = _exponent(text, i + 1, end)
        exponent += power
    if i < 0 or i - start >= MAX_NUMBER:
        return REFUSE
    count = node + (INTEGER if whole else REAL)
    put(cells, count, get(cells, count) + 1)
    # 19 digits fit 63 bits if the first is not 9.
    if significant > 18 and (significant > 19 or not whole or text[first] == 0x39):
        _list_slow(slow, used, node, start, i)
    elif whole:
        _add_whole(cells, node, -digits if negative else digits)
    elif not _is_inside(reals, node, digits, exponent, negative):
        _add_real(cells, reals, slow, used, node, start, i, digits, exponent, negative)
    return i


@inlined
def _digits(text: Bytes, i: Int, end: Int, value: Int) -> tuple[Int, Int]:
    """Return a number with the digits from `i` on appended, wrapped to 64 bits, and their end."""
    while True:
        word = load64(text, i) ^ ZEROS
        count = min(trailing_zeros((word + TO_TOPS | word) & TOPS) >> 3, end - i)
        if count < 8:
            break
        value = value * 100_000_000 + _eight(word)
        i += 8
    if count > 0:
        value = value * POWERS[np.uint64(count)] + _eight(word << np.uint64(64 - 8 * count))
    return value, i + count


@inlined
def _eight(digits: np.uint64) -> Int:
    """Return the number of eight digits, first digit lowest: join pairs, then pairs of pairs."""
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    pairs &= np.uint64(0x00FF00FF00FF00FF)
    fours = pairs * np.uint64(100) + (pairs >> np.uint64(16))
    fours &= np.uint64(0x0000FFFF0000FFFF)
    return np.int64(fours & np.uint64(0xFFFF)) * 10_000 + np.int64(fours >> np.uint64(32))


@inlined
def _exponent(text: Bytes, i: Int, end: Int) -> tuple[Int, Int]:
    """Return the position after the exponent whose sign or digits begin at `i`, and its value."""
    sign = at(text, i, end)
    if sign == 0x2B or sign == 0x2D:
        i += 1
    first = i
    value: Int = 0
    while i < end and 0x30 <= text[i] <= 0x39:
        value = min(value * 10 + np.int64(text[i]) - 0x30, np.int64(_EXPONENT_LIMIT))
        i += 1
    if i == first:
        return REFUSE, 0
    return i, -value if sign == 0x2D else value


@inlined
def _add_whole(cells: Ints, node: Int, value: Int) -> None:
    if value < get(cells, node + LOW_INTEGER):
        put(cells, node + LOW_INTEGER, value)
    if value > get(cells, node + HIGH_INTEGER):
        put(cells, node + HIGH_INTEGER, value)


@inlined
def _is_inside(reals: Floats, node: Int, digits: Int, exponent: Int, negative: bool) -> bool:
    """Return whether a number is far enough inside the bounds to need no exact value."""
    if exponent < LEAST or exponent > MOST:
        return False
    value = about(digits, exponent)
    margin = value * MARGIN
    if negative:
        value = -value
    low, high = reals[np.uint64(node + LOW_REAL)], reals[np.uint64(node + HIGH_REAL)]
    return bool(low < value - margin and value + margin < high)


@lean
def _add_real(
    cells: Ints,
    reals: Floats,
    slow: Ints,
    used: Ints,
    node: Int,
    start: Int,
    end: Int,
    digits: Int,
    exponent: Int,
    negative: bool,
) -> None:
    """Add a number with a fraction or an exponent, given by its digits and its place."""
    if exponent <= 280 and cells[node + LEVEL] >= HIDDEN:
        return
    value, sure = float_of(digits, exponent)
    if not sure:
        _list_slow(slow, used, node, start, end)
        return
    value = -value if negative else value
    reals[node + LOW_REAL] = min(reals[node + LOW_REAL], value)
    reals[node + HIGH_REAL] = max(reals[node + HIGH_REAL], value)


@inlined
def _list_slow(slow: Ints, used: Ints, node: Int, start: Int, end: Int) -> None:
    place = used[SLOW]
    slow[place, 0], slow[place, 1], slow[place, 2] = node, start, end
    used[SLOW] += 1
