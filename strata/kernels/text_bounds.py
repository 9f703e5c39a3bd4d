"""Kernel that finds the least and the greatest of many texts: `strata.stats.flat`.

The first seven bytes and the length mostly decide. Only longer texts with the same first bytes as
the least or the greatest so far are compared as a whole.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int, Ints
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import byte_swap, load64
from strata.kernels.merge_words import compare_texts

_SEVEN: Final = 7
_EIGHT: Final = 8
_LONG: Final = np.uint64(8)  # stands for the length of all texts of eight bytes or more
_BYTE: Final = np.uint64(0xFF)
_BITS: Final = np.uint64(8)  # of a byte


@inlined
def _first_word(data: Bytes, at: Int, size: Int) -> np.uint64:
    """Return the first seven bytes of a text, filled with zeros, and its length, 8 if it is longer.

    Words sort like the texts; equal words of up to seven bytes mean equal texts.
    """
    kept = min(size, _SEVEN)
    if at + _EIGHT <= len(data):
        rest = np.uint64(8 * (_SEVEN - kept))
        word = ((byte_swap(load64(data, at)) >> _BITS >> rest) << rest) << _BITS
    else:
        word = np.uint64(0)
        for j in range(kept):
            word |= np.uint64(data[at + j]) << np.uint64(8 * (_SEVEN - j))
    return word | np.uint64(min(size, _EIGHT))


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
        elif word < low_word or (word == low_word and _differ(offsets, data, word, i, low) < 0):
            low, low_word = i, word
        elif word > high_word or (word == high_word and _differ(offsets, data, word, i, high) > 0):
            high, high_word = i, word
    return low, high


@inlined
def _differ(offsets: Ints, data: Bytes, word: np.uint64, a: Int, b: Int) -> int:
    """Compare two texts whose first words are equal."""
    return compare_texts(offsets, data, _SEVEN, a, b) if word & _BYTE == _LONG else 0
