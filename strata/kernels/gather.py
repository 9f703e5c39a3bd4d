"""Kernels that copy texts, or lists of numbers, out of many arrays: `strata.updates.gather`.

Numba has no list of arrays without a cost, so arrays come as addresses: the address of the first
row's offset, and the address of the bytes that offsets count from. Rows are numbered across all
arrays in order. `sources` gives the array of each row, `firsts` the first row of each array.
Nothing is allocated: callers provide the memory.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int, Ints
from strata.kernels.jit import lean
from strata.kernels.memory import at32, at64, fetch, store64

_OFFSET: Final = 4
_EIGHT: Final = 8
_SHORT: Final = 16


@lean
def measure(
    rows: Ints, sources: Ints, firsts: Ints, offsets: Ints, valid: Bools, ends: Ints
) -> Int:
    """Write where each text ends when they are concatenated; return where the last one ends.

    If `valid` is empty, all rows are valid; a null is an empty text.
    """
    total = np.int64(0)
    for i in range(len(rows)):
        row = rows[i]
        if not len(valid) or valid[row]:
            source = sources[row]
            at = offsets[source] + (row - firsts[source]) * _OFFSET
            total += at32(at + _OFFSET) - at32(at)
        ends[i + 1] = total
    return total


@lean
def copy_texts(
    rows: Ints,
    sources: Ints,
    firsts: Ints,
    offsets: Ints,
    data: Ints,
    limits: Ints,
    width: Int,
    ends: Ints,
    out: Bytes,
) -> None:
    """Copy texts to the places that `ends` gives; an item has `width` bytes.

    `limits` are where the bytes of each array end. For short texts, more bytes are copied if both
    sides have room; the next texts overwrite the excess.
    """
    for i in range(len(rows)):
        row = rows[i]
        source = sources[row]
        at = data[source] + at32(offsets[source] + (row - firsts[source]) * _OFFSET) * width
        to, size = ends[i] * width, (ends[i + 1] - ends[i]) * width
        if size <= _SHORT and at + _SHORT <= limits[source] and to + _SHORT <= len(out):
            store64(out, to, at64(at))
            store64(out, to + _EIGHT, at64(at + _EIGHT))
        else:
            fetch(out, to, at, size)
