"""Write a part: layout, row groups, and the Parquet settings that were measured.

Equal updates give equal bytes: chunking and slicing of the input leave no trace. Statistics of
Parquet's own are written for other readers; Strata never relies on them.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strata.errors import InvalidRequest
from strata.format.columns import K_S, V_S, D, K, T, V, child, updates_schema
from strata.format.layout import Description, Footer, check_layout, part_schema, struct_type
from strata.format.nested import is_listed, items, purged
from strata.format.part_settings import sample_of, writer_settings
from strata.format.rowcodec import encode_batches, encode_rows
from strata.model.schema import Column, Relation

MEASURE_ROWS: Final = 4_096  # row groups are cut at multiples of this many rows


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """The bytes of a part and how they are cut."""

    data: bytes
    row_groups: list[int]  # rows of each row group, in order; empty for a part without rows


def encode_part(
    updates: pa.Table,
    relation: Relation,
    layout: str,
    *,
    description: Description,
    row_group_bytes: int,
) -> EncodedPart:
    """Return a part holding `updates`, in the order given.

    Shape: `updates_schema(relation)`. Units: `row_group_bytes` as `plain_bytes` counts.
    Raises: InvalidRequest for another schema, nulls in t or d, an empty interval, or an unknown
    layout.
    """
    _check(updates, relation, description)
    footer = Footer(check_layout(layout), relation.version, description, updates.num_rows)
    schema = part_schema(relation, footer)
    groups = row_groups(updates, row_group_bytes)
    sink = io.BytesIO()  # grows, and gives its bytes away, with fewer copies than Arrow's own
    columns = [name for name in schema.names if name not in (K, V)]
    sample = _columns(sample_of(updates), relation, schema, columns)
    settings = writer_settings(sample, updates.num_rows, footer.layout)
    starts = accumulate(groups, initial=0)
    steps = [
        partial(_row_group, updates, start, rows, relation, schema)
        for start, rows in zip(starts, groups, strict=False)
    ]
    with pq.ParquetWriter(sink, schema, **settings) as writer:
        for table in _ahead(steps, footer.has_rows):
            writer.write_table(table, row_group_size=table.num_rows)
    return EncodedPart(sink.getvalue(), groups)


def row_groups(updates: pa.Table, limit_bytes: int) -> list[int]:
    """Return how many rows each row group gets, so that each is about `limit_bytes` big.

    Cut at multiples of MEASURE_ROWS, or finer where fewer rows than that are too big.
    """
    groups: list[int] = []
    rows, size = 0, 0
    for start in range(0, updates.num_rows, MEASURE_ROWS):
        block = updates.slice(start, MEASURE_ROWS)
        block_bytes = plain_bytes(block)
        if rows and size + block_bytes > limit_bytes:
            groups.append(rows)
            rows, size = 0, 0
        while block_bytes > limit_bytes and block.num_rows > 1:
            rows_now = max(1, block.num_rows * limit_bytes // block_bytes)
            groups.append(rows_now)
            block = block.slice(rows_now)
            block_bytes = plain_bytes(block)
        rows, size = rows + block.num_rows, size + block_bytes
    return [*groups, rows] if rows else groups


def plain_bytes(updates: pa.Table) -> int:
    """Return how many bytes these values take in Arrow memory, laid out anew.

    `Table.nbytes` is no measure to cut by: it counts a chunk's bits and offsets from where a slice
    happens to begin, so that equal rows could be cut differently.
    """
    bits = sum(_bits(chunk) for column in updates.columns for chunk in column.chunks)
    return bits // 8


def _bits(array: pa.Array) -> int:
    """Return how many bits a column's values take: each a bit of validity and what it holds."""
    kind, size = array.type, len(array)
    if pa.types.is_struct(kind):
        return size + sum(_bits(child) for child in array.flatten())
    if is_listed(kind):
        return 33 * size + _bits(items(array)[1])
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 33 * size + 8 * (pc.sum(pc.binary_length(array)).as_py() or 0)
    return size * (1 + int(kind.bit_width))


def _ahead(steps: Sequence[Callable[[], pa.Table]], beside: bool) -> Iterator[pa.Table]:
    """Yield the result of each step, the next one being made meanwhile in another thread.

    The row codec and Parquet's encoders both leave Python's lock alone. Without much to overlap
    (`beside` false, or a single step) no thread is begun.
    """
    if not beside or len(steps) < 2:
        yield from (step() for step in steps)
        return
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(steps[0])
        for step in steps[1:]:
            table, following = following.result(), pool.submit(step)
            yield table
        yield following.result()


def _row_group(
    updates: pa.Table, start: int, rows: int, relation: Relation, schema: pa.Schema
) -> pa.Table:
    group = _without_hidden(updates.slice(start, rows).combine_chunks())
    return _columns(group, relation, schema, schema.names)


def _without_hidden(group: pa.Table) -> pa.Table:
    """Return one row group such that nothing lies under a null of a nested column."""
    for i, field in enumerate(group.schema):
        if pa.types.is_nested(field.type):
            group = group.set_column(i, field, purged(_one(group.column(i))))
    return group


def _columns(
    group: pa.Table, relation: Relation, schema: pa.Schema, names: Sequence[str]
) -> pa.Table:
    """Return one row group in those columns of the file that are asked for."""
    made: dict[str, Any] = {T: group[T], D: group[D]}
    for codec, struct, side in (
        (K, K_S, relation.key_columns),
        (V, V_S, relation.value_columns),
    ):
        if codec in names:
            made[codec] = encode_side(group, side)
        if struct in names:
            made[struct] = _struct(group, side)
    fields = [schema.field(name) for name in names]
    return pa.Table.from_arrays([made[name] for name in names], schema=pa.schema(fields))


def encode_side(group: pa.Table, side: tuple[Column, ...]) -> pa.ChunkedArray:
    """Return the row codec's bytes of the key or the value columns, in chunks of BATCH rows."""
    if not side:
        return pa.chunked_array([encode_rows([], [], rows=group.num_rows)])
    columns = [_one(group[child(column.id)]) for column in side]
    batches = encode_batches(columns, [column.type for column in side])
    return pa.chunked_array(batches, pa.binary())


def _struct(group: pa.Table, side: tuple[Column, ...]) -> pa.Array:
    wanted = struct_type(side)
    arrays = [_one(group[child(column.id)]) for column in side]
    if not side:
        arrays = [pa.nulls(group.num_rows, pa.bool_())]
    return pa.StructArray.from_arrays(arrays, fields=list(wanted))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _check(updates: pa.Table, relation: Relation, description: Description) -> None:
    wanted = updates_schema(relation)
    if updates.schema.names != wanted.names or updates.schema.types != wanted.types:
        raise InvalidRequest(
            "updates have the wrong columns",
            found=str(updates.schema), wanted=str(wanted),
        )  # fmt: skip
    if updates[T].null_count or updates[D].null_count:
        raise InvalidRequest("an update needs a time and a diff")
    if description.upper <= description.lower:
        raise InvalidRequest(
            "a part's interval is empty", lower=description.lower, upper=description.upper
        )
