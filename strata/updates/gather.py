"""Take rows out of several arrays, in any order, without joining the arrays first.

A text or a list of numbers is copied only once, from where it was read to where it is written.
Other values are joined first, which costs next to nothing for numbers.

Twin: `pa.concat_arrays(sources).take(rows)`.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.values.coded import alike
from strata.format.values.physical import pack_mask, valid_mask
from strata.kernels.arrays import Bools, Ints
from strata.kernels.gather import copy_texts, measure
from strata.updates.order import one_chunk

MOST_BYTES: Final = 2**31 - 1  # limit of Arrow's 32-bit offsets
OFFSET_BYTES: Final = 4


def take(table: pa.Table, rows: Ints) -> pa.Table:
    """Return some rows of a table, in one chunk; texts in several chunks are not joined."""
    wanted: dict[tuple[int, ...], WantedRows] = {}  # grouped by the lengths of chunks
    arrays = []
    for column in table.columns:
        counts = tuple(map(len, column.chunks))
        if counts not in wanted:
            wanted[counts] = WantedRows(counts, rows)
        arrays.append(wanted[counts].of(column.chunks))
    return pa.Table.from_arrays(arrays, schema=table.schema)


def behind(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the concatenated tables, in several chunks only for columns that `take` can gather."""
    joined = pa.concat_tables(alike(tables))
    columns = [c if _width(c.type) else one_chunk(c) for c in joined.columns]
    return pa.Table.from_arrays(columns, schema=joined.schema)


def valid_of(sources: Sequence[pa.Array]) -> Bools | None:
    """Return a mask of the non-null values of all sources; None if all are valid."""
    masks = [valid_mask(source) for source in sources]
    if all(mask is None for mask in masks):
        return None
    filled = [
        np.ones(len(source), np.bool_) if mask is None else mask
        for mask, source in zip(masks, sources, strict=True)
    ]
    return np.concatenate(filled)


class WantedRows:
    """The rows to take, by their numbers in the concatenated sources."""

    def __init__(self, counts: Sequence[int], rows: Ints) -> None:
        """Select `rows` of sources with `counts` rows each."""
        self.rows = rows
        self._counts = counts

    @cached_property
    def _sources(self) -> Ints:
        """The source of each row of the concatenated sources."""
        found: Ints = np.repeat(np.arange(len(self._counts)), self._counts)
        return found

    @cached_property
    def _firsts(self) -> Ints:
        """The number of each source's first row."""
        found: Ints = np.r_[0, np.cumsum(self._counts)]
        return found

    def of(self, sources: Sequence[pa.Array]) -> pa.Array:
        """Return the rows of one column, whose values are in `sources`.

        Raises: InvalidRequest for more than 2 GiB of text.
        """
        found = self._copied(sources) if len(sources) > 1 else None
        if found is not None:
            return found
        joined = one_chunk(pa.chunked_array(sources))
        return pc.take(joined, pa.array(self.rows), boundscheck=False)

    def _copied(self, sources: Sequence[pa.Array]) -> pa.Array | None:
        """Return texts or lists of numbers; None for other types, or where they are too large."""
        kind, count = sources[0].type, len(self.rows)
        width = _width(kind)
        if not width or (pa.types.is_list(kind) and any(s.values.null_count for s in sources)):
            return None
        places = self._sources, self._firsts, np.array([_offsets_at(s) for s in sources])
        known, ends = valid_of(sources), np.zeros(count + 1, np.int64)
        items = measure(self.rows, *places, np.ones(0, np.bool_) if known is None else known, ends)
        if items * width > MOST_BYTES:
            return None
        values = pa.allocate_buffer(items * width)
        data, limits = np.array([_data_at(s, width) for s in sources]).T.copy()
        out = np.frombuffer(values, np.uint8)
        copy_texts(self.rows, *places, data, limits, width, ends, out)
        nulls = None if known is None else pack_mask(known[self.rows])
        buffers = [nulls, pa.py_buffer(ends.astype(np.int32))]
        if not pa.types.is_list(kind):
            return pa.Array.from_buffers(kind, count, [*buffers, values])
        inner = pa.Array.from_buffers(kind.value_type, int(items), [None, values])
        return pa.Array.from_buffers(kind, count, buffers, children=[inner])


def _width(kind: pa.DataType) -> int:
    """Return the bytes of one item of a text or list of numbers; 0 for other types."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 1
    if not pa.types.is_list(kind):
        return 0
    inner = kind.value_type
    plain = pa.types.is_integer(inner) or pa.types.is_floating(inner) or pa.types.is_temporal(inner)
    return inner.bit_width // 8 if plain else 0


def _offsets_at(source: pa.Array) -> int:
    """Return the address of the first row's offset; nothing of an empty array is accessed."""
    return source.buffers()[1].address + source.offset * OFFSET_BYTES if len(source) else 0


def _data_at(source: pa.Array, width: int) -> tuple[int, int]:
    """Return the address that offsets of `width` bytes an item count from, and the end of all."""
    array = source.values if pa.types.is_list(source.type) else source
    data = array.buffers()[-1] if len(source) else None
    start = array.offset * width if array is not source else 0
    return (0, 0) if data is None else (data.address + start, data.address + data.size)
