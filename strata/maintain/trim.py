"""Trim the statistics of a shard by what its filters need.

Filters show which statistics help: those that readers used (`strata.history.usage`) and registered
ones. They are decided on the current statistics, which shows what each statistics column skips, and
again on the trimmed ones, which shows what the trimming costs. Only manifests change, in one commit
a batch; a repeated run finds nothing to do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from strata.decide.question import Question
from strata.errors import InvalidRequest
from strata.history import usage
from strata.machine.machine import Machine
from strata.machine.replaced import noticed
from strata.machine.writer_lease import Lease, held
from strata.maintain.exchange import (
    Fresh,
    KnownStatistics,
    Limit,
    Selection,
    exchange,
    statistics_label,
)
from strata.maintain.trim_report import ColumnEffect, FilterEffect, Named, TrimShardReport
from strata.maintain.trim_tasks import (
    ColumnTally,
    Judging,
    Survey,
    SurveyTask,
    Trimmed,
    TrimTask,
    survey_batch,
    trim_rows,
)
from strata.maintain.worth import newest_statistics
from strata.model.runner import Runner, serial
from strata.model.settings import UsageSettings
from strata.model.spec import StatsSpec
from strata.state.state import State
from strata.stats.worth import weighed
from strata.store.open import Stores

FILTERS_MAX: Final = 64  # the most used filters; each is decided twice for every part
TASK_PARTS: Final = 4096  # parts trimmed by one task, in some seconds


def trim_shard(  # noqa: PLR0913  what, how far, and how
    stores: Stores,
    shard: str,
    selection: Selection | None = None,
    *,
    budget_bytes: int | None = None,
    registered: Sequence[Named] = (),
    log: UsageSettings | None = None,
    runner: Runner = serial,
    dry_run: bool = False,
    lease: Lease | None = None,
) -> TrimShardReport:
    """Trim the statistics of the selected parts to a budget; None: the shard's own budget.

    With named columns only their statistics change. `registered` filters and those of the log weigh
    the statistics; a real run folds the log. A dry run reports the same and changes nothing.
    Raises: InvalidRequest for an unknown shard or column, or for a limit of bytes; Fenced when the
    lease, which is held while manifests are rewritten, has expired.
    Cost: reads and rewrites manifests, reads no part.
    """
    selection = selection or Selection()
    if selection.bytes_max is not None:
        raise InvalidRequest("trimming reads no part", cure="limit the parts, not the bytes")
    settings = log or UsageSettings()
    state = Machine(stores).load(shard)
    used = usage.recent(stores, shard, settings)
    filters = [*registered, *_logged(used)][:FILTERS_MAX]
    job = _Job(stores, state, selection, _spec(state, budget_bytes), filters)
    with noticed(Machine(stores), state.name, "trimmed"):
        surveys = job.survey(runner)
        weights = column_weights(used, filters, surveys)
        above = any(survey.rows for survey in surveys)
        if above:
            weights = weighed(weights, newest_statistics(stores, state))
        with held(lease, needed=above and not dry_run) as job.writer:
            report = job.trim(runner, surveys, weights, dry_run=dry_run)
    if not dry_run:
        usage.fold(stores, shard, settings)
    return report


def _spec(state: State, budget_bytes: int | None) -> StatsSpec:
    spec = state.spec.stats
    return spec if budget_bytes is None else replace(spec, budget_bytes=budget_bytes)


def _logged(used: Sequence[usage.UsedFilter]) -> list[Named]:
    return [
        Named(f"log {number}", "log", one.filter, one.reads) for number, one in enumerate(used, 1)
    ]


def column_weights(
    used: Sequence[usage.UsedFilter], filters: Sequence[Named], surveys: Sequence[Survey]
) -> dict[str, float]:
    """Return the weight of each statistics column; see `strata.history.usage.usefulness`."""
    shares = {}
    for number, one in enumerate(filters):
        judged = [survey.filters[number] for survey in surveys]
        total = sum(j.parts for j in judged)
        credits: Counter[str] = Counter()
        for j in judged:
            credits.update(j.credit)
        shares[usage.filter_identity(one.filter)] = {
            n: p / max(total, 1) for n, p in credits.items()
        }
    known = {one.identity for one in used}
    unread = [
        usage.unread(one.filter)
        for one in filters
        if usage.filter_identity(one.filter) not in known
    ]
    return usage.usefulness([*used, *unread], shares)


@dataclass
class _Job:
    """One run over one shard."""

    stores: Stores
    state: State
    selection: Selection
    spec: StatsSpec
    filters: Sequence[Named]
    judging: Judging = field(init=False)
    writer: str | None = None  # the lease under which it is committed

    def __post_init__(self) -> None:
        state = self.state
        self.judging = Judging(
            state.name,
            state.relation,
            tuple(Question.about(state, one.filter) for one in self.filters),
        )

    def survey(self, runner: Runner) -> list[Survey]:
        """Return the parts above the budget, batch by batch, within the selection's limit."""
        tasks = [
            SurveyTask(self.stores.settings, self.judging, batch, self.selection, self.spec)
            for batch in self.state.batches
            if self.selection.covers(batch)
        ]
        limit = Limit(self.selection)
        found = [survey for survey in runner(survey_batch, tasks) if survey is not None]
        return [replace(s, rows=tuple(limit.take(s.rows, [0] * len(s.rows)))) for s in found]

    def trim(
        self,
        runner: Runner,
        surveys: Sequence[Survey],
        weights: Mapping[str, float],
        *,
        dry_run: bool,
    ) -> TrimShardReport:
        """Trim the surveyed parts and commit them, batch by batch; return the report."""
        tasks = [
            TrimTask(
                self.stores.settings,
                self.judging,
                survey.batch,
                survey.rows[start : start + TASK_PARTS],
                self.spec,
                frozenset(self.selection.ids(self.state.relation)),
                weights,
            )
            for survey in surveys
            for start in range(0, len(survey.rows), TASK_PARTS)
        ]
        before = sum(survey.stats_bytes for survey in surveys)
        selected = sum(len(survey.rows) for survey in surveys)
        report = TrimShardReport(self.state.name, dry_run, selected, 0, before, before, 0, 0)
        done: list[Trimmed] = []
        for trimmed in _by_batch(runner(trim_rows, tasks)):
            done += trimmed
            if not dry_run:
                report = self._commit(report, trimmed)
        if dry_run:
            added = sum(one.bytes_added for one in done)
            report = replace(report, stats_bytes_after=before + added)
        return self._effects(report, surveys, done, weights)

    def _commit(self, report: TrimShardReport, trimmed: Sequence[Trimmed]) -> TrimShardReport:
        pairs = {key: pair for one in trimmed for key, pair in one.stats.items()}
        if not pairs:
            return report

        def change(key: str, known: KnownStatistics) -> Fresh | None:
            seen, fresh = pairs[key]
            # Another writer gave the part new statistics meanwhile: keep those.
            same = known.stats is not None and known.stats.equals(seen)
            return fresh if same and known.version == fresh.version else None

        done = exchange(
            self.stores, self.state.name, trimmed[0].batch, pairs, change, writer=self.writer
        )
        changed = 0 if done is None else done.changed
        return replace(
            report,
            parts_changed=report.parts_changed + changed,
            parts_dropped=report.parts_dropped + len(pairs) - changed,
            batches_gone=report.batches_gone + (done is None),
            stats_bytes_after=report.stats_bytes_after + (0 if done is None else done.bytes_added),
        )

    def _effects(
        self,
        report: TrimShardReport,
        surveys: Sequence[Survey],
        done: Sequence[Trimmed],
        weights: Mapping[str, float],
    ) -> TrimShardReport:
        filters = tuple(
            self._filter_effect(number, surveys, done) for number in range(len(self.filters))
        )
        return replace(
            report,
            filters=filters,
            columns=self._column_effects(done, weights),
            filters_skipped_before=sum(one.skipped_before for one in filters),
            filters_skipped_after=sum(one.skipped_after for one in filters),
        )

    def _filter_effect(
        self, number: int, surveys: Sequence[Survey], done: Sequence[Trimmed]
    ) -> FilterEffect:
        one, judged = self.filters[number], [survey.filters[number] for survey in surveys]
        before = sum(j.skipped for j in judged)
        lost = sum(t.skipped[number][0] - t.skipped[number][1] for t in done)
        return FilterEffect(
            one.name,
            one.source,
            one.filter.sql,
            one.reads,
            sum(j.parts for j in judged),
            before,
            before - lost,
        )

    def _column_effects(
        self, done: Sequence[Trimmed], weights: Mapping[str, float]
    ) -> tuple[ColumnEffect, ...]:
        tallies: dict[str, ColumnTally] = {}
        for trimmed in done:
            for name, tally in trimmed.columns.items():
                tallies[name] = tallies.get(name, ColumnTally()).plus(tally)
        return tuple(
            ColumnEffect(
                statistics_label(name, self.state.relation),
                tally.parts,
                tally.dropped,
                tally.shortened,
                (tally.bits_before + 7) // 8,
                (tally.bits_after + 7) // 8,
                round(weights.get(name, 0.0), 4),
            )
            for name, tally in sorted(tallies.items())
            if tally.dropped or tally.shortened
        )


def _by_batch(results: Iterable[Trimmed | None]) -> Iterator[list[Trimmed]]:
    """Yield the results of each batch together; they are adjacent."""
    waiting: list[Trimmed] = []
    for one in results:
        if one is None:
            continue
        if waiting and waiting[0].batch != one.batch:
            yield waiting
            waiting = []
        waiting.append(one)
    if waiting:
        yield waiting
