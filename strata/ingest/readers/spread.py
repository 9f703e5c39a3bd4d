"""Computes how much memory the rows of a Parquet file take, before they are read.

A repeated text is stored once, with a short index in each row; a file of a few hundred bytes may
expand to gigabytes. Read as dictionaries, the texts show how much each row takes.

The metadata of single column chunks are left alone: in a damaged file, Arrow ends the process when
Python asks for them. What is read of a row group raises an error instead.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.kernels.arrays import Ints

ROW_BYTES: Final = 64 << 20  # limit of a row; the same as of a text's record
WORD_BYTES: Final = 8
_SOME_ROWS: Final = 256  # rows whose texts are read at once where they cannot be dictionaries

Opened = AbstractContextManager[Any]  # a `ParquetFile`


@dataclass(frozen=True, slots=True)
class Spread:
    """The memory that rows take. Units: bytes."""

    total: int  # of all rows
    largest: int  # of one row; never less


def spread(
    file: str, metadata: Any, groups: Sequence[int], opened: Callable[[list[str]], Opened], few: int
) -> Spread:
    """Return the memory of the rows of some row groups; `opened` opens a file with dictionaries.

    Groups that cannot take more than `few` bytes are not examined further.

    Raises: InvalidRequest for a row of more than ROW_BYTES. Cost: reads the texts once more, except
    for a small file.
    """
    leaves = [metadata.schema.column(n) for n in range(metadata.num_columns)]
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    row = sum(max(leaf.length, WORD_BYTES) for leaf in leaves)  # bytes of a row without its texts
    found = [metadata.row_group(n) for n in groups]
    rows = sum(group.num_rows for group in found)
    others = sum(group.total_byte_size for group in found) + rows * row
    inner = any(leaf.max_repetition_level for leaf in leaves if leaf.path in texts)
    # A value that is no item of a list is in each row at most once.
    most = others + sum(group.num_rows * group.total_byte_size for group in found if texts)
    if most <= few and not inner:
        return Spread(most, most)
    total, largest, before = others, 0, 0
    with opened(texts) as parquet:
        for n, group in zip(groups, found, strict=True):
            sizes, unknown = _rows_of(parquet, n, texts, group, opened)
            _check_rows(file, sizes, before)
            total += int(sizes.sum()) + unknown * len(sizes)
            largest = max(largest, int(sizes.max(initial=0)) + unknown)
            before += len(sizes)
    return Spread(total, largest + others // max(1, rows))


def _rows_of(
    parquet: Any,
    number: int,
    texts: Sequence[str],
    group: Any,
    opened: Callable[[list[str]], Opened],
) -> tuple[Ints, int]:
    """Return the bytes of the texts of each row of a row group, and what they may take on top.

    One column is held at a time.
    """
    sizes, unknown = np.zeros(0, np.int64), 0
    for path in texts:
        try:
            table = parquet.read_row_group(number, columns=[path])
        except pa.ArrowNotImplementedError:  # inner texts in more than one dictionary
            unknown += group.total_byte_size
            continue
        except OSError:  # texts behind their lengths, which Arrow reads into no dictionary
            with opened([]) as plain:
                column = _plainly(plain, number, path)
        else:
            chunks = table.column(0).chunks
            column = np.concatenate([row_bytes(chunk) for chunk in chunks] or [sizes])
        sizes = column if not len(sizes) else sizes + column
    return sizes, unknown


def _plainly(parquet: Any, number: int, path: str) -> Ints:
    """Return the bytes of the texts of each row of one column, some rows at a time."""
    batches = parquet.iter_batches(batch_size=_SOME_ROWS, row_groups=[number], columns=[path])
    return np.concatenate([np.zeros(0, np.int64), *(row_bytes(b.column(0)) for b in batches)])


def _check_rows(file: str, sizes: Ints, before: int) -> None:
    large = np.flatnonzero(sizes > ROW_BYTES)
    if len(large):
        raise InvalidRequest(
            "a row is too large",
            file=file,
            row=before + int(large[0]) + 1,
            bytes=int(sizes[large[0]]),
            most=ROW_BYTES,
            cure="store what is larger than 64 MiB outside the table, and its address in it",
        )


def row_bytes(array: pa.Array) -> Ints:
    """Return the bytes of the texts of each row, with dictionaries expanded.

    Shape: one number per row. Cost: one look-up for each text.
    """
    type = array.type
    if isinstance(type, pa.BaseExtensionType):
        return row_bytes(array.storage)
    if pa.types.is_dictionary(type):
        lengths = pa.array(row_bytes(array.dictionary))
        return np.asarray(pc.fill_null(pc.take(lengths, array.indices), 0))
    if pa.types.is_struct(type):
        fields = [row_bytes(field) for field in array.flatten()]
        return np.asarray(sum(fields, np.zeros(len(array), np.int64)))
    if pa.types.is_fixed_size_list(type):
        size = type.list_size
        items = row_bytes(array.values.slice(array.offset * size, len(array) * size))
        return np.asarray(items.reshape(len(array), size).sum(axis=1, dtype=np.int64))
    if pa.types.is_map(type):
        return _listed(array, row_bytes(array.keys) + row_bytes(array.items))
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return _listed(array, row_bytes(array.values))
    if pa.types.is_list_view(type) or pa.types.is_large_list_view(type):
        counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
        edges, sums = np.r_[0, np.cumsum(counts)], np.r_[0, np.cumsum(row_bytes(array.flatten()))]
        return np.asarray(np.diff(sums[edges]))
    try:
        return np.asarray(pc.fill_null(pc.binary_length(array), 0)).astype(np.int64)
    except pa.ArrowNotImplementedError:  # no text
        return np.zeros(len(array), np.int64)


def _listed(array: pa.Array, items: Ints) -> Ints:
    """Return the bytes of each list: the sum of its items' bytes."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(items)])
    return np.asarray(np.diff(ends[array.offsets.to_numpy()]))


def gathered(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, whole_bytes: int, part_bytes: int
) -> Iterator[pa.Table]:
    """Yield the rows of small batches: up to `whole_bytes` as one table, else in parts.

    A part ends with the batch that takes it over `part_bytes`.
    """
    held: list[pa.RecordBatch] = []
    size, most = 0, whole_bytes
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > most:
            table = pa.Table.from_batches(held, schema)
            rows = max(1, table.num_rows * part_bytes // size)
            yield from (table.slice(start, rows) for start in range(0, table.num_rows, rows))
            held, size, most = [], 0, part_bytes
    if held or most == whole_bytes:
        yield pa.Table.from_batches(held, schema)
