"""Plan what a compaction does, and why, as a function of the state alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from strata.compact.outdated import outdated
from strata.compact.rewrite import rewritten_first
from strata.model.settings import CompactSettings
from strata.model.time import MIN_TIME
from strata.state import spine as spines
from strata.state.merging import continued
from strata.state.spine import MergeRequest
from strata.state.state import Batch, State
from strata.state.transitions import advance_since


@dataclass(frozen=True, slots=True)
class CompactPlan:
    """What a compaction would do now, and why."""

    shard: str
    since_before: int
    since: int  # where since is moved first
    requests: tuple[MergeRequest, ...]
    idle_reason: str | None  # why there is nothing to do; None exactly when there are requests
    more: bool = False  # behind these requests others are due at once


def plan(
    state: State,
    settings: CompactSettings,
    *,
    full: bool = False,
    migrate: bool = False,
    enough: int = 0,
    now_ms: int | None = None,
) -> CompactPlan:
    """Return what a compaction of `state` does; the state is the only input.

    `full` merges everything into one run. `migrate` also rewrites, slot by slot, batches whose
    layout, relation or sort order differs from what is written now. A merge under way is continued.
    A merge that no slice can be cut from comes in two passes (`strata.compact.rewrite`).
    `enough`: only the cheapest merges, until at most this number of runs waits.
    `now_ms` decides which holds have expired; None takes the state's own time.
    """
    moved = advanced(state, settings, state.walltime_ms if now_ms is None else now_ms)
    found = _found(moved, full=full, migrate=migrate)
    requests = tuple(
        r
        for r in found
        if full
        or runs_of(r.batches) >= settings.min_inputs
        or (migrate and any(outdated(moved, b) for b in r.batches))
    )
    requests = _cheapest(requests, spines.debt(moved.spine) - enough) if enough else requests
    requests, more = rewritten_first(moved, requests, settings.memory_bytes)
    idle = None
    if found and not requests:
        idle = f"{len(found)} merges are due, each of fewer runs than {settings.min_inputs}"
    elif not requests:
        idle = spines.idle_reason(moved.spine) + _waiting(moved)
    return CompactPlan(state.name, state.since, moved.since, requests, idle, more)


def _cheapest(requests: Sequence[MergeRequest], runs: int) -> tuple[MergeRequest, ...]:
    """Return the first requests, of those that begin with the cheapest, that save some runs."""
    chosen: list[MergeRequest] = []
    for request in requests:
        if runs <= 0:
            break
        chosen.append(request)
        runs -= runs_of(request.batches) - 1
    return tuple(chosen)


def advanced(state: State, settings: CompactSettings, now_ms: int) -> State:
    """Return the state with since moved to the start of the kept history, as far as holds allow."""
    if settings.history_ms is None or state.upper == MIN_TIME:
        return state
    wanted = max(state.upper - settings.history_ms, MIN_TIME)
    return advance_since(state, now_ms, min(wanted, state.upper))[0]


def runs_of(batches: Sequence[Batch]) -> int:
    """Return how many runs some batches have."""
    return sum(len(batch.runs) for batch in batches)


def _found(state: State, *, full: bool, migrate: bool) -> list[MergeRequest]:
    def old(batch: Batch) -> str:
        return outdated(state, batch)

    if not full:
        return continued(state, spines.requests(state.spine, state.since, old if migrate else None))
    force = any(map(old, state.batches))
    request = spines.full_request(state.spine, state.since, force=force)
    if request is None:
        return []
    same = [r for r in continued(state, ()) if r.manifests == request.manifests]
    return same or [request]


def _waiting(state: State) -> str:
    """Return the work that `migrate` would find, as the end of a sentence."""
    old = [batch for batch in state.batches if outdated(state, batch)]
    if not old:
        return ""
    parts = sum(batch.parts for batch in old)
    return f"; {parts} parts are of {outdated(state, old[0])} and wait for `--migrate`"
