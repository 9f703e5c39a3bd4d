"""Make the statistics of parts fit a byte budget, losing what is least useful first.

In this order, stopping as soon as the budget is met:

1. drop JSON paths that hold values of several kinds: nearly every cast fails on some of them;
2. shorten the bounds of strings and bytes, step by step, beyond the prefix that both share;
3. drop columns, JSON paths and places inside nested columns: first the least useful, among these
   the most expensive; children go before their parents. Dates and timestamps are of some use
   before any filter is known, since most filters of a changelog name one.

Pairs come last: of these only those stay that fit beside what the others would be without them. So
a pair never costs another statistic.

The sort order and names on the keep list survive every budget unshortened, and so do their
ancestors (`strata.stats.protected`).
Laws: trimmed statistics still enclose the data, at every budget from 0 up, and never cost more
than before. The parent of a dropped path is marked as not `complete`, so that the path does not
count as absent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.kernels.arrays import Bools
from strata.model.schema import Relation
from strata.model.types import Kind
from strata.stats.protected import protected_names
from strata.stats.size import column_bits, encoded_size
from strata.stats.trim_plan import PartPlan, StatsColumn, make_plan, sources_of
from strata.stats.wire import PAIRS, SHAPES, column_name, is_summary, parse_name, place_of

TIMES: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
TIME_WEIGHT: Final = 0.01  # of a time that no filter has named yet; any filter counts for more


@dataclass(frozen=True, slots=True)
class TrimReport:
    """What trimming did to one part."""

    dropped: tuple[str, ...]  # dropped statistics columns, in order
    shortened: tuple[str, ...]  # statistics columns whose bounds became looser
    bytes_before: int
    bytes_after: int  # above the budget, only because of what is protected


def trim(
    row: pa.RecordBatch,
    relation: Relation | None,
    budget_bytes: int,
    keep: Sequence[str],
    usefulness: Mapping[str, float] | None = None,
) -> tuple[pa.RecordBatch, TrimReport]:
    """Return the statistics of one part within the budget, and a report of the losses.

    Without a relation nothing is kept for its name or its place in the order.
    `keep` holds the patterns of `strata.stats.protected.kept_names`.
    `usefulness` weighs statistics columns by name (default 0); higher ones go later.
    Errs: bounds become looser, never tighter.
    """
    before = encoded_size(row)
    if before <= budget_bytes:
        return row, TrimReport((), (), before, before)
    columns = dict(zip(row.schema.names, row.columns, strict=True))
    sources = _sources(columns, relation, keep, usefulness)
    plan = make_plan(sources, 0, np.ones(len(sources), bool), budget_bytes)
    for place, source in enumerate(sources):
        if place in plan.bits:
            columns[source.name] = _applied(source, place, [plan])
        else:
            del columns[source.name]
    _drop_shapes(columns)
    trimmed, left_out = fit_pairs(_batch(columns), budget_bytes)
    return trimmed, _report(sources, plan, left_out, (_of_pairs(row), _of_pairs(trimmed)))


def _drop_shapes(columns: dict[str, pa.StructArray]) -> None:
    """Leave out shapes of paths of JSON that have no statistics any more: no filter uses them."""
    for name in [name for name in columns if name.startswith(SHAPES)]:
        parsed = parse_name(place_of(name))
        if parsed is None or parsed[1] is None:
            continue
        path = columns.get(place_of(name))
        if path is None or not pc.any(pc.is_valid(path)).as_py():
            del columns[name]
        elif path.null_count:
            nothing = pa.scalar(None, columns[name].type)
            columns[name] = pc.if_else(pc.is_valid(path), columns[name], nothing)


def fit_pairs(row: pa.RecordBatch, budget_bytes: int) -> tuple[pa.RecordBatch, tuple[str, ...]]:
    """Return statistics of one part with the pairs that fit into the budget, and those that do not.

    All other statistics stay, whether they fit or not.
    """
    columns = dict(zip(row.schema.names, row.columns, strict=True))
    pairs = {name: array for name, array in columns.items() if name.startswith(PAIRS)}
    room = 8 * budget_bytes - sum(_bits(a) for n, a in columns.items() if is_summary(n))
    left_out = []
    for name, array in pairs.items():
        if (cost := _bits(array)) <= room:
            room -= cost
        else:
            left_out.append(name)
            del columns[name]
    return _batch(columns), tuple(left_out)


def _of_pairs(row: pa.RecordBatch) -> int:
    """Return the cost of the pairs of one part, in bits."""
    named = zip(row.schema.names, row.columns, strict=True)
    return sum(_bits(array) for name, array in named if name.startswith(PAIRS))


def _bits(column: pa.StructArray) -> int:
    """Return the cost of one part's statistics column; a null costs nothing."""
    return int(column_bits(column)[0]) if column[0].is_valid else 0


def _batch(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def trim_table(
    table: pa.Table,
    relation: Relation,
    budget_bytes: int | Sequence[int],
    keep: Sequence[str],
    usefulness: Mapping[str, float] | None = None,
) -> tuple[pa.Table, list[TrimReport]]:
    """Return the statistics of many parts, each within the budget, and a report for each.

    Shape: one row a part, as of `concat`; null statistics count as absent. Columns that no part has
    any more are left out. Otherwise equal to `trim` of every row, but about fifty times as fast.
    `budget_bytes` is one budget for all parts, or one for each.
    """
    budgets = np.broadcast_to(np.asarray(budget_bytes, np.int64), table.num_rows).tolist()
    columns = {name: _whole(table[name]) for name in table.column_names}
    sources = _sources(columns, relation, keep, usefulness)
    there = [np.asarray(pc.is_valid(source.array)) for source in sources]
    present = np.array(there, bool).reshape(len(sources), table.num_rows)
    plans = [
        make_plan(sources, part, present[:, part], budget) for part, budget in enumerate(budgets)
    ]
    for place, source in enumerate(sources):
        if any(place in plan.bits for plan in plans):
            columns[source.name] = _applied(source, place, plans)
        elif present[place].any():
            del columns[source.name]
    _drop_shapes(columns)
    fitted = _fit_pairs(columns, plans, budgets)
    reports = [_report(sources, plan, *one) for plan, one in zip(plans, fitted, strict=True)]
    return pa.table(columns), reports


def trim_together(
    rows: Sequence[pa.RecordBatch],
    relation: Relation,
    budget_bytes: int,
    keep: Sequence[str],
    usefulness: Mapping[str, float] | None = None,
) -> list[tuple[pa.RecordBatch, TrimReport]]:
    """Return what `trim` makes of each row; those with the same columns take a third of the time.

    Arguments are those of `trim`.
    """
    alike: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault(tuple(row.schema.names), []).append(place)
    found: dict[int, tuple[pa.RecordBatch, TrimReport]] = {}
    for places in alike.values():
        some = [rows[place] for place in places]
        if len(some) > 1 and _may_be_one_table(some):
            trimmed = _trim_alike(some, relation, budget_bytes, keep, usefulness)
        else:
            trimmed = [trim(row, relation, budget_bytes, keep, usefulness) for row in some]
        found |= zip(places, trimmed, strict=True)
    return [found[place] for place in range(len(rows))]


def _may_be_one_table(rows: Sequence[pa.RecordBatch]) -> bool:
    """Return whether a null in a table of these rows means that a row lacks a column."""
    same = all(row.schema.equals(rows[0].schema) for row in rows)
    return same and not any(column.null_count for row in rows for column in row.columns)


def _trim_alike(
    rows: Sequence[pa.RecordBatch],
    relation: Relation,
    budget_bytes: int,
    keep: Sequence[str],
    usefulness: Mapping[str, float] | None,
) -> list[tuple[pa.RecordBatch, TrimReport]]:
    whole = pa.Table.from_batches(rows).combine_chunks()
    trimmed, reports = trim_table(whole, relation, budget_bytes, keep, usefulness)
    columns = {name: _whole(trimmed[name]) for name in trimmed.column_names}
    return [
        (row if report.bytes_before <= budget_bytes else _row(columns, place), report)
        for place, (row, report) in enumerate(zip(rows, reports, strict=True))
    ]


def _row(columns: Mapping[str, pa.Array], place: int) -> pa.RecordBatch:
    """Return a row with the columns that it has, in memory that other rows have no part in."""
    found = {name: column.slice(place, 1) for name, column in columns.items()}
    there = _batch({name: column for name, column in found.items() if not column.null_count})
    return pa.ipc.read_record_batch(there.serialize(), there.schema)


def _fit_pairs(
    columns: dict[str, pa.StructArray], plans: Sequence[PartPlan], budgets: Sequence[int]
) -> list[tuple[list[str], tuple[int, int]]]:
    """Leave out the pairs that do not fit; return their names, and all bits before and after."""
    spent = np.array([sum(plan.bits.values()) for plan in plans], np.int64)
    rooms = 8 * np.array(budgets, np.int64) - spent
    before, first = np.zeros(len(plans), np.int64), rooms
    left_out: list[list[str]] = [[] for _ in plans]
    for name in [name for name in columns if name.startswith(PAIRS)]:
        there = np.asarray(columns[name].is_valid(), np.bool_)
        cost = np.where(there, column_bits(columns[name]), 0)
        before = before + cost
        gone = there & (cost > rooms)
        rooms = rooms - np.where(gone, 0, cost)
        for part in np.flatnonzero(gone).tolist():
            left_out[part].append(name)
        if gone.any():
            nothing = pa.scalar(None, columns[name].type)
            columns[name] = pc.if_else(pa.array(gone), nothing, columns[name])
            if (gone | ~there).all():
                del columns[name]
    bits = zip(before.tolist(), (first - rooms).tolist(), strict=True)
    return list(zip(left_out, bits, strict=True))


def _sources(
    columns: Mapping[str, pa.StructArray],
    relation: Relation | None,
    keep: Sequence[str],
    usefulness: Mapping[str, float] | None,
) -> list[StatsColumn]:
    stats = {name: array for name, array in columns.items() if is_summary(name)}
    kept = frozenset[str]() if relation is None else protected_names(list(stats), relation, keep)
    weights = (dict.fromkeys(_time_names(relation), TIME_WEIGHT)) | dict(usefulness or {})
    return sources_of(stats, kept, lambda name: weights.get(name, 0.0))


def _applied(source: StatsColumn, place: int, plans: Sequence[PartPlan]) -> pa.StructArray:
    """Return a column after the plans of all parts."""
    gone = np.array([place not in plan.bits for plan in plans], bool)
    incomplete = np.array([place in plan.incomplete for plan in plans], bool)
    cut = {part: p.shortened[place] for part, p in enumerate(plans) if place in p.shortened}
    if not (cut or incomplete.any()):
        if not gone.any():
            return source.array
        return pc.if_else(pa.array(gone), pa.scalar(None, source.array.type), source.array)
    names = [field.name for field in source.array.type]
    children = dict(zip(names, source.array.flatten(), strict=True))
    if cut:
        children |= _shortened(source, children, cut)
    if incomplete.any():
        children["complete"] = pc.if_else(pa.array(incomplete), False, children["complete"])
    mask = pa.array(gone | ~np.asarray(pc.is_valid(source.array)))
    fields = list(source.array.type)
    return pa.StructArray.from_arrays(list(children.values()), fields=fields, mask=mask)


def _shortened(
    source: StatsColumn, children: Mapping[str, pa.Array], cut: Mapping[int, tuple[object, object]]
) -> dict[str, pa.Array]:
    """Return the changed fields: bounds, and the flags of exactness."""
    changed = {}
    for side, name in enumerate(source.bounds or ()):
        flag, texts = f"{name}_exact", list(source.texts[side])
        # A loose bound stays loose, even where this cut does not change it.
        exact: Bools = np.ones(len(texts), bool)
        for part, ends in cut.items():
            exact[part] = ends[side] == texts[part]
            texts[part] = ends[side]  # type: ignore[call-overload]
        changed[name] = pa.array(texts, children[name].type)
        known = pc.fill_null(children[flag], False)
        changed[flag] = pc.if_else(pa.array(exact), children[flag], pc.and_(known, pa.array(exact)))
    return changed


def _report(
    sources: Sequence[StatsColumn],
    plan: PartPlan,
    left_out: Sequence[str],
    pairs: tuple[int, int],
) -> TrimReport:
    """Return the losses of one part. `pairs`: the bits of its pairs before and after."""
    names = [source.name for source in sources]
    return TrimReport(
        (*(names[place] for place in plan.dropped), *left_out),
        tuple(names[place] for place in plan.shortened if place in plan.bits),
        (plan.before + pairs[0] + 7) // 8,
        (sum(plan.bits.values()) + pairs[1] + 7) // 8,
    )


def _time_names(relation: Relation | None) -> list[str]:
    """Return the statistics columns of dates and timestamps."""
    columns = () if relation is None else relation.columns
    return [column_name(column.id) for column in columns if column.type.kind in TIMES]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
