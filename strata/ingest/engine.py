"""Ingest files into a shard: one batch per interval, exactly once, however often it is repeated.

The law: an interval, or a set of files, is committed under a token that depends on what is
ingested, never on the attempt. The token is looked up before any work, and again by the
compare-and-append at the end. Nothing refers to what a killed or overtaken attempt has written.

The runner's workers prepare batches in parallel; they are committed here, in time order.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from strata.errors import Conflict, InvalidRequest
from strata.ingest.changes.foreseen import Foreseen, check_stage
from strata.ingest.changes.settle import Preview, Settler, check_rejected, check_verified
from strata.ingest.changes.tasks import stage_task
from strata.ingest.commit import Committer, report_of, report_of_known, turns_shown
from strata.ingest.land.files import files_at
from strata.ingest.ledger import Ledger
from strata.ingest.plan import ingest_tasks, split_large
from strata.ingest.quarantine import catch_up
from strata.ingest.readers.turns import check_turns
from strata.ingest.run import check_task, ingest_task
from strata.ingest.steps import again_token, files_token, interval_token, no_file, plan_steps
from strata.ingest.task import SENT_BYTES, IngestReport, IngestTask, Step, TaskResult, Work
from strata.ingest.updates import check_spec
from strata.ingest.verify import sampling
from strata.ingest.widened import check_widened
from strata.machine.machine import Machine
from strata.machine.replaced import noticed
from strata.machine.writer_lease import Lease, held
from strata.maintain.worth import paths_used
from strata.model.journals import check_not_journal
from strata.model.runner import Runner, is_here, serial, width
from strata.model.settings import Settings
from strata.model.spec import LAYOUTS, ORDERED, ShardSpec, check_name, given_token
from strata.model.time import time_given
from strata.state.source import check_source
from strata.state.spine import check_debt
from strata.state.state import State
from strata.stats.worth import NO_WORTH, worth_of
from strata.store.open import Stores

__all__ = ["files_token", "ingest", "ingest_steps", "interval_token"]

HERE_BYTES: Final = 256 << 20  # changes of a run that wait in the memory of this process
TRIES: Final = 5  # for an ingest without interval that other writers overtake


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
    again: bool = False,
    empty: bool = True,
) -> IngestReport:
    """Commit one batch to a shard and return what it holds.

    `paths`: these files and the files in these folders; None: the files of the declared sources
    whose path carries a time in [lower, upper). Without an interval the batch gets the current
    time. Files that the shard has are left out: the same interval or the same files again is a
    success that changes nothing and says so. `again` takes files in once more, on purpose, after
    their updates were retracted. Without `empty` an interval for which there is no file is refused.

    Raises: InvalidRequest for bad arguments, a file of the wrong shape, too many rejected rows,
    and an interval that is already written under another token; then nothing is committed.
    """
    links = settings.ingest.follow_links
    files = None
    if paths is not None:
        files = tuple(files_at(settings.store.landing, paths, follow_links=links))
        if not files and not empty:
            raise no_file(name, paths=list(paths))
    step = Step(lower, upper, given_token(token), files, again=again, empty=empty)
    if again and not files:
        raise InvalidRequest("only named files are taken in again", shard=name, cure="give files")
    if lower is not None and upper is not None:
        step = replace(step, lower=time_given(lower), upper=time_given(upper))
        return _one(stores, settings, name, step, write_format=write_format, runner=runner)
    if files is None or lower is not None or upper is not None:
        raise InvalidRequest(
            "nothing says what to ingest",
            shard=name,
            cure="give files, or an interval with both lower and upper, or all",
        )
    return ingest_now(stores, settings, name, step, write_format=write_format, runner=runner)


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
    """Commit one batch for each step, in time order, and yield its report after the commit.

    The tasks of all steps run in parallel, as far as the runner allows. `dry_run`: files are read
    and checked, and nothing is written. `lease` is held while there is something to write.

    Raises: as `ingest`, and Fenced when the lease has expired meanwhile, or others replaced what is
    read, and a sweep took it; the batches before the failed one stay committed.
    Cost: reads every source file once; steps that are already committed read none.
    """
    check_not_journal(name)
    with noticed(Machine(stores), name):
        yield from _in_order(
            stores, settings, name, steps, write_format, runner, lease, dry_run=dry_run
        )


def _in_order(  # noqa: PLR0913, PLR0917  as `ingest_steps`
    stores: Stores,
    settings: Settings,
    name: str,
    steps: Sequence[Step],
    write_format: str | None,
    runner: Runner,
    lease: Lease | None,
    *,
    dry_run: bool,
) -> Iterator[IngestReport]:
    machine = Machine(stores)
    state = machine.load(name)
    check_spec(state.spec, state.relation)
    check_widened(state)
    _check_layout(write_format)
    if not dry_run:
        catch_up(stores, state)
    ledger = Ledger(stores.blob, state, runner)
    works = plan_steps(machine, settings, state, ledger, steps)
    open_works = [work for work in works if work.commit is None and not work.nothing]
    if open_works and not dry_run:
        check_source(state)
        check_debt(state.spine, name, settings.compact.debt_max)
    with held(lease, needed=bool(open_works) and not dry_run) as writer:
        if writer is not None:  # blobs must not be of a generation before the lease's
            state = machine.load(name)
        _check_made_for(state, steps)
        placed = replace(settings, store=stores.settings)
        pieces = split_large(placed, state, [work.step for work in open_works], runner)
        groups = [
            ingest_tasks(
                placed,
                state,
                work.step,
                layout=write_format,
                batch=number,
                pieces=pieces,
                cores=width(runner),
            )
            for number, work in enumerate(open_works)
        ]
        worker = _worker(stores, runner, state.spec, dry_run)
        progress, shown, now_ms = ledger.progress(), ledger.turns(), stores.clock()
        writes = open_works and not dry_run
        worth = worth_of(paths_used(stores, state, settings.usage)) if writes else NO_WORTH
        held_bytes = HERE_BYTES if is_here(runner) else SENT_BYTES
        share = held_bytes // max(sum(map(len, groups)), 1)
        ready_tasks = [
            replace(
                task,
                progress=progress,
                shown=shown,
                verify=sampling(settings.ingest, state, now_ms, task.token),
                worth=worth,
                hand_over=share,
            )
            for some in groups
            for task in some
        ]
        results = runner(worker, ready_tasks)
        committer = Committer(machine, state, ledger, writer)
        finish: Callable[[Work, Sequence[TaskResult]], IngestReport]
        if dry_run:
            finish = Preview(state, ledger, Foreseen(stores, placed, state)).show
        elif state.spec.source.envelope in ORDERED:
            finish = Settler(stores, placed, runner, committer, write_format, worth=worth).settle
        else:
            finish = committer.commit
        ready = iter(groups)
        with _stopped(results):
            for work in works:
                if work.commit is not None or work.nothing:
                    yield report_of_known(state, work)
                else:
                    found = list(islice(results, len(next(ready))))
                    check_verified(state, work.step, found, None if dry_run else machine)
                    check_rejected(state.spec, work.step, found)
                    turns = turns_shown(work.step, found)
                    check_turns(committer.ledger.turns(), turns, state.spec.source.tables)
                    yield finish(work, found)


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


def ingest_now(
    stores: Stores,
    settings: Settings,
    name: str,
    step: Step,
    *,
    write_format: str | None = None,
    runner: Runner = serial,
) -> IngestReport:
    """Ingest the files of a step at the current time; retry when another writer took that time.

    If rows bring their own time, the interval begins at the shard's upper, so that all times up to
    now are taken unchanged.
    """
    assert step.files is not None
    machine = Machine(stores)
    token = step.token or _token_of_files(machine, stores, name, step, runner)
    for attempt in range(1, TRIES + 1):
        commit = machine.committed(name, check_name(token))
        if commit is not None:
            return report_of(name, commit, already_committed=True)
        state = machine.load(name)
        now = max(state.upper, stores.clock())
        lower = now if state.spec.time.origin == "interval" else state.upper
        try:
            placed = replace(step, lower=lower, upper=now + 1, token=token, empty=False)
            return _one(stores, settings, name, placed, write_format=write_format, runner=runner)
        except (Conflict, InvalidRequest):  # somebody took this time, or did the same just now
            overtaken = machine.load(name).upper > lower or machine.committed(name, token)
            if not overtaken or attempt == TRIES:
                raise
    raise AssertionError("the last try returns or raises")


def _token_of_files(machine: Machine, stores: Stores, name: str, step: Step, runner: Runner) -> str:
    assert step.files is not None
    if step.again:
        return again_token(name, Ledger(stores.blob, machine.load(name)), step.files)
    return files_token(name, step.files, runner)


def _check_made_for(state: State, steps: Sequence[Step]) -> None:
    """Refuse rows that were made for other columns: a name may be that of another one by now.

    Raises: Conflict.
    """
    if any(s.made_for not in (None, (state.relation, state.spec.source)) for s in steps):
        raise Conflict(
            "the columns or the source changed while rows were prepared, nothing was committed",
            shard=state.name,
            cure="run again",
        )


def _check_layout(layout: str | None) -> None:
    if layout is not None and layout not in LAYOUTS:
        raise InvalidRequest(
            "unknown write format", value=layout, cure=f"one of {', '.join(LAYOUTS)}"
        )


def _worker(
    stores: Stores, runner: Runner, spec: ShardSpec, dry_run: bool
) -> Callable[[IngestTask], TaskResult]:
    ordered = spec.source.envelope in ORDERED
    # Remote workers open the stores themselves; this one uses the caller's.
    blob = stores.blob if runner is serial else None
    if dry_run:
        return partial(check_stage, blob=blob) if ordered else check_task
    return partial(stage_task if ordered else ingest_task, blob=blob)


@contextmanager
def _stopped(results: Iterator[TaskResult]) -> Iterator[None]:
    """Let the runner stop its remaining work, however this ends."""
    try:
        yield
    finally:
        if isinstance(results, Generator):
            results.close()
