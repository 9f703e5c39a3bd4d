"""Statistics of stored parts, collected or trimmed afterwards: manifests change, data does not.

*Backfill* reads the parts that have no statistics, or older ones, wherever the runner takes the
work; *trim* makes statistics fit a smaller budget. Either way each batch gets a new manifest over
the same parts, committed by itself: an interrupted run goes on where it stopped, a repeated one
finds nothing to do, and a batch that was compacted away in the meantime is left alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, Literal

import pyarrow as pa

from strata.fetch import Source, load_manifest_of, part_batches
from strata.format.manifest import SCHEMA, PartRef, part_refs, stats_rows
from strata.machine import Machine
from strata.model.runner import Runner, serial
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.model.spec import StatsSpec
from strata.state.state import Batch, State
from strata.state.transitions import replace_manifests
from strata.stats import STATS_VERSION, collect, concat, encoded_size, trim, union
from strata.stats.wire import column_name, parse_name
from strata.store.open import Stores, open_stores
from strata.store.retry import retry
from strata.write import WrittenPart, write_batch

Action = Literal["backfill", "trim"]
Rows = dict[int, pa.RecordBatch]  # new statistics by row of a manifest
Change = Callable[[Sequence[WrittenPart]], Rows]

_ROW_HALF: Final = "row"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which parts are meant."""

    lower: int | None = None  # batches that reach past this time; None: from the first
    upper: int | None = None  # batches that begin before this time; None: to the last
    columns: tuple[str, ...] = ()  # by name: only these, where they are unknown; empty: all
    version: int = STATS_VERSION  # older statistics are collected anew

    def covers(self, batch: Batch) -> bool:
        """Tell whether a batch has parts and lies, at least in part, in the selected times."""
        after = self.lower is None or batch.upper > self.lower
        before = self.upper is None or batch.lower < self.upper
        return batch.manifest is not None and after and before


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The parts of one batch that are to be read."""

    batch: Batch
    rows: tuple[int, ...]  # their rows in the manifest
    parts: tuple[PartRef, ...]


@dataclass(frozen=True, slots=True)
class StatsReport:
    """What one run did to one shard. Units: bytes, of all parts in the selected times."""

    shard: str
    action: Action
    dry_run: bool
    parts_selected: int
    parts_changed: int  # 0 in a dry run
    stats_bytes_before: int
    stats_bytes_after: int  # a dry backfill cannot know, and repeats the bytes before
    bytes_read: int  # size of the parts that backfill has to read
    batches_gone: int  # compacted away in the meantime, nothing done

    def document(self) -> dict[str, Any]:
        """Return the report as the JSON that job and command line print."""
        return asdict(self)

    def line(self) -> str:
        """Return the report on one line, for a log."""
        would = "would change" if self.dry_run else "changed"
        parts = self.parts_selected if self.dry_run else self.parts_changed
        return (
            f"{self.shard}: {self.action} {would} {parts:,} of {self.parts_selected:,} selected "
            f"parts, statistics {self.stats_bytes_before:,} -> {self.stats_bytes_after:,} bytes"
        )


def backfill_shard(
    stores: Stores,
    shard: str,
    selection: Selection | None = None,
    *,
    runner: Runner = serial,
    dry_run: bool = False,
) -> StatsReport:
    """Collect the statistics that the selected parts of a shard lack, trimmed as it declares.

    Raises: InvalidRequest for an unknown shard or column; Corrupt for a part that cannot be read
    (the batches before it are committed).
    Cost: reads every selected part once, only the named columns of it; one commit a batch.
    """
    selection = selection or Selection()
    state = Machine(stores).load(shard)
    plans = plan_backfill(stores, state, selection)
    bytes_read = sum(part.size_bytes for plan in plans for part in plan.parts)
    tally = _Tally(stores, state, selection, "backfill", dry_run, bytes_read)
    tally.select(sum(len(plan.rows) for plan in plans))
    if dry_run:
        return tally.report()
    ids = _column_ids(state.relation, selection)
    merge = _Merge(state.relation, _spec(state, selection), frozenset(ids or ()), selection)
    tasks = [
        CollectTask(stores.settings, shard, state.relations, _half(state, part), part, ids)
        for plan in plans
        for part in plan.parts
    ]
    results = runner(collect_part, tasks)
    for plan in plans:
        fresh = dict(zip(plan.rows, islice(results, len(plan.rows)), strict=True))
        tally.commit(plan.batch, partial(merge.rows, fresh))
    return tally.report()


def trim_shard(
    stores: Stores,
    shard: str,
    selection: Selection | None = None,
    *,
    budget_bytes: int | None = None,
    runner: Runner = serial,
    dry_run: bool = False,
) -> StatsReport:
    """Make the statistics of the selected parts fit a budget; None: the one the shard declares.

    Only times are selected; every column counts. Raises: InvalidRequest for an unknown shard.
    Cost: rewrites manifests, reads no part.
    """
    selection = selection or Selection()
    state = Machine(stores).load(shard)
    spec = state.spec.stats
    if budget_bytes is not None:
        spec = replace(spec, budget_bytes=budget_bytes)
    tally = _Tally(stores, state, selection, "trim", dry_run, bytes_read=0)
    batches = [batch for batch in state.batches if selection.covers(batch)]
    tasks = [TrimTask(stores.settings, shard, batch, state.relation, spec) for batch in batches]
    for batch, (over, rows) in zip(batches, runner(trim_batch, tasks), strict=True):
        tally.select(over)
        tally.commit(batch, partial(_unchanged, rows))
    return tally.report()


def plan_backfill(stores: Stores, state: State, selection: Selection) -> list[BatchPlan]:
    """Return the parts that `backfill_shard` would read, batch by batch in time order.

    Raises: InvalidRequest for an unknown column. Cost: one manifest a batch, in part.
    """
    ids = _column_ids(state.relation, selection) or ()
    names = [column_name(column_id) for column_id in ids]
    plans = []
    for batch in filter(selection.covers, state.batches):
        table = _manifest(stores, state.name, batch, [*SCHEMA.names, *names])
        refs = part_refs(table)
        lacking = [
            any(name not in table.column_names or not table[name][row].is_valid for name in names)
            for row in range(len(refs))
        ]
        rows = tuple(row for row, ref in enumerate(refs) if _is_old(ref, selection) or lacking[row])
        if rows:
            plans.append(BatchPlan(batch, rows, tuple(refs[row] for row in rows)))
    return plans


@dataclass(frozen=True, slots=True)
class CollectTask:
    """One part to read; picklable."""

    settings: StoreSettings
    shard: str
    relations: tuple[Relation, ...]
    read_format: str
    part: PartRef
    columns: tuple[int, ...] | None  # None: all


def collect_part(task: CollectTask) -> pa.RecordBatch:
    """Return the untrimmed statistics of one part, in the newest relation.

    Raises: Corrupt. Cost: reads the part, holds one batch of its rows at a time.
    """
    blob = open_stores(task.settings).blob
    source = Source(blob, task.shard, task.relations, task.read_format)
    pieces, counts = [], []
    for batch in part_batches(source, task.part, columns=task.columns):
        pieces.append(collect(batch, source.relation))
        counts.append(batch.num_rows)
    row = union(concat(pieces, counts))
    assert row is not None, "every piece has statistics"
    return row


@dataclass(frozen=True, slots=True)
class TrimTask:
    """One manifest to trim; picklable."""

    settings: StoreSettings
    shard: str
    batch: Batch
    relation: Relation
    spec: StatsSpec


def trim_batch(task: TrimTask) -> tuple[int, Rows]:
    """Return how many parts of a batch are over the budget, and the rows that could be trimmed."""
    table = _manifest(open_stores(task.settings), task.shard, task.batch)
    over, changed = 0, Rows()
    for number, row in enumerate(stats_rows(table)):
        if row is None:
            continue
        trimmed, report = trim(row, task.relation, task.spec.budget_bytes, task.spec.keep)
        over += report.bytes_before > task.spec.budget_bytes
        if report.dropped or report.shortened:
            changed[number] = trimmed
    return over, changed


class _Tally:
    """Commits batch after batch and counts."""

    def __init__(
        self,
        stores: Stores,
        state: State,
        selection: Selection,
        action: Action,
        dry_run: bool,
        bytes_read: int,
    ) -> None:
        before = sum(b.stats_bytes for b in state.batches if selection.covers(b))
        self._stores, self._shard = stores, state.name
        self._report = StatsReport(
            state.name, action, dry_run, 0, 0, before, before, bytes_read, batches_gone=0
        )

    def select(self, parts: int) -> None:
        self._report = replace(self._report, parts_selected=self._report.parts_selected + parts)

    def commit(self, batch: Batch, change: Change) -> None:
        """Rewrite a batch's manifest with the rows that `change` makes of its parts."""
        table = _manifest(self._stores, self._shard, batch)
        old = stats_rows(table)
        parts = [WrittenPart(r, s) for r, s in zip(part_refs(table), old, strict=True)]
        changed = change(parts)
        for row, stats in changed.items():
            parts[row] = _with_stats(parts[row], stats)
        after = sum(part.ref.stats_bytes for part in parts) - batch.stats_bytes
        if changed and not self._report.dry_run and not self._put(batch, parts):
            self._report = replace(self._report, batches_gone=self._report.batches_gone + 1)
            return
        made = 0 if self._report.dry_run else len(changed)
        self._report = replace(
            self._report,
            parts_changed=self._report.parts_changed + made,
            stats_bytes_after=self._report.stats_bytes_after + after,
        )

    def _put(self, batch: Batch, parts: Sequence[WrittenPart]) -> bool:
        """Write the new manifest and put it in place; False if its batch is no longer there."""
        assert batch.manifest is not None
        new = write_batch(
            self._stores.blob, self._shard, parts, batch.lower, batch.upper, batch.since
        )
        if new.manifest == batch.manifest:
            return True
        exchange = partial(replace_manifests, replacements={batch.manifest: new})
        return Machine(self._stores).apply(self._shard, exchange) > 0

    def report(self) -> StatsReport:
        return self._report


@dataclass(frozen=True, slots=True)
class _Merge:
    """How fresh statistics meet those that a part has already."""

    relation: Relation
    spec: StatsSpec
    asked: frozenset[int]  # ids of the columns that were asked for by name; empty: all
    selection: Selection

    def rows(self, fresh: Rows, parts: Sequence[WrittenPart]) -> Rows:
        """Return fresh statistics, trimmed; where only some columns were read, the others stay."""
        return {number: self._row(row, parts[number]) for number, row in fresh.items()}

    def _row(self, fresh: pa.RecordBatch, part: WrittenPart) -> pa.RecordBatch:
        stays = self.asked and not _is_old(part.ref, self.selection)
        whole = _joined(part.stats, fresh, self.asked) if stays else fresh
        weights = {name: 1.0 for name in whole.schema.names if _id(name) in self.asked}
        spec = self.spec
        trimmed, _ = trim(whole, self.relation, spec.budget_bytes, spec.keep, weights)
        return trimmed


def _unchanged(rows: Rows, _: Sequence[WrittenPart]) -> Rows:
    return rows


def _joined(
    old: pa.RecordBatch | None, fresh: pa.RecordBatch, replaced: frozenset[int]
) -> pa.RecordBatch:
    """Return the old statistics with those of the replaced columns taken from the fresh ones."""
    columns: Mapping[str, pa.Array] = dict(zip(fresh.schema.names, fresh.columns, strict=True))
    if old is not None:
        kept = {
            name: column
            for name, column in zip(old.schema.names, old.columns, strict=True)
            if _id(name) not in replaced
        }
        columns = {**kept, **columns}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _id(name: str) -> int | None:
    """Return the column id in a statistics name; None for `rows`."""
    parsed = parse_name(name)
    return parsed[0] if parsed else None


def _with_stats(part: WrittenPart, stats: pa.RecordBatch) -> WrittenPart:
    ref = replace(part.ref, stats_version=STATS_VERSION, stats_bytes=encoded_size(stats))
    return WrittenPart(ref, stats)


def _is_old(part: PartRef, selection: Selection) -> bool:
    return part.stats_version is None or part.stats_version < selection.version


def _column_ids(relation: Relation, selection: Selection) -> tuple[int, ...] | None:
    return tuple(relation.column(name).id for name in selection.columns) or None


def _spec(state: State, selection: Selection) -> StatsSpec:
    """Return the shard's budget, with the columns that were asked for by name kept."""
    spec = state.spec.stats
    return replace(spec, keep=(*spec.keep, *selection.columns))


def _half(state: State, part: PartRef) -> str:
    """Return the half of a part that readers believe: statistics must describe what they see."""
    read_rows = state.spec.read_format == _ROW_HALF and part.layout != "structured"
    return _ROW_HALF if read_rows or part.layout == _ROW_HALF else "structured"


def _manifest(
    stores: Stores, shard: str, batch: Batch, columns: Sequence[str] | None = None
) -> pa.Table:
    return retry(partial(load_manifest_of, stores.blob, shard, batch, columns))
