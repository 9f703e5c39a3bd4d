"""Make the successor of a state by the rules that no change may break."""

from dataclasses import replace
from typing import Any

from strata.errors import InvalidRequest
from strata.state.state import State


def step(state: State, now_ms: int, **changes: Any) -> State:
    """Return the successor of `state` with these fields changed.

    Its seqno is the next one, and its walltime is strictly greater even if the clock is not.

    Raises: InvalidRequest when the shard was dropped: only a revival may follow.
    """
    check_alive(state)
    return successor(state, now_ms, **changes)


def successor(state: State, now_ms: int, **changes: Any) -> State:
    """Return the successor of `state` as `step` does, also for a dropped shard."""
    walltime_ms = walltime_after(state, now_ms)
    following = replace(state, seqno=state.seqno + 1, walltime_ms=walltime_ms, **changes)
    assert following.since >= state.since or state.dropped, "since never regresses"
    assert following.upper >= state.upper or state.dropped, "upper never regresses"
    assert following.since <= following.upper, "since never passes upper"
    assert following.fence >= state.fence, "the fence never regresses"
    return following


def walltime_after(state: State, now_ms: int) -> int:
    """Return the walltime of the state after `state`: now, or just after its own."""
    return max(now_ms, state.walltime_ms + 1)


def check_alive(state: State) -> None:
    """Refuse a shard that was dropped.

    Raises: InvalidRequest.
    """
    if state.dropped is not None:
        raise InvalidRequest(
            "this shard was dropped",
            shard=state.name,
            at_ms=state.dropped.at_ms,
            by=state.dropped.by,
            reason=state.dropped.reason,
            cure="use another name, or create it again with revive",
        )
