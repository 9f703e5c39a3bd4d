"""Compaction: replace batches by one that says the same from since on, in fewer updates.

    advance since -> plan (state only) -> merge (anywhere) -> check -> compare-and-set

`plan` is a pure function of the state and decides everything; `compact_shard` executes exactly
that. A merge that lost its race is dropped. Its parts stay where they are: they are named by
their content, and the faster merge has written, and uses, the same ones; what nobody uses is
left to garbage collection, which alone knows. Source: docs/compaction.md.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from strata.crossing import expected_shift
from strata.errors import Corrupt
from strata.fetch import load_manifest_of
from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.machine import Machine
from strata.model.runner import Runner, serial
from strata.model.schema import Relation
from strata.model.settings import CompactSettings, Settings
from strata.model.time import MIN_TIME, format_time
from strata.rewrite import MergeTask, TaskResult, check_inputs, run_task, tasks, unchanged
from strata.state import spine as spines
from strata.state.spine import Applied, MergeRequest, MergeResult, NotApplied
from strata.state.state import Batch, State
from strata.state.transitions import advance_since, apply_merge
from strata.store.open import Stores
from strata.write import write_batch

Progress = Callable[["RequestReport"], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a compaction would do now, and why."""

    shard: str
    since_before: int
    since: int  # where since is moved first
    requests: tuple[MergeRequest, ...]
    idle_reason: str | None  # why nothing is done; None exactly when there are requests


@dataclass(frozen=True, slots=True)
class RequestReport:
    """What became of one request."""

    lower: int
    upper: int
    since: int
    reason: str  # why it was made
    outcome: str  # applied | planned | why it was not applied
    updates_in: int
    updates_out: int
    bytes_in: int
    bytes_out: int
    parts_in: int
    parts_out: int
    runs_in: int
    by_reference: bool = False  # nothing was rewritten: the input already was the result

    @property
    def applied(self) -> bool:
        """Return whether the merge is in the state."""
        return self.outcome == "applied"

    def __str__(self) -> str:
        """Return the request and its outcome on one line."""
        made = f"[{_time(self.lower)}, {_time(self.upper)}) {self.reason}: {self.outcome}"
        if not self.applied:
            return f"{made}; {self.updates_in:,} updates, {self.bytes_in:,} bytes"
        return (
            f"{made}{' by reference' if self.by_reference else ''}; "
            f"updates {self.updates_in:,} -> {self.updates_out:,}, "
            f"bytes {self.bytes_in:,} -> {self.bytes_out:,}, "
            f"parts {self.parts_in:,} -> {self.parts_out:,}"
        )


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did to one shard."""

    shard: str
    since: int
    requests: tuple[RequestReport, ...]
    idle_reason: str | None
    runs_before: int
    runs_after: int
    seconds: float

    @property
    def applied(self) -> int:
        """Return how many requests were applied."""
        return sum(request.applied for request in self.requests)

    @property
    def not_applied(self) -> tuple[str, ...]:
        """Return why requests were not applied: another merge was faster."""
        return tuple(r.outcome for r in self.requests if not r.applied and r.outcome != "planned")

    def lines(self) -> list[str]:
        """Return the report as people read it: a line for each request, or why there is none."""
        head = f"{self.shard}: since {_time(self.since)}"
        if self.idle_reason is not None:
            return [f"{head}; nothing to do: {self.idle_reason}"]
        if all(request.outcome == "planned" for request in self.requests):
            change = f"{len(self.requests)} merges would be done"
            return [f"{head}; {change}", *(f"  {request}" for request in self.requests)]
        change = f"{self.applied} of {len(self.requests)} merges applied in {self.seconds:.1f} s"
        runs = f"runs {self.runs_before:,} -> {self.runs_after:,}"
        return [f"{head}; {change}; {runs}", *(f"  {request}" for request in self.requests)]

    def to_json(self) -> dict[str, Any]:
        """Return the document of `strata compact --json`.

        Units: times in milliseconds since 1970, sizes in bytes. Totals count applied requests.
        """
        done = [r for r in self.requests if r.applied]
        return {
            "shard": self.shard,
            "since": self.since,
            "requests": [
                {
                    "lower": r.lower, "upper": r.upper, "since": r.since, "runs": r.runs_in,
                    "bytes": r.bytes_in, "parts": r.parts_in, "updates": r.updates_in,
                    "reason": r.reason, "outcome": r.outcome,
                }
                for r in self.requests
            ],
            "applied": self.applied,
            "not_applied": len(self.not_applied),
            "updates_in": sum(r.updates_in for r in done),
            "updates_out": sum(r.updates_out for r in done),
            "bytes_in": sum(r.bytes_in for r in done),
            "bytes_out": sum(r.bytes_out for r in done),
            "parts_in": sum(r.parts_in for r in done),
            "parts_out": sum(r.parts_out for r in done),
            "runs_before": self.runs_before,
            "runs_after": self.runs_after,
            "idle_reason": self.idle_reason,
            "seconds": round(self.seconds, 3),
        }  # fmt: skip


def plan(
    state: State, settings: CompactSettings, *, full: bool = False, now_ms: int | None = None
) -> Plan:
    """Return what a compaction of `state` does; nothing else is looked at.

    `full` merges everything into one run, also to bring old layouts and orders to the newest.
    `now_ms` decides which holds have expired; None takes the state's own time.
    """
    moved = advanced(state, settings, state.walltime_ms if now_ms is None else now_ms)
    if full:
        request = spines.full_request(moved.spine, moved.since, force=_is_mixed(moved))
        found = [] if request is None else [request]
    else:
        found = spines.requests(moved.spine, moved.since)
    requests = tuple(r for r in found if full or _runs(r.batches) >= settings.min_inputs)
    idle = None
    if found and not requests:
        idle = f"{len(found)} merges are due, each of fewer runs than {settings.min_inputs}"
    elif not requests:
        idle = spines.idle_reason(moved.spine)
    return Plan(state.name, state.since, moved.since, requests, idle)


def advanced(state: State, settings: CompactSettings, now_ms: int) -> State:
    """Return the state with since where the kept history begins, as far as holds allow."""
    if settings.history_ms is None or state.upper == MIN_TIME:
        return state
    wanted = max(state.upper - settings.history_ms, MIN_TIME)
    return advance_since(state, now_ms, min(wanted, state.upper))[0]


def _is_mixed(state: State) -> bool:
    """Return whether some part is in another layout, relation or order than is written now."""
    if any(b.manifest and b.versions != (state.relation.version,) for b in state.batches):
        return True
    return any(
        layout != state.spec.write_format for b in state.batches for layout, _ in b.layouts
    ) or any(run.order != state.relation.sort_ids for b in state.batches for run in b.runs)


def _runs(batches: Sequence[Batch]) -> int:
    return sum(len(batch.runs) for batch in batches)


def preview(stores: Stores, name: str, settings: Settings, *, full: bool = False) -> CompactReport:
    """Return the report of a compaction that was only planned; nothing is changed or read."""
    state = Machine(stores).load(name)
    made = plan(state, settings.compact, full=full, now_ms=stores.clock())
    requests = tuple(_report(request, "planned") for request in made.requests)
    runs = _runs(state.batches)
    return CompactReport(name, made.since, requests, made.idle_reason, runs, runs, 0.0)


def compact_shard(
    stores: Stores,
    name: str,
    settings: Settings,
    runner: Runner = serial,
    *,
    full: bool = False,
    progress: Progress | None = None,
) -> CompactReport:
    """Move since, merge what is due, apply it, and say what happened.

    All tasks of all requests go to `runner` at once; a request is applied when its last task is
    back, the others being under way. `progress` is told of each.

    Raises: Corrupt when inputs are damaged or an output does not say the same as its inputs;
    what was applied before stays.
    """
    began = time.monotonic()
    machine = Machine(stores)
    machine.apply(name, partial(_advance, settings.compact))
    state = machine.load(name)
    # Since stands where it was just moved: to move it again would be a change without a commit.
    made = plan(state, replace(settings.compact, history_ms=None), full=full)
    prepared = [_prepare(stores, state, request, settings.compact) for request in made.requests]
    results = iter(runner(run_task, [task for p in prepared for task in p.tasks]))
    reports = []
    for request in prepared:
        reports.append(_finish(machine, request, results))
        if progress is not None:
            progress(reports[-1])
    after = machine.load(name) if reports else state
    return CompactReport(
        name, made.since, tuple(reports), made.idle_reason,
        _runs(state.batches), _runs(after.batches), time.monotonic() - began,
    )  # fmt: skip


def _time(value: int) -> str:
    return "the beginning" if value == MIN_TIME else format_time(value)


def _advance(settings: CompactSettings, state: State, now_ms: int) -> tuple[State, int]:
    moved = advanced(state, settings, now_ms)
    return moved, moved.since


@dataclass(frozen=True)
class _Prepared:
    shard: str
    request: MergeRequest
    tasks: tuple[MergeTask, ...]
    kept: Batch | None  # the result, where nothing has to be rewritten
    inputs: tuple[PartRef, ...] = ()
    relations: tuple[Relation, ...] = ()  # as the tasks know them


def _prepare(
    stores: Stores, state: State, request: MergeRequest, settings: CompactSettings
) -> _Prepared:
    manifests = manifests_of(stores, state, request)
    check_inputs(request, manifests)
    refs = [ref for refs in manifests.values() for ref in refs]
    if unchanged(state, request, refs):
        (only,) = (b for b in request.batches if b.manifest is not None)
        kept = replace(only, lower=request.lower, upper=request.upper, since=request.since)
        return _Prepared(state.name, request, (), kept)
    cut = tasks(state, request, manifests, stores.settings, settings.memory_bytes)
    return _Prepared(state.name, request, tuple(cut), None, tuple(refs), state.relations)


def manifests_of(
    stores: Stores, state: State, request: MergeRequest
) -> Mapping[str, Sequence[PartRef]]:
    """Return the parts of a request's batches by manifest key; statistics are not loaded."""
    return {
        batch.manifest: part_refs(load_manifest_of(stores.blob, state.name, batch, SCHEMA.names))
        for batch in request.batches
        if batch.manifest is not None
    }


def _finish(machine: Machine, prepared: _Prepared, results: Iterator[TaskResult]) -> RequestReport:
    """Take the results of a request's tasks, write its manifest, and apply it.

    Raises: Corrupt when the output does not hold what the inputs hold; nothing is applied then.
    """
    request = prepared.request
    batch, shift = prepared.kept, 0
    if batch is None:
        found = [next(results) for _ in prepared.tasks]
        crossed = [part for result in found for part in result.crossed]
        shift = expected_shift(prepared.inputs, crossed, prepared.relations, prepared.shard)
        parts = [part for result in found for part in result.parts]
        batch = write_batch(
            machine.stores.blob, prepared.shard, parts, request.lower, request.upper, request.since
        )
    result = MergeResult(request.id_lower, request.id_upper, request.manifests, batch, shift)
    try:
        applied: Applied | NotApplied = machine.apply(
            prepared.shard, lambda state, now_ms: apply_merge(state, now_ms, result)
        )
    except Corrupt as error:
        details = {"shard": prepared.shard, **error.details}
        cure = "nothing was applied; run `strata validate` to find the part that is wrong"
        raise Corrupt(error.message, cure=error.cure or cure, **details) from error
    outcome = "applied" if isinstance(applied, Applied) else applied.reason
    return _report(request, outcome, batch, by_reference=prepared.kept is not None)


def _report(
    request: MergeRequest, outcome: str, batch: Batch | None = None, *, by_reference: bool = False
) -> RequestReport:
    inputs = request.batches
    return RequestReport(
        request.lower, request.upper, request.since, request.reason, outcome,
        updates_in=sum(b.updates for b in inputs), updates_out=batch.updates if batch else 0,
        bytes_in=sum(b.size_bytes for b in inputs), bytes_out=batch.size_bytes if batch else 0,
        parts_in=sum(b.parts for b in inputs), parts_out=batch.parts if batch else 0,
        runs_in=_runs(inputs), by_reference=by_reference,
    )  # fmt: skip
