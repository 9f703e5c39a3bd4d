"""Statistics of JSON columns: recursive, per path and per kind.

Some text is not JSON, or parsers disagree about it (a key twice in a map, nesting or numbers beyond
the limits of Spark's parser). One such row makes the whole column unknown, since nobody can know
what a filter would see in it. Two limits bound the size: 8 keys in a path, 256 paths,
those of the keep list first, then those that filters use, then those in most rows, and behind them
those that are known to be the same in every part (`strata.stats.worth`). Where a limit
cuts, the map above is not `complete`, so nothing is known about its other keys. How many paths
there are is recorded with the column, so that a reader can say how many are left out.
"""

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from strata.stats.flat import Values, struct_row
from strata.stats.json_bounds import Fields
from strata.stats.shapes import Shapes
from strata.stats.union import union_columns
from strata.stats.wire import DOCUMENTS, JSON_PATH, ROWS, Path, column_name, path_name


def collect_json(
    values: Values,
    column_id: int,
    first: Sequence[Callable[[Path], bool]] = (),
    last: Collection[Path] = frozenset(),
    shapes: Shapes | None = None,
) -> dict[str, pa.Array]:
    """Return the statistics columns of one JSON column of any number of rows.

    Shape: `s.{id}` and `s.{id}$...`, one row each; only `s.{id}`, null, if some row cannot be read.
    The root comes first, then the paths by depth and key. `first`: the classes of paths that have
    statistics before all others, if not all fit; `last`: those that come last. `shapes` learns what
    the strings at each path are written like.
    """
    from strata.stats.json_scan import Scanner  # loads the compiler

    name, scanner = column_name(column_id), Scanner(first=first, last=last)
    try:
        for texts in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            scanner.add(pc.drop_null(texts))
        parts = scanner.finish()
    except ValueError:
        return {name: pa.nulls(1, DOCUMENTS)}
    if shapes is not None:
        for found in scanner.shapes():
            shapes.add_paths(column_id, found)
    columns = {
        name: struct_row(DOCUMENTS, {"nulls": int(values.null_count), "paths": scanner.paths})
    }
    return columns | _unite([_columns(part, column_id) for part in parts])


def _unite(rows: list[dict[str, pa.Array]]) -> dict[str, pa.Array]:
    if len(rows) == 1:
        return rows[0]
    names = dict.fromkeys(name for row in rows for name in row)
    missing = pa.nulls(1, JSON_PATH)
    aligned = {n: pa.chunked_array([row.get(n, missing) for row in rows]) for n in names}
    return union_columns(pa.table({ROWS: pa.nulls(len(rows), pa.int64()), **aligned}))


def _columns(part: dict[Path, Fields], column_id: int) -> dict[str, pa.Array]:
    return {path_name(column_id, path): struct_row(JSON_PATH, part[path]) for path in part}
