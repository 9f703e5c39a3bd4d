"""Statistics of many parts as one table, and the union that encloses them all.

`concat` aligns rows with different columns; `union` folds a table into one row. Both distinguish
unknown from known to be absent (a JSON path under a `complete` parent).
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from strata.stats.flat import struct_row
from strata.stats.union import union_columns
from strata.stats.wire import DOCUMENTS, JSON_PATH, PREFIX, ROWS


def concat(rows: Sequence[pa.RecordBatch | None], row_counts: Sequence[int]) -> pa.Table:
    """Return one table with a row for each part.

    Shape: rows int64 from `row_counts`; every `s.*` column that some row has, null where a row
    lacks it. A part without statistics (None) has nulls throughout.
    Errs: a column of a differing type that cannot be widened without loss becomes unknown.
    """
    assert len(rows) == len(row_counts)
    found = [_columns(row) for row in rows]
    columns: dict[str, pa.Array] = {ROWS: pa.array(row_counts, pa.int64())}
    # In order of first appearance; the newest type of a column wins.
    kinds = {name: column.type for row in found for name, column in row.items()}
    for name, kind in kinds.items():
        unknown = pa.nulls(1, kind)
        columns[name] = pa.concat_arrays([_as(row.get(name, unknown), kind) for row in found])
    return pa.table(columns)


def union(table: pa.Table) -> pa.RecordBatch | None:
    """Return one row that encloses every row of `table`; None if some part has no statistics.

    Shape: as of `collect`; a column that is unknown in some row is left out. A bound is exact only
    if a row that has it says so.
    """
    if not all(_has_stats(table)):
        return None
    columns = {ROWS: pa.array([pc.sum(table[ROWS]).as_py() or 0], pa.int64())}
    columns |= union_columns(table)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _has_stats(table: pa.Table) -> list[bool]:
    known = [pc.is_valid(table[name]) for name in table.column_names if name.startswith(PREFIX)]
    if not known:
        return [False] * table.num_rows
    some = known[0]
    for column in known[1:]:
        some = pc.or_(some, column)
    return list(some.to_pylist())


def _columns(row: pa.RecordBatch | None) -> dict[str, pa.StructArray]:
    if row is None:
        return {}
    named = zip(row.schema.names, row.columns, strict=True)
    return {name: column for name, column in named if name.startswith(PREFIX)}


def _as(column: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    return column if column.type == kind else _widen(column, kind)


def _widen(column: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    """Return statistics of an older type as type `kind`, null where a bound might change."""
    if column.null_count or not _widens(column.type, kind):
        return pa.nulls(1, kind)
    fields = {field.name: column.field(field.name) for field in column.type}
    try:
        cast = {f.name: fields[f.name].cast(f.type)[0] for f in kind if f.name in fields}
    except pa.ArrowInvalid:
        return pa.nulls(1, kind)
    return struct_row(kind, {name: value for name, value in cast.items() if value.is_valid})


def _widens(old: pa.StructType, new: pa.StructType) -> bool:
    if old.get_field_index("present") >= 0:  # a JSON path of a version with other counts
        return {f.name: f.type for f in old}.items() <= {f.name: f.type for f in JSON_PATH}.items()
    if DOCUMENTS in (old, new):  # the other of a version that did not count paths
        return min(old.num_fields, new.num_fields) == 1 and [old[0], new[0]] == [DOCUMENTS[0]] * 2
    if min(old.get_field_index("low"), new.get_field_index("low")) < 0:
        return False
    return keeps_bounds(old.field("low").type, new.field("low").type)


def keeps_bounds(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether bounds of a stored type also bound values of another type, if they fit it."""
    integers = pa.types.is_integer(old) and pa.types.is_integer(new)
    floats = pa.types.is_float32(old) and pa.types.is_float64(new)
    decimals = pa.types.is_decimal(old) and pa.types.is_decimal(new) and old.scale == new.scale
    return old == new or bool(integers or floats or decimals)


def row_stream(row: pa.RecordBatch | None) -> bytes | None:
    """Return a row of statistics as an Arrow IPC stream, as states and tasks carry it."""
    if row is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_batch(row)
    return bytes(sink.getvalue().to_pybytes())
