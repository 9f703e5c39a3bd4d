"""Ingest files into a shard: one batch an interval, exactly once, whatever is repeated.

The law: an interval, or a set of files, is committed under a token that depends on what is
ingested and never on which try it is. Before any work the token is looked up; the
compare-and-append at the end looks it up again. What a killed or overtaken try has written is
referred to by nothing.

Batches are prepared by the runner's workers side by side and committed here, in time order.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import islice, pairwise
from typing import Final

from strata.errors import InvalidRequest
from strata.ingest.files import SourceFile, files_at, files_by_time, fingerprint
from strata.ingest.plan import tasks, within
from strata.ingest.rejects import details
from strata.ingest.run import check_task, run_task
from strata.ingest.task import IngestReport, IngestTask, Step, TaskResult
from strata.ingest.updates import check_spec
from strata.lease import Lease, held
from strata.machine import Machine
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.model.spec import LAYOUTS, ShardSpec, check_name
from strata.model.time import MIN_TIME
from strata.state.state import Commit, State
from strata.store.open import Stores
from strata.write import write_batch

FEW: Final = 10  # so many rejected rows do not fail a run, if they are at most half of it
TRIES: Final = 5  # of an ingest without interval that other writers overtake


def ingest(  # noqa: PLR0913  the choices of one request
    stores: Stores,
    settings: Settings,
    name: str,
    *,
    paths: Sequence[str] | None = None,
    lower: int | None = None,
    upper: int | None = None,
    token: str | None = None,
    write_format: str | None = None,
    runner: Runner = serial,
) -> IngestReport:
    """Commit one batch to a shard and return what it holds.

    `paths`: these files and the files in these folders; None: the files of the declared sources
    whose path carries a time in [lower, upper). Without an interval the batch gets the time of
    now. The same interval again, or without one the same files again, is a success that changes
    nothing and says so.

    Raises: InvalidRequest for bad arguments, a file of the wrong shape, too many rejected rows,
    and for an interval that is already written otherwise; then nothing is committed.
    """
    files = None if paths is None else tuple(files_at(settings.store.landing, paths))
    one_batch = partial(_one, stores, settings, name, write_format=write_format, runner=runner)
    if lower is not None and upper is not None:
        return one_batch(Step(lower, upper, token, files))
    if files is None or lower is not None or upper is not None:
        raise InvalidRequest(
            "nothing says what to ingest",
            shard=name, cure="give files, or an interval with both lower and upper, or all",
        )  # fmt: skip
    return _ingest_now(stores, name, Step(None, None, token, files), one_batch)


def ingest_steps(  # noqa: PLR0913  the same
    stores: Stores,
    settings: Settings,
    name: str,
    steps: Sequence[Step],
    *,
    write_format: str | None = None,
    runner: Runner = serial,
    dry_run: bool = False,
    lease: Lease | None = None,
) -> Iterator[IngestReport]:
    """Commit one batch for each step, in time order, and yield its report when it is in.

    The tasks of all steps are run side by side, as far as the runner does. `dry_run`: files are
    read and checked, and nothing is written. `lease` is held while there is something to write.

    Raises: as `ingest`, and Fenced when the lease has expired meanwhile; the batches before the
    one that failed stay committed.
    Cost: reads every source file once; steps that are already committed read none.
    """
    machine = Machine(stores)
    state = machine.load(name)
    check_spec(state.spec, state.relation)
    _check_layout(write_format)
    known = [_committed(machine, state, _named(name, step)) for step in steps]
    open_steps = [_named(name, s) for s, commit in zip(steps, known, strict=True) if commit is None]
    _check_order(state, open_steps)
    open_steps = _with_files(settings, state, open_steps)
    with held(lease, needed=bool(open_steps) and not dry_run) as writer:
        if writer is not None:  # what is written must not be of a generation before the lease's
            state = machine.load(name)
        placed = replace(settings, store=stores.settings)
        work = [
            tasks(placed, state, step, layout=write_format, batch=number)
            for number, step in enumerate(open_steps)
        ]
        results = runner(
            _worker(stores, runner, dry_run), [task for group in work for task in group]
        )
        finish = partial(_preview, state) if dry_run else partial(_commit, machine, state, writer)
        ready = iter(zip(open_steps, work, strict=True))
        with _stopped(results):
            for commit in known:
                if commit is not None:
                    yield _report(name, commit, already_committed=True)
                else:
                    step, group = next(ready)
                    found = list(islice(results, len(group)))
                    _check_rejected(state.spec, found)
                    yield finish(step, found)


def files_token(name: str, files: Sequence[SourceFile]) -> str:
    """Return the token of a set of files: the same files with the same bytes have the same.

    Cost: reads the files.
    """
    facts = (f"{file.name}\0{file.size_bytes}\0{fingerprint(file)}" for file in files)
    return _token("files", name, *facts)


def interval_token(name: str, lower: int, upper: int) -> str:
    """Return the token of an interval of a shard."""
    return _token("interval", name, str(lower), str(upper))


def _token(kind: str, *facts: str) -> str:
    return f"{kind}-{blake2b(chr(1).join(facts).encode(), digest_size=12).hexdigest()}"


def _one(
    stores: Stores,
    settings: Settings,
    name: str,
    step: Step,
    *,
    write_format: str | None,
    runner: Runner,
) -> IngestReport:
    [report] = ingest_steps(
        stores, settings, name, [step], write_format=write_format, runner=runner
    )
    return report


def _ingest_now(
    stores: Stores, name: str, step: Step, one_batch: Callable[[Step], IngestReport]
) -> IngestReport:
    """Ingest files under the time of now, again when another writer took that time.

    Where rows bring their own time, the interval begins at the shard's upper, so that all times
    up to now are taken as they are.
    """
    assert step.files is not None
    machine = Machine(stores)
    token = step.token or files_token(name, step.files)
    for attempt in range(1, TRIES + 1):
        commit = machine.committed(name, check_name(token))
        if commit is not None:
            return _report(name, commit, already_committed=True)
        state = machine.load(name)
        now = max(state.upper, stores.clock())
        lower = now if state.spec.time.origin == "interval" else state.upper
        try:
            return one_batch(replace(step, lower=lower, upper=now + 1, token=token))
        except InvalidRequest:
            if machine.load(name).upper <= lower or attempt == TRIES:
                raise
    raise AssertionError("the last try returns or raises")


def _named(name: str, step: Step) -> Step:
    """Return the step with its token.

    Raises: InvalidRequest for an interval that is none.
    """
    lower, upper = step.lower, step.upper
    if lower is None or upper is None or not MIN_TIME <= lower < upper:
        raise InvalidRequest(
            "the interval is empty or has no end",
            shard=name, lower=lower, upper=upper, cure="lower < upper, in milliseconds since 1970",
        )  # fmt: skip
    return replace(step, token=check_name(step.token or interval_token(name, lower, upper)))


def _committed(machine: Machine, state: State, step: Step) -> Commit | None:
    """Return the earlier commit of a step, before anything is read for it.

    Raises: InvalidRequest when the interval is written under another token, or the token
    stands for another interval.
    """
    assert step.token is not None
    assert step.lower is not None
    commit = machine.committed(state.name, step.token, step.upper)
    if commit is None and step.lower < state.upper:
        raise InvalidRequest(
            "this interval is already written, and not under this token",
            shard=state.name, token=step.token, lower=step.lower, upper=step.upper,
            shard_upper=state.upper, cure="start at the shard's upper",
        )  # fmt: skip
    if commit is not None and (commit.lower, commit.upper) != (step.lower, step.upper):
        raise InvalidRequest(
            "this token was used for another interval",
            shard=state.name, token=step.token, lower=step.lower, upper=step.upper,
            first_lower=commit.lower, first_upper=commit.upper, cure="another token, or none",
        )  # fmt: skip
    return commit


def _check_order(state: State, steps: Sequence[Step]) -> None:
    for before, after in pairwise(steps):
        if (before.upper or 0) > (after.lower or 0):
            raise InvalidRequest(
                "the intervals are not in order",
                shard=state.name, upper=before.upper, next_lower=after.lower,
            )  # fmt: skip


def _check_layout(layout: str | None) -> None:
    if layout is not None and layout not in LAYOUTS:
        raise InvalidRequest(
            "unknown write format", value=layout, cure=f"one of {', '.join(LAYOUTS)}"
        )


def _with_files(settings: Settings, state: State, steps: Sequence[Step]) -> list[Step]:
    """Return the steps with the files of their time, where they do not bring their own."""
    if all(step.files is not None for step in steps):
        return list(steps)
    if not state.spec.source.paths:
        raise InvalidRequest(
            "the shard declares no source",
            shard=state.name, setting="source.paths", cure="declare it, or name files with --from",
        )  # fmt: skip
    timed = files_by_time(settings.store.landing, state.spec.source.paths)
    return [
        step
        if step.files is not None
        else replace(step, files=tuple(within(timed, step.lower or 0, step.upper or 0)))
        for step in steps
    ]


def _worker(stores: Stores, runner: Runner, dry_run: bool) -> Callable[[IngestTask], TaskResult]:
    if dry_run:
        return check_task
    # Elsewhere a worker opens the stores for itself; here the caller's are used.
    return partial(run_task, blob=stores.blob) if runner is serial else run_task


@contextmanager
def _stopped(results: Iterator[TaskResult]) -> Iterator[None]:
    """Let the runner stop what it still has under way, however this ends."""
    try:
        yield
    finally:
        if isinstance(results, Generator):
            results.close()


def _check_rejected(spec: ShardSpec, results: Sequence[TaskResult]) -> None:
    """Refuse a run that lost too many of its rows.

    Raises: InvalidRequest, naming the first of them.
    """
    rows = sum(result.rows for result in results)
    rejected = sum(result.rejected for result in results)
    share = spec.source.max_rejected
    allowed = max(share * rows, min(FEW, rows / 2)) if share > 0 else 0
    if rejected > allowed:
        first = next(r.first_reject for r in results if r.first_reject is not None)
        stored = [r.quarantine for r in results if r.quarantine is not None]
        raise InvalidRequest(
            "too many rows are unreadable, nothing was committed",
            **details(first), rejected=rejected, rows=rows, quarantine=stored,
            cure="correct the files, or raise source.max_rejected",
        )  # fmt: skip


def _commit(
    machine: Machine,
    state: State,
    writer: str | None,
    step: Step,
    results: Sequence[TaskResult],
) -> IngestReport:
    """Write the manifest of a batch and append it."""
    assert step.lower is not None
    assert step.upper is not None
    assert step.token is not None
    parts = [part for result in results for part in result.parts]
    batch = write_batch(machine.stores.blob, state.name, parts, step.lower, step.upper, MIN_TIME)
    done = machine.append(
        state.name,
        token=step.token,
        lower=step.lower,
        upper=step.upper,
        batch=batch,
        rejected=sum(result.rejected for result in results),
        writer=writer,
    )
    report = _report(state.name, done.commit, already_committed=done.already_committed)
    return _counted(report, step, results)


def _preview(state: State, step: Step, results: Sequence[TaskResult]) -> IngestReport:
    """Return what a commit would hold, as far as reading the files tells."""
    rows, rejected = sum(r.rows for r in results), sum(r.rejected for r in results)
    report = IngestReport(
        state.name, state.seqno, step.lower or 0, step.upper or 0, rows - rejected, 0, 0,
        rejected, already_committed=False, token=step.token or "",
    )  # fmt: skip
    return _counted(report, step, results)


def _counted(report: IngestReport, step: Step, results: Sequence[TaskResult]) -> IngestReport:
    """Return the report with what only the run itself knows."""
    return replace(
        report,
        files=len(step.files or ()),
        late=sum(result.late for result in results),
        quarantine=tuple(r.quarantine for r in results if r.quarantine is not None),
    )


def _report(name: str, commit: Commit, *, already_committed: bool) -> IngestReport:
    return IngestReport(
        shard=name,
        seqno=commit.seqno,
        lower=commit.lower,
        upper=commit.upper,
        updates=commit.updates,
        parts=commit.parts,
        size_bytes=commit.size_bytes,
        rejected=commit.rejected,
        already_committed=already_committed,
        token=commit.token,
    )
