"""Statistics of columns that a part predates: the default in every row, or null.

A part that was written before a column was added has no statistics for it, and needs none: its
rows are read with the default, so that what is known is exact. Parts that have the column and no
statistics for it stay unknown.
"""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.format.encodings import encoding
from strata.format.migrate import default_array
from strata.model.schema import Column, Relation
from strata.stats.flat import collect_flat
from strata.stats.wire import COUNTED, ROWS, column_name

COUNTS = ("nulls", "nans")


def fill_absent(
    stats: pa.Table,
    versions: Sequence[int],
    relations: Sequence[Relation],
    wanted: Collection[str] | None = None,
) -> pa.Table:
    """Return statistics with those of columns that are younger than the part filled in.

    `versions` are the relation versions that the rows of `stats` speak of. `wanted` are the names
    of statistics to fill, None all.
    Errs: leaves unknown what cannot be said: defaults inside JSON and nested values.
    """
    newest = relations[-1]
    for column in newest.columns:
        name = column_name(column.id)
        younger = {r.version for r in relations if column.id not in r.by_id}
        if not younger or not (wanted is None or name in wanted) or ROWS not in stats.column_names:
            continue
        missing = np.isin(np.asarray(versions, np.int64), sorted(younger))
        if missing.any():
            stats = _filled(stats, name, column, missing)
    return stats


def _filled(stats: pa.Table, name: str, column: Column, missing: npt.NDArray[np.bool_]) -> pa.Table:
    constant = _constant(column)
    if constant is None:
        return stats
    index = stats.schema.get_field_index(name)
    rows = stats[ROWS].combine_chunks()
    filled = _times(constant, rows)
    if index < 0:
        where = pa.array(np.arange(len(rows)), mask=~missing)
        return stats.append_column(name, filled.take(where))
    there = pa.concat_arrays(stats.column(index).chunks)
    if there.type != filled.type:  # collected later, in an older type
        return stats
    missing &= np.asarray(there.is_null())
    where = pa.array(np.where(missing, len(rows), 0) + np.arange(len(rows)))
    return stats.set_column(index, name, pa.concat_arrays([there, filled]).take(where))


def _constant(column: Column) -> pa.StructArray | None:
    """Return the statistics of one row that holds the default; None if they are not flat."""
    values = default_array(column, 1)
    kind = encoding(column.type).stats
    if kind == "range":
        return collect_flat(values, column.type)
    if kind == "json" and column.default is None:
        return pa.StructArray.from_arrays([pa.array([1], pa.int64())], fields=list(COUNTED))
    return None


def _times(constant: pa.StructArray, rows: pa.Array) -> pa.StructArray:
    """Return the statistics of parts with so many rows, each with the one value."""
    children = [
        pa.array(np.asarray(rows) * (constant.field(f.name)[0].as_py() or 0), pa.int64())
        if f.name in COUNTS
        else pa.repeat(constant.field(f.name)[0], len(rows))
        for f in constant.type
    ]
    return pa.StructArray.from_arrays(children, fields=list(constant.type))
