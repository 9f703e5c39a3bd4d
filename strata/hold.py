"""The hold of readers: what a read has planned stays stored while it may still be reading.

A read takes minutes or hours, and compaction and garbage collection go on meanwhile. So before it
plans, a long one sees to it that a leased hold lives for as long as `[read] hold_ms` says. All
readers of a stretch of time share one: most find it there and write nothing, and a shard never
has more than a few, whatever the number of readers. It keeps parts, not history: its time is the
shard's upper, so that compaction moves since as before.

A shared hold cannot be given back by one of its readers: it expires. Where none can be taken (a
role that may only read) the read goes on, and has the grace of garbage collection.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Final

from strata.errors import Conflict, Unavailable
from strata.machine import Machine
from strata.model.settings import ReadSettings
from strata.state.holds import hold
from strata.state.state import Hold, State
from strata.store.open import Stores

PREFIX: Final = "readers-"  # of the names of such holds
SHARES: Final = 8  # into which the lease is cut: readers of one share its hold


def held_state(stores: Stores, name: str, settings: ReadSettings) -> State:
    """Return the newest state of a shard, whose parts stay stored for the lease of readers.

    Raises: InvalidRequest for an unknown shard; Unavailable when it cannot be read.
    Cost: now and then a commit; `SHARES` in the time of a lease at most.
    """
    machine = Machine(stores)
    state = machine.load(name)
    if settings.hold_ms <= 0 or _covered(state, stores.clock(), settings.hold_ms):
        return state
    with suppress(Unavailable, Conflict):
        machine.apply(name, lambda found, now_ms: _taken(found, now_ms, settings.hold_ms))
    return machine.load(name)  # what is planned must be younger than the hold


def _covered(state: State, now_ms: int, lease_ms: int) -> bool:
    """Tell whether a hold of readers, taken before this state, lives for a lease from now."""
    return any(_lives(found, now_ms + lease_ms) for found in state.holds)


def _lives(found: Hold, until_ms: int) -> bool:
    mine = found.name.startswith(PREFIX) and found.expires_ms is not None
    return mine and (found.expires_ms or 0) >= until_ms


def _taken(state: State, now_ms: int, lease_ms: int) -> tuple[State, None]:
    """Take the hold of this share of time, unless another reader just did; drop old ones."""
    if _covered(state, now_ms, lease_ms):
        return state, None
    share_ms = max(lease_ms // SHARES, 1)
    name = f"{PREFIX}{now_ms // share_ms}"
    # Clocks differ: one that has just expired may still be needed.
    kept = tuple(
        h for h in state.holds
        if not h.name.startswith(PREFIX) or _lives(h, now_ms - lease_ms)
    )  # fmt: skip
    tidy = replace(state, holds=kept)
    taken, _ = hold(
        tidy, now_ms, name=name, since=state.upper, lease_ms=lease_ms + share_ms, owner=PREFIX
    )
    return taken, None
