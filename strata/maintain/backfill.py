"""Backfill: collect statistics of stored parts later. Manifests change, data does not.

The runner's tasks read the parts that have no statistics, or old ones. The results are applied in
chunks, each in one commit. So a killed run resumes where it stopped, a repeated one finds nothing
to do, and results for parts merged away meanwhile are dropped and counted. The speed of a run is
recorded, so that a dry run can estimate the time of the next one.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape
from itertools import islice
from typing import Any, Final, Literal

import pyarrow as pa

from strata.errors import Corrupt
from strata.format.encodings import encoding
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.machine.replaced import noticed
from strata.machine.writer_lease import Lease, held
from strata.maintain.backfill_plan import BatchPlan, Lacking, plan_backfill
from strata.maintain.collect import (
    Collected,
    CollectTask,
    collect_part,
    half_of,
)
from strata.maintain.estimate import Cost, Speed, record_speed
from strata.maintain.exchange import (
    PARTIAL,
    Exchanged,
    Fresh,
    KnownStatistics,
    Selection,
    exchange,
    id_of,
    live,
)
from strata.maintain.worth import PARTS, newest_statistics
from strata.model.runner import Runner, serial
from strata.model.schema import Relation
from strata.model.shown import json_of
from strata.model.spec import StatsSpec
from strata.state.state import Batch, State
from strata.stats import STATS_VERSION, concat, trim
from strata.stats.trim import fit_pairs
from strata.stats.wire import (
    DOCUMENTS,
    OF_VALUES,
    ROWS,
    column_name,
    scalar_type,
)
from strata.stats.worth import same_everywhere, weighed
from strata.store import keys
from strata.store.open import Stores

COMMIT_BYTES: Final = 4 * 1024**3  # stored bytes of parts read between two commits
COMMITS_MAX: Final = 64  # of one batch; each rewrites its whole manifest

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BackfillReport:
    """What one run did to one shard. Units: bytes, of all parts in the selected times."""

    shard: str
    dry_run: bool
    parts_selected: int
    bytes_read: int  # size of the selected parts; an upper bound where columns are named
    cost: Cost
    stats_bytes_before: int
    stats_bytes_after: int  # a dry run cannot know this, and repeats the bytes before
    parts_changed: int = 0
    parts_dropped: int = 0  # read, but merged away before the result arrived
    batches_gone: int = 0
    damaged: tuple[str, ...] = ()  # why some parts could not be read; the others are done
    action: Literal["backfill"] = "backfill"

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        document = json_of(self)
        cost = document.pop("cost")
        return {**document, "requests": cost["requests"], "seconds": cost["seconds"]}

    def lines(self) -> list[str]:
        """See `Report`."""
        if self.dry_run:
            seconds = self.cost.seconds
            time = "for a time not known yet" if seconds is None else f"for about {seconds:,.0f} s"
            return [
                f"{self.shard}: backfill would read {self.parts_selected:,} parts, "
                f"{self.bytes_read:,} bytes in {self.cost.requests:,} requests, {time}"
            ]
        return [
            f"{self.shard}: backfill changed {self.parts_changed:,} of {self.parts_selected:,} "
            f"selected parts, {self.parts_dropped:,} were merged away meanwhile; statistics "
            f"{self.stats_bytes_before:,} -> {self.stats_bytes_after:,} bytes"
        ]


def backfill_shard(  # noqa: PLR0913  what, where, and how
    stores: Stores,
    shard: str,
    selection: Selection | None = None,
    *,
    runner: Runner = serial,
    dry_run: bool = False,
    usefulness: Mapping[str, float] | None = None,
    commit_bytes: int = COMMIT_BYTES,
    log: Log = lambda _: None,
    lease: Lease | None = None,
) -> BackfillReport:
    """Collect the missing statistics of a shard's selected parts, trimmed to its budget.

    `usefulness` weighs statistics columns where the budget is too small for all, see `trim`.
    `log` is called for every commit; `lease` is held while parts are read.
    Raises: InvalidRequest for an unknown shard or column; Fenced when the lease has expired, or an
    erasure has taken what is read; Corrupt for an unreadable part, after everything else is done.
    Cost: reads every selected part once, and only its named columns; a commit for each
    `commit_bytes` of parts, at most 64 a batch.
    """
    selection = selection or Selection()
    state = Machine(stores).load(shard)
    with noticed(Machine(stores), state.name, "described"):
        planned = plan_backfill(stores, state, selection)
    report = BackfillReport(
        shard,
        dry_run,
        planned.parts,
        planned.size_bytes,
        planned.cost,
        planned.stats_bytes,
        planned.stats_bytes,
    )
    if dry_run or not planned.parts:
        return report
    began_ms = stores.clock()
    with held(lease) as writer, noticed(Machine(stores), state.name, "described"):
        work = _Work(stores, state, selection, usefulness or {}, log, writer)
        report = work.run(planned.batches, runner, commit_bytes, report)
    took_ms = stores.clock() - began_ms
    if report.parts_changed:
        run = Speed(report.parts_changed, report.bytes_read, took_ms, whole=not selection.columns)
        record_speed(stores, shard, run)
    if report.damaged:
        raise Corrupt(
            "parts could not be read; all others have their statistics",
            shard=shard,
            parts=len(report.damaged),
            first=report.damaged[0],
            cure="`strata validate` lists every damaged part",
        )
    return replace(report, cost=replace(report.cost, seconds=took_ms / 1000))


@dataclass
class _Work:
    """One run over the planned parts of a shard."""

    stores: Stores
    state: State
    selection: Selection
    usefulness: Mapping[str, float]
    log: Log
    writer: str | None  # the lease under which it is committed
    ids: tuple[int, ...] = field(init=False)
    # Of parts that were read of late, untrimmed: what differs between them is worth more
    seen: deque[pa.RecordBatch] = field(default_factory=lambda: deque(maxlen=PARTS))

    def __post_init__(self) -> None:
        self.ids = self.selection.ids(self.state.relation)

    def run(
        self, plans: Sequence[BatchPlan], runner: Runner, commit_bytes: int, report: BackfillReport
    ) -> BackfillReport:
        """Read all planned parts, committing chunk by chunk; return the report."""
        same = self._same() if plans else frozenset()
        tasks = [
            self._task(part, asked, same)
            for plan in plans
            for part, asked in zip(plan.parts, plan.asked, strict=True)
        ]
        results = runner(collect_part, tasks)
        for plan in plans:
            batch: Batch | None = plan.batch
            for chunk in chunks(plan.parts, commit_bytes):
                found = dict(zip((p.key for p in chunk), islice(results, len(chunk)), strict=True))
                done = None if batch is None else self._commit(batch, found)
                report = _counted(report, found, done, gone=batch is not None and done is None)
                batch = None if done is None else done.batch
                if done is not None:
                    self.log(
                        f"{report.shard}: parts with statistics: "
                        f"{report.parts_changed:,} of {report.parts_selected:,}"
                    )
        return report

    def _same(self) -> frozenset[str]:
        """Return the JSON paths whose ranges hardly differ between parts."""
        if not any(encoding(c.type).stats == "json" for c in self.state.relation.columns):
            return frozenset()
        return same_everywhere(newest_statistics(self.stores, self.state))

    def _task(self, part: PartRef, asked: Lacking, same: frozenset[str]) -> CollectTask:
        state = self.state
        # Statistics of two versions do not mix: old ones are collected anew, for all columns.
        whole = not self.ids or part.stats_version not in (None, PARTIAL, STATS_VERSION)
        columns = None if whole else self.ids
        if not asked.bounds:
            columns = asked.ids
        return CollectTask(
            self.stores.settings,
            state.name,
            state.relations,
            half_of(state, part),
            part,
            columns,
            asked.wanted,
            asked.pairs,
            not asked.bounds,
            keys.part_prefix(state.name, state.generation),
            state.spec.stats.keep,
            frozenset(name for name, weight in self.usefulness.items() if weight),
            same,
        )

    def _commit(self, batch: Batch, found: Mapping[str, Collected]) -> Exchanged | None:
        """Apply the results to a batch; None if the batch is gone."""
        good = {key: one.stats for key, one in found.items() if one.stats is not None}
        if not good:
            now = live(Machine(self.stores).load(self.state.name), batch)
            return None if now is None else Exchanged(now, 0, 0)
        self.seen.extend(good.values())
        rows = [one.column(ROWS)[0].as_py() for one in self.seen]
        weights = weighed(self.usefulness, concat([*self.seen], rows))
        return exchange(
            self.stores,
            self.state.name,
            batch,
            good,
            lambda key, old: self._fresh(
                good[key], old, weights, members_only=found[key].members_only
            ),
            writer=self.writer,
        )

    def _fresh(
        self,
        found: pa.RecordBatch,
        old: KnownStatistics,
        weights: Mapping[str, float],
        *,
        members_only: bool,
    ) -> Fresh:
        """Return the new statistics, trimmed; columns that were not collected keep theirs."""
        relation, spec = self.state.relation, _spec(self.state, self.ids)
        if members_only:
            both = with_columns(old.stats, found, frozenset())
            return Fresh(fit_pairs(both, spec.budget_bytes)[0], old.version or PARTIAL)
        named = frozenset(filter(None, map(id_of, found.schema.names)))
        whole = named.issuperset(relation.by_id) or not self.ids
        version = STATS_VERSION
        if not whole and old.version in (None, PARTIAL):
            version = PARTIAL
        found = _answered(found, relation, self.ids)
        stays = not whole and old.stats is not None and old.version in (PARTIAL, STATS_VERSION)
        both = with_columns(old.stats, found, frozenset(self.ids if stays else relation.by_id))
        asked = {n: 2.0 + weights.get(n, 0) for n in both.schema.names if id_of(n) in self.ids}
        trimmed, _ = trim(both, relation, spec.budget_bytes, spec.keep, {**weights, **asked})
        return Fresh(trimmed, version)


def chunks(parts: Sequence[PartRef], commit_bytes: int) -> Iterator[Sequence[PartRef]]:
    """Yield the parts of a batch in chunks, each for one commit."""
    least = max(commit_bytes, sum(part.size_bytes for part in parts) // COMMITS_MAX + 1)
    start = size = 0
    for end, part in enumerate(parts, 1):
        size += part.size_bytes
        if size >= least or end == len(parts):
            yield parts[start:end]
            start, size = end, 0


def _counted(
    report: BackfillReport, found: Mapping[str, Collected], done: Exchanged | None, *, gone: bool
) -> BackfillReport:
    if done is None:
        return replace(
            report,
            parts_dropped=report.parts_dropped + len(found),
            batches_gone=report.batches_gone + gone,
        )
    problems = tuple(one.problem for one in found.values() if one.stats is None)
    return replace(
        report,
        parts_changed=report.parts_changed + done.changed,
        parts_dropped=report.parts_dropped + len(found) - len(problems) - done.changed,
        stats_bytes_after=report.stats_bytes_after + done.bytes_added,
        damaged=(*report.damaged, *problems),
    )


def with_columns(
    old: pa.RecordBatch | None, fresh: pa.RecordBatch, replaced: frozenset[int]
) -> pa.RecordBatch:
    """Return the old statistics with the replaced columns taken from the fresh ones.

    What is known of values stays true of a part, so it stays unless it was collected again.
    """
    columns: dict[str, pa.Array] = dict(zip(fresh.schema.names, fresh.columns, strict=True))
    if old is not None:
        kept = {
            name: column
            for name, column in zip(old.schema.names, old.columns, strict=True)
            if id_of(name) not in replaced or name.startswith(OF_VALUES)
        }
        columns = {**kept, **columns}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _answered(found: pa.RecordBatch, relation: Relation, ids: Sequence[int]) -> pa.RecordBatch:
    """Return statistics in which every column requested by name has some.

    Where nothing can be known (parsers disagree about a text), the statistics are all null. They
    say exactly this, so that nobody collects them again.
    """
    columns = dict(zip(found.schema.names, found.columns, strict=True))
    for column_id in ids:
        column = relation.by_id[column_id].type
        kind = DOCUMENTS if encoding(column).stats == "json" else scalar_type(column)
        columns.setdefault(column_name(column_id), pa.array([{}], kind))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _spec(state: State, ids: Sequence[int]) -> StatsSpec:
    """Return the shard's budget, with the columns requested by name on the keep list."""
    spec, names = state.spec.stats, [state.relation.by_id[i].name for i in ids]
    return replace(spec, keep=(*spec.keep, *map(escape, names)))
