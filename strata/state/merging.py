"""The merges that a state remembers: those under way, and those applied.

A long merge keeps the output of its first tasks: `Progress` names a manifest of the parts. No
reader sees them, and garbage collection spares them. If the run is killed, the next one continues
after them. The tasks of a merge are functions of their inputs, so it does not matter which run did
which; `work`, a fingerprint of everything that the output depends on, shows whether the tasks are
the same. Progress ends with its merge, or as soon as an input is gone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from strata.state.spine import Applied, MergeRequest, MergeResult, NotApplied, placed
from strata.state.state import Batch, Merge, Progress, State
from strata.state.step import step
from strata.state.transitions import apply_merge, check_fence

MERGES_MAX: Final = 64  # remembered in the state; older states have older ones


def finish_merge(
    state: State,
    now_ms: int,
    result: MergeResult,
    merge: Merge,
    *,
    resumed: str | None = None,
    writer: str | None = None,
) -> tuple[State, Applied | NotApplied]:
    """Replace the inputs of a merge by its result, and add the merge to the history.

    `resumed` is the manifest of the progress that the merge continued: its parts may be older than
    the fence, and are safe only while the state names them.
    Raises: as `transitions.apply_merge`.
    """
    if lost := _lost(state, resumed, result.batch):
        return state, lost
    following, outcome = apply_merge(state, now_ms, result, writer=writer)
    if following is state:
        return state, outcome
    entry = replace(merge, seqno=following.seqno, at_ms=following.walltime_ms)
    merges = (*state.merges, entry)[-MERGES_MAX:]
    return replace(following, merges=merges, merging=live_progress(following)), outcome


def keep_progress(
    state: State,
    now_ms: int,
    progress: Progress,
    *,
    resumed: str | None = None,
    writer: str | None = None,
) -> tuple[State, Applied | NotApplied]:
    """Remember the output of a merge's first tasks.

    Changes nothing if the state already has more, because another run is further. `resumed`: as in
    `finish_merge`.
    Raises: Fenced, as `transitions.apply_merge`.
    """
    if not _is_live(state, progress):
        return state, NotApplied("its inputs are no longer in the spine")
    known = next((p for p in state.merging if p.work == progress.work), None)
    if known is not None and known.done >= progress.done:
        return state, Applied(already=True)
    written = Batch(progress.lower, progress.upper, progress.since, manifest=progress.manifest)
    if lost := _lost(state, resumed, written):
        return state, lost
    check_fence(state, now_ms, written, writer)
    others = (p for p in live_progress(state) if not {*p.inputs} & {*progress.inputs})
    merging = (*others, replace(progress, at_ms=max(now_ms, state.walltime_ms + 1)))
    return step(state, now_ms, merging=merging), Applied(already=False)


def _lost(state: State, resumed: str | None, batch: Batch) -> NotApplied | None:
    """Return why resumed parts may be gone; None if they are safe."""
    named = {p.manifest for p in state.merging} | {b.manifest for b in state.batches}
    if resumed is None or resumed in named or batch.manifest in named:
        return None
    return NotApplied("what it went on from is no longer kept: somebody else has gone on from it")


def live_progress(state: State) -> tuple[Progress, ...]:
    """Return the progress whose inputs are all still present and adjacent."""
    return tuple(p for p in state.merging if _is_live(state, p))


def continued(state: State, requests: Sequence[MergeRequest]) -> list[MergeRequest]:
    """Return `requests`, replaced by the original request where a merge is already under way.

    Batches appended since then wait for the next merge, because they would change the work.
    """
    under_way = [_request(state, progress) for progress in live_progress(state)]
    taken = {key for request in under_way for key in request.manifests}
    return [*under_way, *(r for r in requests if not taken.intersection(r.manifests))]


def _request(state: State, progress: Progress) -> MergeRequest:
    batches = _inputs(state, progress)
    slots = [s for s in state.spine.slots if any(b in s.batches for b in batches)]
    return MergeRequest(
        slots[0].id_lower,
        slots[-1].id_upper,
        progress.lower,
        progress.upper,
        progress.since,
        batches,
        f"under way: {progress.done} of {progress.tasks} tasks are done",
    )


def _is_live(state: State, progress: Progress) -> bool:
    """Return whether the result of a merge can still replace its inputs."""
    batches = _inputs(state, progress)
    return bool(batches) and all(b.since <= progress.since for b in batches)


def _inputs(state: State, progress: Progress) -> tuple[Batch, ...]:
    """Return the inputs of a merge and the batches between them; () if they are gone."""
    filled = [at for at, batch in enumerate(state.batches) if batch.manifest is not None]
    batches = [state.batches[at] for at in filled]
    first = placed(batches, progress.inputs, progress.lower, progress.upper)
    if first is None:
        return ()
    return state.batches[filled[first] : filled[first + len(progress.inputs) - 1] + 1]
