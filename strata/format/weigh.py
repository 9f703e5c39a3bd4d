"""Measure the bytes of rows laid out anew, at many positions of a table at once.

`Table.nbytes` is unsuitable for cutting: it depends on where a slice begins within a chunk's bits
and offsets, and it counts values under nulls. Equal rows could then be cut differently.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from strata.format.values.coded import is_coded, is_text, text_ends
from strata.format.values.nested import is_listed, items
from strata.format.values.physical import stored_offsets, valid_mask
from strata.kernels.arrays import Int32s, Ints

Counts = Ints | Int32s

BLOCK_ROWS: Final = 4_096  # rows are cut at multiples of this if that is fine enough
MANY: Final = 16  # more columns of texts than this are added up once, not at each question
OFFSET_BITS: Final = 33  # of a text or a list: an offset and a validity bit
HUGE_ROW_BYTES: Final = (
    1024 * 1024
)  # rows of this average size are handled one by one, without copies


def plain_bytes(updates: pa.Table) -> int:
    """Return the size of these values in Arrow memory, laid out anew."""
    return int(plain_sizes(updates, np.array([updates.num_rows]))[0])


def fitting(rows: pa.Table, limit_bytes: int) -> int:
    """Return the number of leading rows that fit in `limit_bytes`; one row always fits.

    Shape: a multiple of BLOCK_ROWS, unless all rows fit, or fewer than BLOCK_ROWS.
    Cost: measures blocks of rows; single rows only in the first block, if that is too big.
    """
    return fitting_of(rows.num_rows, partial(_first_sizes, rows), limit_bytes)


def fitting_of(count: int, sizes: Callable[[Ints], Ints], limit_bytes: int) -> int:
    """Return how many of `count` rows fit; `sizes(ends)` gives the bytes of `ends[i]` first rows.

    Shape: as `fitting`.
    """
    if not count:
        return 0
    ends = np.r_[np.arange(BLOCK_ROWS, count, BLOCK_ROWS), count]
    whole = int(np.searchsorted(sizes(ends), limit_bytes, "right"))
    if whole:
        return int(ends[whole - 1])
    rows = sizes(np.arange(1, min(BLOCK_ROWS, count) + 1))
    return max(1, int(np.searchsorted(rows, limit_bytes, "right")))


class Weighed:
    """The number of bits in any number of first rows of a table; inspects the table once.

    The difference of two such numbers is the size of the rows in between: eight times their
    `plain_bytes`.
    """

    def __init__(self, rows: pa.Table) -> None:
        """Find the running counts that give sizes; this hardly reads the rows."""
        self._fixed = 0  # bits of each row
        self._running: list[tuple[int, Counts]] = []  # bits per item, and items in the first rows
        for column in rows.columns:
            one = column.chunk(0) if column.num_chunks == 1 else None
            if _is_fixed(column.type):
                self._fixed += 1 + int(column.type.bit_width)
            elif one is not None and (found := _running(one)) is not None:
                self._fixed += OFFSET_BITS
                self._running.append(found)
            else:
                self._running.append((1, _chunk_bits(column, np.arange(rows.num_rows + 1))))
        if len(self._running) > MANY:
            self._running = [(1, self.bits(np.arange(rows.num_rows + 1)))]
            self._fixed = 0

    def bits(self, ends: Ints) -> Ints:
        """Return how many bits the first `ends[i]` rows take, for each i."""
        total = self._fixed * ends
        for each, counts in self._running:
            total += each * (counts[ends].astype(np.int64) - int(counts[0]))
        return total

    def between(self, first: int, last: int) -> int:
        """Return how many bits the rows [first, last) take."""
        start, end = self.bits(np.array([first, last]))
        return int(end - start)


def _first_sizes(rows: pa.Table, ends: Ints) -> Ints:
    return plain_sizes(rows.slice(0, int(ends[-1])), ends)


def plain_sizes(rows: pa.Table, ends: Ints) -> Ints:
    """Return the `plain_bytes` of the first `ends[i]` rows, for each i."""
    total = np.zeros(len(ends), np.int64)
    for column in rows.columns:
        total += _chunk_bits(column, ends)
    return total // 8


def _chunk_bits(column: pa.ChunkedArray, ends: Ints) -> Ints:
    """Return how many bits the first `ends[i]` values take, for each i."""
    total, start = np.zeros(len(ends), np.int64), 0
    for chunk in column.chunks:
        total += _bits(chunk, np.clip(ends - start, 0, len(chunk)))
        start += len(chunk)
    return total


def _running(array: pa.Array) -> tuple[int, Counts] | None:
    """Return the bits per byte or item, and the number of items in the first 0, 1, ... values.

    The counts may start at any number. None for types whose size has further parts.
    """
    kind = array.type
    if is_coded(kind):
        return 8, text_ends(array)
    if is_text(kind):
        return 8, _text_counts(array)
    if pa.types.is_list(kind) and _is_fixed(kind.value_type) and not array.null_count:
        return 1 + int(kind.value_type.bit_width), stored_offsets(array)
    return None


def _is_fixed(kind: pa.DataType) -> bool:
    """Return whether all values of a type take the same bytes."""
    return not (is_coded(kind) or is_text(kind) or is_listed(kind) or pa.types.is_struct(kind))


def _bits(array: pa.Array, ends: Ints) -> Ints:
    """Return the bits of the first values: of each, a validity bit and its content."""
    kind = array.type
    if pa.types.is_struct(kind):
        total = ends.copy()
        for child in array.flatten():
            total += _bits(child, ends)
        return total
    if is_listed(kind):
        lengths, inner = items(array)
        return OFFSET_BITS * ends + _bits(inner, np.r_[0, np.cumsum(lengths)][ends])
    if is_coded(kind):
        return OFFSET_BITS * ends + 8 * text_ends(array)[ends]
    if is_text(kind):
        counts = _text_counts(array)
        return OFFSET_BITS * ends + 8 * (counts[ends].astype(np.int64) - int(counts[0]))
    return ends * (1 + int(kind.bit_width))


def _text_counts(array: pa.Array) -> Counts:
    """Return the bytes of the first 0, 1, ... texts; the count may start at any number."""
    at = stored_offsets(array)
    valid = valid_mask(array)
    if valid is not None:
        lengths = np.diff(at)
        if lengths[~valid].any():  # something lies under nulls
            found: Counts = np.concatenate([[0], np.cumsum(np.where(valid, lengths, 0))])
            return found
    return at
