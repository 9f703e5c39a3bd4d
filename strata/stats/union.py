"""Fold the rows of statistics columns into one row that encloses them all.

For each column, and each place inside one, counts add up and the low is the lowest of the lows. If
some row has no bound on a side, the union has none on that side. A row that contradicts itself (low
above high) counts as having none: a lie must not become a plausible range.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.kernels.arrays import Bools, Ints
from strata.stats.flat import min_max, struct_row
from strata.stats.wire import JSON_PATH, LENGTHS, ROWS, Path, parse_name

Numbers = Ints

_JSON_COUNTS = (
    "present",
    "json_nulls",
    "bools",
    "trues",
    "numbers",
    "integers",
    "strings",
    "lists",
    "maps",
)


@dataclass(frozen=True, slots=True)
class Presence:
    """What is known of one JSON path, row by row; if neither flag is set, it is unknown."""

    known: Bools  # has statistics
    absent: Bools  # exists in no row of the part


def union_columns(table: pa.Table) -> dict[str, pa.Array]:
    """Return one row for each `s.*` column of `table` that every row knows."""
    if table.num_rows == 1 and not any(column.null_count for column in table.itercolumns()):
        return {name: _combined(table, name) for name in table.column_names if parse_name(name)}
    return _enclosing(table)


def _enclosing(table: pa.Table) -> dict[str, pa.Array]:
    """Return the union of any number of rows, column by column."""
    result: dict[str, pa.Array] = {}
    rows = _numbers(table[ROWS])
    trees: dict[int, dict[Path, str]] = {}
    for name in table.column_names:
        parsed = parse_name(name)
        if parsed is None:
            continue
        column_id, path = parsed
        if path is not None:
            trees.setdefault(column_id, {})[path] = name
        elif table[name].null_count == 0:
            result[name] = _union_flat(_combined(table, name), rows)
    for tree in trees.values():
        result |= _union_json(table, tree)
    return result


def presence(table: pa.Table, tree: dict[Path, str]) -> dict[Path, Presence]:
    """Return, for each path of one JSON column, the parts where it is known and where known absent.

    `tree` maps the paths to the names of their columns. Ancestors without a column of their own are
    unknown unless one of their own ancestors is complete. Shape: parents come before children.
    """
    states: dict[Path, Presence] = {}
    opens: dict[Path, Bools] = {}  # parts in which a missing path below is known to be absent
    wanted = {path[:length] for path in tree for length in range(len(path) + 1)}
    for path in sorted(wanted, key=lambda p: (len(p), p)):
        above = opens[path[:-1]] if path else np.zeros(table.num_rows, bool)
        known, complete = _known_complete(table, tree.get(path))
        states[path] = Presence(known, ~known & above)
        opens[path] = np.where(known, complete, above)
    return states


def _known_complete(table: pa.Table, name: str | None) -> tuple[Bools, Bools]:
    if name is None:
        nothing = np.zeros(table.num_rows, bool)
        return nothing, nothing
    column = _combined(table, name)
    known = np.asarray(pc.is_valid(column))
    return known, _flags(column, "complete")


def _union_flat(column: pa.StructArray, rows: Numbers) -> pa.StructArray:
    names = [field.name for field in column.type]
    fields: dict[str, Any] = {n: _sum(column, n) for n in names if n in ("count", "nulls", "nans")}
    values = _counts(column, "count") if "count" in names else rows
    nans = _counts(column, "nans") if "nans" in names else np.zeros_like(rows)
    valued = values != _counts(column, "nulls") + nans
    if "paths" in names:  # no row has more than their union
        most = pc.struct_field(column, "paths")
        fields["paths"] = None if most.null_count else pc.max(most).as_py()
    if "low" in names:
        fields |= _union_bounds(column, valued, ("low", "high", "low_exact", "high_exact"))
    if "shortest" in names:
        fields |= _union_lengths(column, valued)
    return struct_row(column.type, fields)


def _union_lengths(column: pa.StructArray, valued: Bools) -> dict[str, Any]:
    kept = column.filter(pa.array(valued))
    least, most = (pc.struct_field(kept, name) for name in LENGTHS)
    if not len(kept) or least.null_count or most.null_count or _contradicts(least, most):
        return {}
    return dict(zip(LENGTHS, (pc.min(least), pc.max(most)), strict=True))


def _union_bounds(
    column: pa.StructArray, valued: Bools, names: tuple[str, str, str, str]
) -> dict[str, Any]:
    """Return low, high and their exact flags over the rows in `valued`."""
    low, high, low_exact, high_exact = names
    kept = column.filter(pa.array(valued))
    lows, highs = pc.struct_field(kept, low), pc.struct_field(kept, high)
    unknown = {low: None, high: None, low_exact: False, high_exact: False}
    if not len(kept) or _contradicts(lows, highs):
        return unknown
    sides: dict[str, Any] = dict(unknown)
    if lows.null_count == 0:
        sides[low] = min_max(lows)[0]
        sides[low_exact] = _attained(kept, lows, sides[low], low_exact)
    if highs.null_count == 0:
        sides[high] = min_max(highs)[1]
        sides[high_exact] = _attained(kept, highs, sides[high], high_exact)
    return sides


def _contradicts(lows: pa.Array, highs: pa.Array) -> bool:
    if pa.types.is_floating(lows.type) and (_any(pc.is_nan(lows)) or _any(pc.is_nan(highs))):
        return True
    return _any(pc.greater(lows, highs))


def _attained(kept: pa.StructArray, bounds: pa.Array, bound: pa.Scalar, flag: str) -> bool:
    return _any(pc.and_(pc.equal(bounds, bound), pc.struct_field(kept, flag)))


def _union_json(table: pa.Table, tree: dict[Path, str]) -> dict[str, pa.Array]:
    states = presence(table, tree)
    result = {}
    for path in sorted(tree):
        state = states[path]
        if bool((state.known | state.absent).all()):
            column = _combined(table, tree[path]).filter(pa.array(state.known))
            result[tree[path]] = _union_path(column)
    return result


def _union_path(column: pa.StructArray) -> pa.StructArray:
    """Return the union of the rows of one path, all of them known."""
    fields: dict[str, Any] = {name: _sum(column, name) for name in _JSON_COUNTS}
    numbers, strings = _counts(column, "numbers") != 0, _counts(column, "strings") != 0
    both = _union_bounds(column, numbers, ("num_low", "num_high", "num_exact", "num_exact"))
    both["num_exact"] = _both_exact(column, numbers, both)
    fields |= both
    fields |= _union_bounds(
        column, strings, ("str_low", "str_high", "str_low_exact", "str_high_exact")
    )
    fields["complete"] = bool(_flags(column, "complete").all())
    return struct_row(JSON_PATH, fields)


def _both_exact(column: pa.StructArray, numbers: Bools, bounds: dict[str, Any]) -> bool:
    """Return where both number bounds of the union are values that occur."""
    kept = column.filter(pa.array(numbers))
    sides = [("num_low", bounds["num_low"]), ("num_high", bounds["num_high"])]
    return all(
        bound is not None and _attained(kept, pc.struct_field(kept, name), bound, "num_exact")
        for name, bound in sides
    )


def _combined(table: pa.Table, name: str) -> pa.StructArray:
    column = table[name]
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _numbers(values: pa.Array | pa.ChunkedArray) -> Numbers:
    """Return counts as numbers; a missing one is -1, which equals no count."""
    return np.asarray(pc.fill_null(values, -1), dtype=np.int64)


def _counts(column: pa.StructArray, name: str) -> Numbers:
    return _numbers(pc.struct_field(column, name))


def _flags(column: pa.StructArray, name: str) -> Bools:
    return np.asarray(pc.fill_null(pc.struct_field(column, name), False), dtype=bool)


def _sum(column: pa.StructArray, name: str) -> int | None:
    if column.type.get_field_index(name) < 0:  # statistics of an older version
        return None
    values = pc.struct_field(column, name)
    return None if values.null_count else int(pc.sum(values).as_py() or 0)


def _any(values: pa.Array) -> bool:
    return bool(pc.any(values).as_py())
