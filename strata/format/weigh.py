"""How many bytes rows take when they are laid out anew, at any row of a table at once.

`Table.nbytes` is no measure to cut by: it counts a chunk's bits and offsets from where a slice
happens to begin, and what lies under nulls, so that equal rows could be cut differently.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from strata.format.coded import is_coded, is_text, text_ends
from strata.format.nested import is_listed, items
from strata.format.physical import offsets, valid_mask
from strata.format.words import Ints

BLOCK_ROWS: Final = 4_096  # rows are cut at multiples of this many where that is fine enough
HUGE_ROW_BYTES: Final = 1024 * 1024  # rows so big on average are handled one by one, uncopied


def plain_bytes(updates: pa.Table) -> int:
    """Return how many bytes these values take in Arrow memory, laid out anew."""
    return int(plain_sizes(updates, np.array([updates.num_rows]))[0])


def fitting(rows: pa.Table, limit_bytes: int) -> int:
    """Return how many first rows are at most `limit_bytes` big; one row always fits.

    Shape: a multiple of BLOCK_ROWS, unless all rows fit, or fewer only.
    Cost: looks at blocks of rows; at each row only of the first block, where that is too big.
    """
    return fitting_of(rows.num_rows, partial(_first_sizes, rows), limit_bytes)


def fitting_of(count: int, sizes: Callable[[Ints], Ints], limit_bytes: int) -> int:
    """Return how many of `count` rows fit; `sizes` gives the bytes of the first `ends[i]` rows.

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


def running_bits(rows: pa.Table) -> Ints:
    """Return how many bits the first 0, 1, 2, ... rows take.

    Differences of these are what any rows in between take: their `plain_bytes`, times eight.
    """
    every = np.arange(rows.num_rows + 1)
    total, fixed = np.zeros(len(every), np.int64), 0
    for column in rows.columns:
        kind = column.type
        if (is_text(kind) or is_coded(kind)) and column.num_chunks == 1:
            fixed += 33
            ends = text_ends if is_coded(kind) else _text_ends
            total += 8 * ends(column.chunk(0))
        elif is_text(kind) or is_coded(kind) or is_listed(kind) or pa.types.is_struct(kind):
            start = 0
            for chunk in column.chunks:
                total += _bits(chunk, np.clip(every - start, 0, len(chunk)))
                start += len(chunk)
        else:
            fixed += 1 + int(kind.bit_width)
    total += fixed * every
    return total


def _first_sizes(rows: pa.Table, ends: Ints) -> Ints:
    return plain_sizes(rows.slice(0, int(ends[-1])), ends)


def plain_sizes(rows: pa.Table, ends: Ints) -> Ints:
    """Return the `plain_bytes` of the first `ends[i]` rows, for each i."""
    total = np.zeros(len(ends), np.int64)
    for column in rows.columns:
        start = 0
        for chunk in column.chunks:
            total += _bits(chunk, np.clip(ends - start, 0, len(chunk)))
            start += len(chunk)
    return total // 8


def _bits(array: pa.Array, ends: Ints) -> Ints:
    """Return how many bits the first values take: each a bit of validity and what it holds."""
    kind = array.type
    if pa.types.is_struct(kind):
        total = ends.copy()
        for child in array.flatten():
            total += _bits(child, ends)
        return total
    if is_listed(kind):
        lengths, inner = items(array)
        return 33 * ends + _bits(inner, np.r_[0, np.cumsum(lengths)][ends])
    if is_coded(kind):
        return 33 * ends + 8 * text_ends(array)[ends]
    if is_text(kind):
        return 33 * ends + 8 * _text_ends(array)[ends]
    return ends * (1 + int(kind.bit_width))


def _text_ends(array: pa.Array) -> Ints:
    """Return where each text would end, had there been nothing before it or under nulls."""
    at = offsets(array)
    valid = valid_mask(array)
    if valid is not None:
        lengths = np.diff(at)
        if lengths[~valid].any():
            at = np.concatenate([[0], np.cumsum(np.where(valid, lengths, 0))])
    found: Ints = at - at[0]
    return found
