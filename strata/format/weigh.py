"""How many bytes rows take when they are laid out anew, at any row of a table at once.

`Table.nbytes` is no measure to cut by: it counts a chunk's bits and offsets from where a slice
happens to begin, and what lies under nulls, so that equal rows could be cut differently.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from strata.format.nested import is_listed, items
from strata.format.physical import offsets, valid_mask
from strata.format.words import Ints

BLOCK_ROWS: Final = 4_096  # rows are cut at multiples of this many where that is fine enough


def plain_bytes(updates: pa.Table) -> int:
    """Return how many bytes these values take in Arrow memory, laid out anew."""
    return int(plain_sizes(updates, np.array([updates.num_rows]))[0])


def fitting(rows: pa.Table, limit_bytes: int) -> int:
    """Return how many first rows are at most `limit_bytes` big; one row always fits.

    Shape: a multiple of BLOCK_ROWS, unless all rows fit, or fewer only.
    Cost: looks at blocks of rows; at each row only of the first block, where that is too big.
    """
    count: int = rows.num_rows
    if not count:
        return 0
    ends = np.r_[np.arange(BLOCK_ROWS, count, BLOCK_ROWS), count]
    whole = int(np.searchsorted(plain_sizes(rows, ends), limit_bytes, "right"))
    if whole:
        return int(ends[whole - 1])
    first = rows.slice(0, BLOCK_ROWS)
    sizes = plain_sizes(first, np.arange(1, first.num_rows + 1))
    return max(1, int(np.searchsorted(sizes, limit_bytes, "right")))


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
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
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
