"""Commits a batch: writes its manifest, records its files in the ledger, compares and appends."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from strata.errors import Conflict, InvalidRequest
from strata.ingest.counts import Counts, total
from strata.ingest.ledger import Ledger
from strata.ingest.quarantine import catch_up, write_index
from strata.ingest.readers.position import StreamProgress
from strata.ingest.readers.turns import Turns, all_turns, check_turns, of_tables
from strata.ingest.steps import bounds
from strata.ingest.task import NAMES_MAX, IngestReport, Step, TaskResult, Work
from strata.machine.machine import Machine
from strata.model.time import MIN_TIME
from strata.parts.write import WrittenPart, write_batch
from strata.state.state import Batch, Commit, State
from strata.state.transitions import Appended

ATTEMPTS: Final = 20  # at a commit, while other writers commit other files


@dataclass
class Committer:
    """Commits the batches of one run, one after the other."""

    machine: Machine
    state: State  # when the run began
    ledger: Ledger
    writer: str | None = None  # whose lease covers the run

    def commit(
        self,
        work: Work,
        results: Sequence[TaskResult],
        upper_of_basis: int | None = None,
        progress: StreamProgress | None = None,
    ) -> IngestReport:
        """Write the manifest of a batch and append it, with the files that it takes in.

        `upper_of_basis`: the upper of the shard that the updates were computed from, if any.
        `progress`: of the change stream, after this batch.
        Raises: Conflict when another run was faster, or took some of the files meanwhile.
        """
        lower, upper = bounds(work.step)
        parts = _numbered(results)
        blob, name = self.machine.stores.blob, self.state.name
        batch = write_batch(blob, name, parts, lower, upper, MIN_TIME)
        found = [key for result in results for key in result.quarantine]
        index = write_index(blob, name, work.step.token or "", found)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                done = self._append(work, results, batch, index, upper_of_basis, progress)
            except Conflict:
                if attempt == ATTEMPTS or not self._still_new(work, upper_of_basis):
                    raise
                continue
            if index is not None:
                catch_up(self.machine.stores, self.machine.load(name))
            report = report_of(name, done.commit, already_committed=done.already_committed)
            return _of_run(report, work, results)
        raise AssertionError("the last attempt returns or raises")

    def catch_up(
        self, work: Work, results: Sequence[TaskResult], state: State
    ) -> IngestReport | None:
        """Go on from the files that others took in while those of a batch were read.

        Return the report of the batch if a double of this run has committed it.
        Raises: Conflict if the batch's files or its time are taken; InvalidRequest for changes
        that the others' do not allow any more.
        """
        if self.ledger.consumed == state.consumed:
            return None
        known = self.machine.committed(state.name, work.step.token or "", bounds(work.step)[1])
        if known is not None:
            return _of_run(report_of(state.name, known, already_committed=True), work, results)
        if not self._still_new(work, None):
            raise Conflict(
                "other source files were taken in meanwhile", shard=state.name, cure="run again"
            )
        turns = turns_shown(work.step, results)
        check_turns(self.ledger.turns(), turns, state.spec.source.tables)
        return None

    def _append(
        self,
        work: Work,
        results: Sequence[TaskResult],
        batch: Batch,
        index: str | None,
        upper_of_basis: int | None,
        progress: StreamProgress | None,
    ) -> Appended:
        step, name = work.step, self.state.name
        lower, upper = bounds(step)
        assert step.token is not None
        taken = [file for result in results for file in result.taken]
        first = bounds(work.asked)[0] if work.by_time else None
        state = self.machine.load(name)
        basis = self.ledger.with_files(
            state,
            taken,
            step.token,
            first=first,
            progress=progress,
            turns=turns_shown(step, results),
        )
        try:
            return self.machine.append(
                name,
                token=step.token,
                lower=lower,
                upper=upper,
                batch=batch,
                rejected=total(result.counts for result in results).rejected,
                rejects=index,
                writer=self.writer,
                basis=replace(
                    basis,
                    upper=upper_of_basis,
                    generation=None if index is None else self.state.generation,
                ),
            )
        except InvalidRequest as error:
            known = self.machine.committed(name, step.token, upper)
            if known is not None:  # a double of this run committed the same work at another time
                return Appended(known, already_committed=True)
            if self.machine.load(name).upper <= lower:
                raise
            raise Conflict(
                "another writer was faster, nothing was committed",
                shard=name,
                reason=error.message,
                cure="run again: what is left is taken then",
            ) from error

    def _still_new(self, work: Work, upper_of_basis: int | None) -> bool:
        """Return whether a batch that lost its race can still be appended."""
        state, step = self.machine.load(self.state.name), work.step
        self.ledger = Ledger(self.machine.stores.blob, state)
        if state.upper > bounds(step)[0] or upper_of_basis not in (None, state.upper):
            return False
        if step.again:
            return True
        copies = state.spec.source.same_content == "once"
        files = step.files or ()
        return len(self.ledger.sort_out(files, copies=copies).new) == len(files)


def turns_shown(step: Step, results: Sequence[TaskResult]) -> Turns:
    """Return the turns of a batch's stream; rows that come again on purpose show only tables."""
    turns = all_turns(result.turns for result in results)
    return of_tables(turns) if step.again or step.format is not None else turns


def _numbered(results: Sequence[TaskResult]) -> list[WrittenPart]:
    """Return the parts of all tasks, with runs numbered across the batch.

    Slices of the sort order are one run, one behind another.
    """
    numbers: dict[tuple[int, int] | None, int] = {}
    parts = []
    for task, result in enumerate(results):
        for part in result.parts:
            own = None if result.sliced else (task, part.ref.run)
            run = numbers.setdefault(own, len(numbers))
            parts.append(replace(part, ref=replace(part.ref, run=run)))
    return parts


def report_of(name: str, commit: Commit, *, already_committed: bool) -> IngestReport:
    """Return the report of a commit."""
    return IngestReport(
        shard=name,
        seqno=commit.seqno,
        lower=commit.lower,
        upper=commit.upper,
        updates=commit.updates,
        parts=commit.parts,
        size_bytes=commit.size_bytes,
        already_committed=already_committed,
        token=commit.token,
        counts=Counts(rejected=commit.rejected),
    )


def report_of_known(state: State, work: Work) -> IngestReport:
    """Return the report of a step that is already committed, or has nothing left to take in."""
    if work.commit is not None:
        report = report_of(state.name, work.commit, already_committed=True)
    else:
        lower, upper = bounds(work.asked)
        report = IngestReport(
            state.name,
            state.seqno,
            lower,
            upper,
            0,
            0,
            0,
            already_committed=True,
            token=work.asked.token or "",
        )
    return _with_files(report, work)


def preview_of(state: State, work: Work, results: Sequence[TaskResult]) -> IngestReport:
    """Return what a commit would hold, as far as reading the files shows."""
    lower, upper = bounds(work.step)
    found = total(result.counts for result in results)
    report = IngestReport(
        state.name,
        state.seqno,
        lower,
        upper,
        found.rows - found.rejected,
        0,
        0,
        already_committed=False,
        token=work.step.token or "",
        counts=Counts(rejected=found.rejected),
    )
    return _of_run(report, work, results)


def _of_run(report: IngestReport, work: Work, results: Sequence[TaskResult]) -> IngestReport:
    """Return the report with facts that only the run knows; the commit knows the rejected rows."""
    parts = [part for result in results for part in result.parts]
    found = total(result.counts for result in results) + Counts(
        files=len(work.step.files or ()),
        late_files=work.late_files,
        stats_bytes=sum(part.ref.stats_bytes for part in parts),
        stats_ms=sum(part.stats_seconds for part in parts) * 1000,
    )
    return _with_files(
        replace(
            report,
            counts=replace(found, rejected=report.counts.rejected),
            quarantine=tuple(key for result in results for key in result.quarantine),
        ),
        work,
    )


def _with_files(report: IngestReport, work: Work) -> IngestReport:
    """Return the report with the files that were not taken, and why."""
    found = work.found
    return replace(
        report,
        counts=report.counts + Counts(taken_before=len(found.taken)),
        changed=tuple(file.name for file in found.changed[:NAMES_MAX]),
        copies=tuple((file.name, other) for file, other in found.copies[:NAMES_MAX]),
    )
