"""Applies a batch's changes to the current shard, and limits how many rows it may reject."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from strata.errors import Conflict, Corrupt, InvalidRequest
from strata.ingest.changes.foreseen import Foreseen
from strata.ingest.changes.tasks import resolve_task, resolve_tasks
from strata.ingest.commit import Committer, preview_of, turns_shown
from strata.ingest.counts import total
from strata.ingest.ledger import Ledger
from strata.ingest.plan import whole_task
from strata.ingest.readers.cures import AGAIN
from strata.ingest.readers.position import Course, Leg, StreamProgress, follow
from strata.ingest.readers.rejects import details
from strata.ingest.task import IngestReport, Step, TaskResult, Work
from strata.ingest.verify import sampling
from strata.machine.machine import Machine
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.model.spec import ShardSpec
from strata.state.source import trip
from strata.state.state import State, Trip
from strata.state.transitions import check_begun
from strata.stats.worth import NO_WORTH, StatsWorth
from strata.store.open import Stores

FEW: Final = 10  # up to this many rejected rows never fail a run, if they are at most half of it


@dataclass(frozen=True)
class Settler:
    """Resolves and commits the batches of a change stream, one after the other."""

    stores: Stores
    settings: Settings
    runner: Runner
    committer: Committer
    write_format: str | None
    spec: ShardSpec | None = None  # of this request; None: the shard's
    worth: StatsWorth = NO_WORTH  # of the statistics that parts get

    def settle(self, work: Work, found: Sequence[TaskResult]) -> IngestReport:
        """Apply the changes of one batch to the current shard, and commit the updates.

        Raises: Conflict when the shard advanced or its columns changed in the meantime;
        InvalidRequest for changes that do not follow those that are there by now; Fenced when the
        shard was created anew.
        """
        state = self.committer.machine.load(self.committer.state.name)
        check_begun(state, self.committer.state.generation)
        if state.relation != self.committer.state.relation:
            raise Conflict(
                "the columns changed while files were read, nothing was committed",
                shard=state.name,
                cure="run again",
            )
        done = self.committer.catch_up(work, found, state)
        if done is not None:
            return done
        state = replace(state, spec=self.spec or state.spec)
        results = list(found)
        staged = [one for result in found for one in result.staged]
        course = Course()
        if staged:
            legs = [leg for one in staged for leg in one.legs]
            course = course_of(state, work.step, legs, self.committer.ledger.progress())
            task = whole_task(self.settings, state, work.step, layout=self.write_format)
            how = sampling(self.settings.ingest, state, self.stores.clock(), task.token)
            task = replace(task, verify=how, worth=self.worth)
            pieces = resolve_tasks(task, state, staged, self.settings.ingest.task_bytes, course)
            opened = self.stores if self.runner is serial else None
            results += self.runner(partial(resolve_task, stores=opened), pieces)
            check_verified(state, work.step, results, self.committer.machine)
            check_rejected(state.spec, work.step, results)
        return self.committer.commit(
            work, results, upper_of_basis=state.upper, progress=course.progress
        )


@dataclass
class Preview:
    """What commits would hold, one after the other; nothing is written."""

    state: State  # when the run began
    ledger: Ledger
    foreseen: Foreseen
    _progress: StreamProgress | None = None  # of the change stream, after the batches so far
    _filled: bool = False  # a batch so far has rows

    def show(self, work: Work, results: Sequence[TaskResult]) -> IngestReport:
        """Return what a commit would hold, as far as reading the files shows.

        The batches behind it then follow its turns and its place in the stream.
        Raises: InvalidRequest for a snapshot that the shard does not accept, a contradiction that
        is not declared, and too many rejected rows.
        """
        legs = [leg for result in results for one in result.staged for leg in one.legs]
        course = Course()
        if legs:
            before = self._progress or self.ledger.progress()
            course = course_of(self.state, work.step, legs, before, filled=self._filled)
            self._progress = course.progress or before
        results = [*results, *self.foreseen.after(work.step, results, course)]
        check_rejected(self.state.spec, work.step, results)
        report = preview_of(self.state, work, results)
        self._filled |= self.foreseen.filled if self.foreseen.known else report.updates > 0
        self.ledger.foresee(turns_shown(work.step, results))
        return report


def course_of(
    state: State, step: Step, legs: Sequence[Leg], before: StreamProgress, *, filled: bool = False
) -> Course:
    """Return how the changes of a batch continue those in the shard.

    Repeated files and rows of the quarantine are repeated on purpose. `filled`: the shard will have
    rows by then.
    Raises: InvalidRequest for a snapshot that the shard does not accept.
    """
    if step.again or step.format is not None:
        course = follow(StreamProgress(), legs, policy="merge", empty=True)
        return replace(course, progress=None)
    empty = not filled and not any(batch.manifest for batch in state.batches)
    return follow(before, legs, policy=state.spec.source.snapshots, empty=empty)


def check_verified(
    state: State, step: Step, results: Sequence[TaskResult], machine: Machine | None = None
) -> None:
    """Refuse a batch that would differ from its source; `machine` also trips the source.

    Raises: Corrupt, naming file, line, column and both values.
    """
    found = [one for result in results for one in result.differences]
    if not found:
        return
    first = found[0]
    stop = Trip(
        0 if machine is None else machine.stores.clock(),
        step.token or "",
        first.file,
        first.line,
        first.column,
        first.source,
        first.stored,
    )
    if machine is not None:
        machine.apply(state.name, partial(trip, found=stop))
    raise Corrupt(
        "a value would have been stored as another one, nothing was committed",
        shard=state.name,
        **stop.place(),
        differences=len(found),
        cure="find out which value is right; nothing more is ingested until strata source release "
        f"{state.name}",
    )


def check_rejected(spec: ShardSpec, step: Step, results: Sequence[TaskResult]) -> None:
    """Refuse a run that lost too many of its rows.

    Raises: InvalidRequest, naming the first of them.
    """
    counts = total(result.counts for result in results)
    rows, rejected = counts.rows, counts.rejected
    share = spec.source.max_rejected if step.format is None else 1.0
    allowed = max(share * rows, min(FEW, rows / 2)) if share > 0 else 0
    if rejected > allowed:
        first = next(r.first_reject for r in results if r.first_reject is not None)
        stored = [key for result in results for key in result.quarantine]
        raise InvalidRequest(
            "too many rows are unreadable, nothing was committed",
            **details(first),
            rejected=rejected,
            rows=rows,
            quarantine=stored,
            cure=f"correct the files, or raise source.max_rejected; {AGAIN}",
        )
