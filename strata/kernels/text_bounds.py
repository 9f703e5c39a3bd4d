"""Kernel that finds the least and the greatest of many texts: `strata.stats.flat`.

The first eight bytes decide mostly; only texts that agree in them with the least or the greatest so
far are compared whole.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int, Ints
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import byte_swap, load64
from strata.kernels.merge_words import compare

_EIGHT: Final = 8


@inlined
def _first_word(data: Bytes, at: Int, size: Int) -> np.uint64:
    """Return the first eight bytes of a text as a word that sorts like them, filled with zeros."""
    if at + _EIGHT <= len(data):
        word = byte_swap(load64(data, at))
        if size < _EIGHT:
            rest = np.uint64(8 * (_EIGHT - size))
            word = (word >> rest) << rest if size else np.uint64(0)
        return word
    word = np.uint64(0)
    for j in range(min(size, _EIGHT)):
        word |= np.uint64(data[at + j]) << np.uint64(8 * (7 - j))
    return word


@lean
def extremes(offsets: Ints, data: Bytes, valid: Bools) -> tuple[Int, Int]:
    """Return the rows of the least and of the greatest text, -1 where all are null.

    `valid` may be empty: then no text is null.
    """
    low: Int = np.int64(-1)
    high: Int = np.int64(-1)
    low_word, high_word = np.uint64(0), np.uint64(0)
    for i in range(len(offsets) - 1):
        if len(valid) and not valid[i]:
            continue
        word = _first_word(data, offsets[i], offsets[i + 1] - offsets[i])
        if low < 0:
            low, high, low_word, high_word = i, i, word, word
        elif word < low_word or (word == low_word and _differ(offsets, data, i, low) < 0):
            low, low_word = i, word
        elif word > high_word or (word == high_word and _differ(offsets, data, i, high) > 0):
            high, high_word = i, word
    return low, high


@inlined
def _differ(offsets: Ints, data: Bytes, a: Int, b: Int) -> int:
    """Compare two texts whose first words are equal."""
    size_a, size_b = offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]
    if size_a <= _EIGHT and size_b <= _EIGHT:  # what the longer one has more are zeros
        return 0 if size_a == size_b else (-1 if size_a < size_b else 1)
    return compare(offsets, data, 0, a, b)
