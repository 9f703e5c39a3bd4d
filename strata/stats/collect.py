"""Collect the statistics of one part's updates."""

from collections.abc import Collection, Sequence

import pyarrow as pa

from strata.format.columns import child
from strata.format.encodings import encoding
from strata.model.schema import Relation
from strata.stats.json import collect_json
from strata.stats.nested import collect_nested
from strata.stats.protected import kept_paths
from strata.stats.shapes import Shapes
from strata.stats.wire import ROWS
from strata.stats.worth import paths_in


def collect(
    updates: pa.Table | pa.RecordBatch,
    relation: Relation,
    keep: Sequence[str] = (),
    *,
    used: Collection[str] = (),
    same: Collection[str] = (),
    shapes: Shapes | None = None,
) -> pa.RecordBatch:
    """Return the statistics of `updates`.

    Shape: one row: rows int64, then `s.*` in the relation's order (`strata.stats.wire`). Columns
    of the relation that `updates` lacks stay unknown. Retractions count as rows: a filter keeps
    or skips +1 and -1 of a row alike.
    `keep`: patterns as of `strata.stats.protected.kept_names`; their paths of JSON come first.
    `used`, `same`: names of statistics of JSON paths that come next, as filters use them, and that
    come last, as they hardly differ between parts.
    `shapes` learns what strings of JSON are written like, which takes no second look at them.
    Errs: bounds may be looser than the values, never tighter.
    """
    columns: dict[str, pa.Array] = {ROWS: pa.array([updates.num_rows], pa.int64())}
    present = set(updates.schema.names)
    for column in relation.columns:
        if child(column.id) not in present:
            continue
        values = updates.column(child(column.id))
        if encoding(column.type).stats == "json":
            kept, asked = kept_paths(column.name, keep), paths_in(used, column.id)
            first = (*([kept] if kept else []), *([asked.__contains__] if asked else []))
            columns |= collect_json(values, column.id, first, paths_in(same, column.id), shapes)
        else:
            columns |= collect_nested(values, column.type, column.id)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
