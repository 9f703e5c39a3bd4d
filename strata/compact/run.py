"""Carry out a compaction: merge what is due, keep what is done, apply it by compare-and-set."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from strata.compact.keep import Chunks, resumed, work_cut_later, work_of
from strata.compact.plan import advanced, plan, runs_of
from strata.compact.report import CompactReport, RequestReport
from strata.compact.rewrite import Rewriting, is_rewrite
from strata.compact.stretches import Stretches, in_stretches
from strata.compact.tasks import (
    MergeTask,
    TaskOutput,
    check_inputs,
    merge_slice,
    merge_tasks,
    unchanged,
)
from strata.errors import Corrupt
from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.machine.machine import Machine
from strata.machine.replaced import noticed
from strata.machine.writer_lease import Lease, held
from strata.maintain.worth import merged_worth, paths_used
from strata.model.runner import Runner, serial
from strata.model.settings import CompactSettings, Settings
from strata.model.sums import MODULUS
from strata.parts.batch import BatchWriter
from strata.parts.manifests import load_manifest_of
from strata.parts.relation_change import Crossed, expected_shift
from strata.parts.write import WrittenPart
from strata.state.merging import finish_merge
from strata.state.spine import Applied, MergeRequest, MergeResult, NotApplied
from strata.state.state import Batch, Merge, Progress, State
from strata.stats.worth import NO_WORTH, StatsWorth
from strata.store.open import Stores

Report = Callable[[RequestReport], None]


@dataclass(frozen=True)
class _Prepared:
    """A request, cut into tasks, and the progress of earlier runs."""

    state: State  # the state in which it was planned
    request: MergeRequest
    tasks: tuple[MergeTask, ...]
    kept: Batch | None  # the result if nothing has to be rewritten
    inputs: tuple[PartRef, ...] = ()
    progress: Progress | None = None  # of an earlier run with exactly the same tasks
    writer: str | None = None  # the lease under which it is committed
    work: str = ""  # the fingerprint of the tasks
    cutter: Stretches | Rewriting | None = None  # of tasks whose turn comes; then no `tasks`
    worth: StatsWorth = NO_WORTH  # of the tasks that are cut later

    @property
    def rest(self) -> tuple[MergeTask, ...]:
        """Return the remaining tasks, without those that are cut later."""
        return self.tasks[self.done :]

    @property
    def done(self) -> int:
        """Return how many tasks earlier runs have done."""
        return self.progress.done if self.progress else 0

    @property
    def count(self) -> int:
        """Return the number of tasks; of those that are cut later, an estimate."""
        return len(self.tasks) if self.cutter is None else self.cutter.tasks

    def later(self) -> Iterator[list[MergeTask]]:
        """Yield the remaining tasks that are cut when their turn comes."""
        for cut in () if self.cutter is None else self.cutter.cut(self.done):
            yield [replace(task, worth=self.worth) for task in cut]


def preview(
    stores: Stores, name: str, settings: Settings, *, full: bool = False, migrate: bool = False
) -> CompactReport:
    """Return the report of a compaction that is only planned; nothing is changed or read."""
    state = Machine(stores).load(name)
    made = plan(state, settings.compact, full=full, migrate=migrate, now_ms=stores.clock())
    requests = tuple(_report(request, "planned") for request in made.requests)
    runs = runs_of(state.batches)
    return CompactReport(name, made.since, requests, made.idle_reason, runs, runs, 0.0)


def compact_shard(  # noqa: PLR0913  what to merge, where, and how to report
    stores: Stores,
    name: str,
    settings: Settings,
    runner: Runner = serial,
    *,
    full: bool = False,
    migrate: bool = False,
    enough: int = 0,
    progress: Report | None = None,
    lease: Lease | None = None,
) -> CompactReport:
    """Move since, merge what is due, apply it, and report what happened.

    All tasks of all requests go to `runner` at once, but those of a request of very many parts one
    stretch after the other (`strata.compact.stretches`). What is written anew before it can be
    merged is merged in a second round (`strata.compact.rewrite`). A request is applied when its
    last task returns, while others are under way. Until then, the output of its first tasks is kept
    in the state after every `compact.chunk_bytes`. `enough`: only the cheapest merges are done,
    until at most this number of runs waits. `progress` is called for each request. `lease` is held
    while there is something to merge.

    Raises: Fenced when the lease has expired meanwhile; Corrupt when inputs are damaged or an
    output is not equivalent to its inputs. Requests applied before stay applied.
    """
    began = time.monotonic()
    machine, options = Machine(stores), settings.compact
    machine.apply(name, partial(_advance, options))
    # Since was moved just now: moving it again would be a change without a commit.
    planned = partial(
        plan, settings=replace(options, history_ms=None), full=full, migrate=migrate, enough=enough
    )
    made = planned(state := machine.load(name))
    reports: list[RequestReport] = []
    with held(lease, needed=bool(made.requests)) as writer, noticed(machine, state.name, "merged"):
        if writer is not None:  # written blobs must not be of a generation before the lease's
            made = planned(state := machine.load(name))
        before = runs_of(state.batches)
        while made.requests:
            used = paths_used(stores, state, settings.usage)
            prepared = [_prepare(stores, state, r, options, writer, used) for r in made.requests]
            shared = iter(runner(merge_slice, [task for p in prepared for task in p.rest]))
            done = 0
            for request in prepared:
                results = _results(runner, request, shared)
                reports.append(_finish(machine, request, results, options, began))
                done += reports[-1].applied
                if progress is not None:
                    progress(reports[-1])
            if not made.more or not done:
                break
            behind = planned(state := machine.load(name))
            made = replace(behind, since=made.since, idle_reason=made.idle_reason)
    after = machine.load(name) if reports else state
    return CompactReport(
        name,
        made.since,
        tuple(reports),
        made.idle_reason,
        before,
        runs_of(after.batches),
        time.monotonic() - began,
    )


def manifests_of(
    stores: Stores, state: State, request: MergeRequest
) -> Mapping[str, Sequence[PartRef]]:
    """Return the parts of a request's batches by manifest key; statistics are not loaded."""
    return {
        batch.manifest: part_refs(load_manifest_of(stores.blob, state.name, batch, SCHEMA.names))
        for batch in request.batches
        if batch.manifest is not None
    }


def _advance(settings: CompactSettings, state: State, now_ms: int) -> tuple[State, int]:
    moved = advanced(state, settings, now_ms)
    return moved, moved.since


def _prepare(
    stores: Stores,
    state: State,
    request: MergeRequest,
    settings: CompactSettings,
    writer: str | None,
    used: Mapping[str, float],
) -> _Prepared:
    worth = merged_worth(stores, state, request.batches, used)
    memory = settings.memory_bytes
    if is_rewrite(state, request, memory):
        anew = Rewriting(stores, state, request, memory)
        work = work_cut_later(request, state, memory, anew.task_bytes)
        known = next((p for p in state.merging if p.work == work), None)
        return _Prepared(state, request, (), None, (), known, writer, work, anew, worth)
    if in_stretches(state, request):
        large = Stretches(stores, state, request, memory)
        if large.unchanged:
            return _Prepared(state, request, (), _moved(request), writer=writer)
        work = work_cut_later(request, state, memory, large.slices)
        known = next((p for p in state.merging if p.work == work), None)
        return _Prepared(state, request, (), None, (), known, writer, work, large, worth)
    manifests = manifests_of(stores, state, request)
    check_inputs(request, manifests)
    refs = [ref for refs in manifests.values() for ref in refs]
    if unchanged(state, request, refs):
        return _Prepared(state, request, (), _moved(request), writer=writer)
    cut = tuple(merge_tasks(state, request, manifests, stores.settings, memory))
    cut = tuple(replace(task, worth=worth) for task in cut)
    work = work_of(request, cut)
    known = next((p for p in state.merging if p.work == work and p.tasks == len(cut)), None)
    return _Prepared(state, request, cut, None, tuple(refs), known, writer, work)


def _moved(request: MergeRequest) -> Batch:
    """Return the only batch of a request that has parts, over the times of all."""
    (only,) = (b for b in request.batches if b.manifest is not None)
    return replace(only, lower=request.lower, upper=request.upper, since=request.since)


def _results(
    runner: Runner, prepared: _Prepared, shared: Iterator[TaskOutput]
) -> Iterator[TaskOutput]:
    """Yield what the remaining tasks of a request write; `shared` has that of tasks cut before."""
    for _ in prepared.rest:
        yield next(shared)
    for tasks in prepared.later():
        for _, found in zip(tasks, runner(merge_slice, tasks), strict=True):
            yield found


def _finish(
    machine: Machine,
    prepared: _Prepared,
    results: Iterator[TaskOutput],
    settings: CompactSettings,
    began: float,
) -> RequestReport:
    """Take the results of a request's tasks, write its manifest, and apply it.

    Raises: Corrupt when the output does not hold what the inputs hold; then nothing is applied.
    """
    state, request = prepared.state, prepared.request
    batch, shift, output = prepared.kept, 0, None
    if batch is None:
        output = _collect(machine, prepared, results, settings)
        shift = expected_shift(prepared.inputs, output.crossed, state.relations, state.name)
        shift = (shift + output.shift) % MODULUS
        batch = output.writer.finish(request.lower, request.upper, request.since)
        report = _report(request, "", batch, kept=output.kept)
    else:
        report = _report(request, "", batch, kept=batch.parts, by_reference=True)
    report = replace(
        report,
        tasks=len(prepared.tasks) if output is None else output.tasks,
        resumed=prepared.done,
        seconds=time.monotonic() - began,
        stats_bytes=batch.stats_bytes,
        stats_seconds=0.0 if output is None else output.stats_seconds,
    )
    resumed_from = None if output is None else output.resumed
    result = MergeResult(request.id_lower, request.id_upper, request.manifests, batch, shift)
    outcome = _apply(machine, prepared, result, report, resumed_from)
    reason = "applied" if isinstance(outcome, Applied) else outcome.reason
    return replace(report, outcome=reason)


@dataclass
class _Output:
    """What the tasks of a request have written so far; its parts are in the writer's pages."""

    writer: BatchWriter
    are_inputs: Callable[[Sequence[str]], Iterable[bool]]
    tasks: int = 0
    crossed: list[Crossed] = field(default_factory=list)
    shift: int = 0  # of tasks that know it themselves
    kept: int = 0  # parts of the output that are parts of the input
    stats_seconds: float = 0.0
    digest: int = 0
    resumed: str | None = None  # the manifest of progress that must still be named when it is done

    def add(self, parts: Iterable[WrittenPart]) -> None:
        """Add the next parts."""
        for part in parts:
            self.writer.add(part.ref, part.stats)
            self.digest += part.ref.digest
            self.kept += int(sum(self.are_inputs([part.ref.key])))
            self.stats_seconds += part.stats_seconds


def _collect(
    machine: Machine,
    prepared: _Prepared,
    results: Iterator[TaskOutput],
    settings: CompactSettings,
) -> _Output:
    """Return the output of all tasks, those of earlier runs included."""
    state = prepared.state
    writer = BatchWriter(machine.stores.blob, state.name, state.generation)
    output = _Output(writer, _are_inputs(prepared), prepared.done)
    output.add(resumed(machine.stores, state.name, prepared.progress))
    resumed_digest = output.digest
    kept = prepared.progress.manifest if prepared.progress else None
    chunks = Chunks(
        machine,
        state,
        prepared.request,
        (prepared.work, prepared.count),
        settings.chunk_bytes,
        kept,
        prepared.writer,
        alone=isinstance(prepared.cutter, Rewriting),
    )
    for found in results:
        output.add(found.parts)
        output.crossed += found.crossed
        output.shift += found.shift
        output.tasks += 1
        chunks.keep(output.tasks, writer)
    if isinstance(prepared.cutter, Rewriting):  # tasks of earlier runs have compared their digests
        output.shift += resumed_digest - prepared.cutter.passed_digest
    output.resumed = chunks.resumed
    return output


def _are_inputs(prepared: _Prepared) -> Callable[[Sequence[str]], Iterable[bool]]:
    """Return what says which parts are inputs."""
    if prepared.cutter is not None:
        return prepared.cutter.are_inputs
    inputs = frozenset(ref.key for ref in prepared.inputs)
    return partial(map, inputs.__contains__)


def _apply(
    machine: Machine,
    prepared: _Prepared,
    result: MergeResult,
    report: RequestReport,
    resumed: str | None,
) -> Applied | NotApplied:
    merge = Merge(
        0, 0, report.lower, report.upper, report.since, report.reason, report.runs_in,
        report.updates_in, report.updates_out, report.bytes_in, report.bytes_out,
        report.parts_in, report.parts_out, report.parts_kept, report.tasks, report.resumed,
        round(report.seconds, 3),
    )  # fmt: skip
    shard = prepared.state.name
    move = partial(
        finish_merge, result=result, merge=merge, resumed=resumed, writer=prepared.writer
    )
    try:
        applied: Applied | NotApplied = machine.apply(shard, move)
    except Corrupt as error:
        details = {"shard": shard, **error.details}
        cure = "nothing was applied; run `strata validate` to find the damaged part"
        raise Corrupt(error.message, cure=error.cure or cure, **details) from error
    return applied


def _report(
    request: MergeRequest,
    outcome: str,
    batch: Batch | None = None,
    *,
    kept: int = 0,
    by_reference: bool = False,
) -> RequestReport:
    inputs = request.batches
    return RequestReport(
        request.lower,
        request.upper,
        request.since,
        request.reason,
        outcome,
        updates_in=sum(b.updates for b in inputs),
        updates_out=batch.updates if batch else 0,
        bytes_in=sum(b.size_bytes for b in inputs),
        bytes_out=batch.size_bytes if batch else 0,
        parts_in=sum(b.parts for b in inputs),
        parts_out=batch.parts if batch else 0,
        runs_in=runs_of(inputs),
        by_reference=by_reference,
        parts_kept=kept,
    )
