"""The numbers of JSON texts: read once, to 64 bits or the nearest float64."""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bytes, Int, Ints
from strata.kernels.floats import float_of
from strata.kernels.jit import inlined
from strata.kernels.json_state import (
    HIDDEN,
    HIGH_INTEGER,
    INTEGER,
    LEVEL,
    LOW_INTEGER,
    REAL,
    SLOW,
    Floats,
)  # fmt: skip
from strata.kernels.json_text import REFUSE, at
from strata.kernels.memory import load64

MAX_NUMBER: Final = 900  # bytes; Spark's parser stops at 1,000
_EXPONENT_LIMIT: Final = 99_999
DIGITS: Final = np.uint64(0x0F0F0F0F0F0F0F0F)
HIGH_HALVES: Final = np.uint64(0xF0F0F0F0F0F0F0F0)
ZEROS: Final = np.uint64(0x3030303030303030)
SIXES: Final = np.uint64(0x0606060606060606)  # what makes another high half of all above 9


@inlined
def number(
    nodes: Ints, reals: Floats, slow: Ints, used: Ints, text: Bytes, i: Int, end: Int, node: Int
) -> Int:
    """Add the number at `i`; return the position behind it."""
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
        significant += i - dot  # too many for 0.00…, which only makes it slow
    if at(text, i, end) | 0x20 == 0x65:
        whole = False
        i, power = _exponent(text, i + 1, end)
        exponent += power
    if i < 0 or i - start >= MAX_NUMBER:
        return REFUSE
    nodes[node, INTEGER if whole else REAL] += 1
    # 19 digits fit 63 bits if the first is not 9.
    if significant > 18 and (significant > 19 or not whole or text[first] == 0x39):
        _list_slow(slow, used, node, start, i)
    elif whole:
        _add_whole(nodes, node, -digits if negative else digits)
    elif exponent > 280 or nodes[node, LEVEL] < HIDDEN:
        value, sure = float_of(digits, exponent)
        if sure:
            _add_real(reals, node, -value if negative else value)
        else:
            _list_slow(slow, used, node, start, i)
    return i


@inlined
def _digits(text: Bytes, i: Int, end: Int, value: Int) -> tuple[Int, Int]:
    """Return a number with the digits from `i` on appended, wrapped to 64 bits, and their end."""
    while i + 8 <= end:
        word = load64(text, i)
        if word & HIGH_HALVES != ZEROS or (word + SIXES) & HIGH_HALVES != ZEROS:
            break
        value = value * 100_000_000 + _eight(word)
        i += 8
    while i < end:
        digit = np.int64(text[np.uint64(i)]) - 0x30
        if digit < 0 or digit > 9:
            break
        value = value * 10 + digit
        i += 1
    return value, i


@inlined
def _eight(word: np.uint64) -> Int:
    """Return the number of eight digits, the first of them lowest: by pairs, by pairs of pairs."""
    pairs = (word & DIGITS) * np.uint64(10) + (word >> np.uint64(8) & DIGITS)
    pairs &= np.uint64(0x00FF00FF00FF00FF)
    fours = pairs * np.uint64(100) + (pairs >> np.uint64(16))
    fours &= np.uint64(0x0000FFFF0000FFFF)
    return np.int64(fours & np.uint64(0xFFFF)) * 10_000 + np.int64(fours >> np.uint64(32))


@inlined
def _exponent(text: Bytes, i: Int, end: Int) -> tuple[Int, Int]:
    """Return the position behind the exponent whose sign or digits begin at `i`, and its value."""
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
def _add_whole(nodes: Ints, node: Int, value: Int) -> None:
    nodes[node, LOW_INTEGER] = min(nodes[node, LOW_INTEGER], value)
    nodes[node, HIGH_INTEGER] = max(nodes[node, HIGH_INTEGER], value)


@inlined
def _add_real(reals: Floats, node: Int, value: float) -> None:
    reals[node, 0] = min(reals[node, 0], value)
    reals[node, 1] = max(reals[node, 1], value)


@inlined
def _list_slow(slow: Ints, used: Ints, node: Int, start: Int, end: Int) -> None:
    place = used[SLOW]
    slow[place, 0], slow[place, 1], slow[place, 2] = node, start, end
    used[SLOW] += 1
