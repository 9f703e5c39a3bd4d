"""Statistics of columns that a part predates: the default in every row, or null.

A part written before a column was added has no statistics for it, and needs none. Its rows are read
with the default, so its statistics are known exactly: those of one such row, with counts multiplied
by the number of rows. A part that has the column but no statistics for it stays unknown.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.format.columns import child
from strata.format.values.migrate import default_array
from strata.model.schema import Column, Relation
from strata.stats.collect import collect
from strata.stats.wire import DOCUMENTS, PREFIX, ROWS, column_name, parse_name

# Fields that are counts: all whole numbers except lengths and integral bounds.
COUNTS: Final = frozenset({
    "count", "nulls", "nans", "present", "json_nulls", "bools", "trues", "numbers", "integers",
    "strings", "lists", "maps",
})  # fmt: skip


def fill_absent(
    stats: pa.Table,
    versions: Sequence[int],
    relations: Sequence[Relation],
    wanted: Collection[str] | None = None,
) -> pa.Table:
    """Return statistics with columns younger than the part filled in.

    `versions` are the relation versions of the parts, one for each row of `stats`. `wanted` are the
    names of statistics to fill, None all.
    """
    if len(relations) == 1 or ROWS not in stats.column_names:
        return stats
    for column in relations[-1].columns:
        younger = [r.version for r in relations if column.id not in r.by_id]
        missing = np.isin(np.asarray(versions, np.int64), younger)
        if not missing.any() or not (wanted is None or column_name(column.id) in wanted):
            continue
        for name, constant in _constants(column).items():
            if wanted is None or name in wanted or parse_name(name) == (column.id, ()):
                stats = _filled(stats, name, constant, missing)
    return stats


def _filled(
    stats: pa.Table, name: str, constant: pa.StructArray, missing: npt.NDArray[np.bool_]
) -> pa.Table:
    index = stats.schema.get_field_index(name)
    rows = stats[ROWS].combine_chunks()
    filled = _times(constant, rows)
    if index < 0:
        where = pa.array(np.arange(len(rows)), mask=~missing)
        return stats.append_column(name, filled.take(where))
    there = pa.concat_arrays(stats.column(index).chunks)
    # Of a version that counted no paths
    if filled.type == DOCUMENTS and there.type.num_fields == 1:
        fields = [there.field("nulls"), pa.nulls(len(there), pa.int64())]
        there = pa.StructArray.from_arrays(fields, fields=list(DOCUMENTS), mask=there.is_null())
    if there.type != filled.type:  # collected later, in an older type
        return stats
    missing = missing & np.asarray(there.is_null())
    where = pa.array(np.where(missing, len(rows), 0) + np.arange(len(rows)))
    return stats.set_column(index, name, pa.concat_arrays([there, filled]).take(where))


def _constants(column: Column) -> dict[str, pa.StructArray]:
    """Return the statistics of one row that holds the default, by name."""
    alone = Relation(0, (column,), (column.id,), ())
    row = collect(pa.table({child(column.id): default_array(column, 1)}), alone)
    named = zip(row.schema.names, row.columns, strict=True)
    return {name: array for name, array in named if name.startswith(PREFIX)}


def _times(constant: pa.StructArray, rows: pa.Array) -> pa.StructArray:
    """Return the statistics of parts with these numbers of rows, all rows with the same value."""
    if constant.null_count:
        return pa.nulls(len(rows), constant.type)
    children = [_times_field(constant.field(f.name)[0], f.name, rows) for f in constant.type]
    return pa.StructArray.from_arrays(children, fields=list(constant.type))


def _times_field(value: Any, name: str, rows: pa.Array) -> pa.Array:
    if name not in COUNTS:
        return pa.repeat(value, len(rows))
    return pa.array(np.asarray(rows) * (value.as_py() or 0), pa.int64())
