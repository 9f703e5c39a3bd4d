"""The hold of readers: what a read has planned stays stored while it may still be reading.

A read takes minutes or hours, and compaction and garbage collection go on meanwhile. So before it
plans, a long one sees to it that a leased hold lives for as long as `[read] hold_ms` says. All
readers of a stretch of time share one: most find it there and write nothing, and a shard never
has more than a few, whatever the number of readers. It keeps parts, not history: its time is the
shard's upper, so that compaction moves since as before.

A shared hold cannot be given back by one of its readers: it expires. A reader that works for
longer (a third of the lease is over) takes one of its own, renews it while it works, and gives it
back when it ends: `kept`. Where no hold can be taken (a role that may only read) the read goes
on, and has the grace of garbage collection.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import Final, TypeVar

from strata.errors import Conflict, StrataError, Unavailable
from strata.machine import Machine
from strata.model.settings import ReadSettings
from strata.state.holds import carry_on, hold, release
from strata.state.state import Hold, State
from strata.store.open import Stores

PREFIX: Final = "readers-"  # of the names of such holds
SHARES: Final = 8  # into which the lease is cut: readers of one share its hold
ROUNDS: Final = 3  # in a lease that a long reader renews: two renewals may fail in a row
T = TypeVar("T")


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


@contextmanager
def reading(stores: Stores, name: str, settings: ReadSettings, purpose: str) -> Iterator[State]:
    """Give the newest state of a shard; its parts stay stored until the block ends.

    `purpose` is in the name of the hold that a long read takes: `strata holds` shows it.
    Raises: as `held_state`.
    """
    state = held_state(stores, name, settings)
    with kept(stores, state, settings, purpose):
        yield state


@contextmanager
def kept(stores: Stores, state: State, settings: ReadSettings, purpose: str) -> Iterator[None]:
    """Keep the parts of a state from `held_state` stored, however long the block works.

    Cost: nothing in a third of the lease; then a commit for each third, and one at the end.
    """
    if settings.hold_ms <= 0:
        yield
        return
    own = _Own(Machine(stores), state, settings.hold_ms, purpose)
    thread = Thread(target=own.work, name=own.name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        own.ended.set()
        thread.join()
        own.give_back()


def kept_while(
    stores: Stores, state: State, settings: ReadSettings, purpose: str, rows: Iterator[T]
) -> Iterator[T]:
    """Yield what `rows` yields; what the state names stays stored from the first to the last."""
    with kept(stores, state, settings, purpose):
        yield from rows


class _Own:
    """The hold that a reader takes for itself when those of all will not do."""

    def __init__(self, machine: Machine, state: State, lease_ms: int, purpose: str) -> None:
        self.name, self.ended = f"{purpose}-{secrets.token_hex(6)}", Event()
        self._machine, self._state, self._taken = machine, state, False
        self._move = partial(
            carry_on, name=self.name, seqno=state.seqno, lease_ms=lease_ms, owner=self.name
        )
        self._pause_s = lease_ms / ROUNDS / 1000

    def work(self) -> None:
        """Take the hold, and renew it, until the reader has ended."""
        while not self.ended.wait(self._pause_s):
            try:
                self._taken = True  # perhaps also where the reply was lost
                self._machine.apply(self._state.name, self._move)
            except (Unavailable, Conflict):
                continue  # perhaps the next one succeeds
            except StrataError:
                return  # no hold keeps the state, or the shard was dropped

    def give_back(self) -> None:
        """Release the hold, if it was ever taken; where that fails it expires."""
        if self._taken:
            with suppress(StrataError):
                move = partial(release, name=self.name, opaque=self.name)
                self._machine.apply(self._state.name, move)


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
