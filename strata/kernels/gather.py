"""Kernels that copy texts, or lists of numbers, out of many arrays: `strata.updates.gather`.

Numba knows no list of arrays that costs nothing, so that arrays come as addresses: of the offsets
of each, the one of its first row, and of the bytes that they count from. Rows are wanted by their
numbers in all arrays behind one another; `sources` says of each row in which array it is, `firsts`
which row is the first of an array. Nothing is allocated: callers bring the room.
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
    """Write where each text ends when they lie behind one another; return where the last one does.

    Where `valid` is empty, all are; a null is an empty text.
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
    """Copy texts to where `ends` says that they begin and end; `width` bytes an item.

    `limits` are where the bytes of each array end. Of short ones more is copied where there is
    more on both sides: the next ones take its place.
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
