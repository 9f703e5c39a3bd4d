"""Keep the parts of a planned read from being deleted while it runs.

A read takes minutes or hours, while compaction and garbage collection go on. So before a long read
plans, it makes sure that a leased hold lives for `[read] hold_ms`. All readers of a stretch of time
share one hold: most find it in place and write nothing, and a shard never has more than a few, for
any number of readers. The hold keeps parts, not history: its time is the shard's upper, so
compaction moves since as before.

No reader can give a shared hold back; it expires. A reader that works longer (a third of the lease
is over) takes a hold of its own, renews it while it works, and gives it back at the end: `kept`. A
reader with a known end, such as a command or a job, takes its own hold at once and leaves nothing
behind: `reading`. Where no hold can be taken (a role with read access only), the read goes on and
has the grace of garbage collection.
"""

import secrets
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from strata.errors import Conflict, StrataError, Unavailable
from strata.machine.heartbeat import beating
from strata.machine.machine import Machine
from strata.machine.replaced import unless_dropped
from strata.model.settings import ReadSettings
from strata.state.holds import carry_on, check_hold_name, hold, release
from strata.state.state import Hold, State
from strata.store.open import Stores
from strata.store.retry import ENDS, although_ended

PREFIX: Final = "readers-"  # of the names of shared holds
SHARES: Final = 8  # parts of the lease; readers of one part share its hold
BRIEF_MS: Final = 15 * 60_000  # lease of a hold that its reader renews from the start
AHEAD_MS: Final = 30 * 86_400_000  # clocks, and the leases that readers are set to, differ by less
T = TypeVar("T")


def held_state(stores: Stores, name: str, settings: ReadSettings) -> State:
    """Return the newest state of a shard; its parts stay stored for the lease of readers.

    Raises: InvalidRequest for an unknown shard; Unavailable when it cannot be read.
    Cost: sometimes a commit, at most `SHARES` in the time of a lease.
    """
    machine = Machine(stores)
    state = machine.load(name)
    if settings.hold_ms <= 0 or _covered(state, stores.clock(), settings.hold_ms):
        return state
    with suppress(Unavailable, Conflict):
        machine.apply(name, lambda found, now_ms: _taken(found, now_ms, settings.hold_ms))
    return machine.load(name)  # the planned state must be younger than the hold


@contextmanager
def reading(stores: Stores, name: str, settings: ReadSettings, purpose: str) -> Iterator[State]:
    """Yield the newest state of a shard; its parts stay stored exactly until the block ends.

    `purpose` is part of the name of the hold, which `strata holds` shows.
    Raises: as `held_state`, and where the shard is dropped and swept meanwhile.
    Cost: two commits, or none while there is a shared hold.
    """
    machine = Machine(stores)
    state = machine.load(name)
    if settings.hold_ms <= 0 or _covered(state, stores.clock(), settings.hold_ms):
        with kept(stores, state, settings, purpose):
            yield state
        return
    own = _Own(machine, name, min(settings.hold_ms, BRIEF_MS), purpose)
    with own.at_work(own.begin()) as held, unless_dropped(machine, name):
        yield held


@contextmanager
def kept(stores: Stores, state: State, settings: ReadSettings, purpose: str) -> Iterator[None]:
    """Keep the parts of a state from `held_state` stored until the block ends.

    Raises: InvalidRequest instead of Corrupt where the shard was dropped, and swept.
    Cost: nothing in the first third of the lease, then a commit for each third and one at the end.
    """
    machine = Machine(stores)
    with unless_dropped(machine, state.name):
        if settings.hold_ms <= 0:
            yield
            return
        own = _Own(machine, state.name, settings.hold_ms, purpose)
        with own.at_work(state):
            yield


def kept_while(
    stores: Stores, state: State, settings: ReadSettings, purpose: str, rows: Iterator[T]
) -> Generator[T]:
    """Yield the items of `rows`; the state's parts stay stored from the first to the last item."""
    with kept(stores, state, settings, purpose):
        yield from rows


class _Own:
    """The hold that a reader takes for itself when shared ones do not suffice."""

    def __init__(self, machine: Machine, shard: str, lease_ms: int, purpose: str) -> None:
        self.name = f"{purpose}-{secrets.token_hex(6)}"
        check_hold_name(self.name)
        self._machine, self._shard, self._lease_ms = machine, shard, lease_ms
        self._taken = False

    def begin(self) -> State:
        """Take the hold at once if possible; return the newest state after that."""

        def take(state: State, now_ms: int) -> tuple[State, Hold]:
            return hold(
                state,
                now_ms,
                name=self.name,
                since=state.upper,
                lease_ms=self._lease_ms,
                owner=self.name,
            )

        self._taken = True  # it may be taken even though the reply was lost
        try:
            with suppress(Unavailable, Conflict):
                self._machine.apply(self._shard, take)
            return self._machine.load(self._shard)
        except (StrataError, *ENDS):
            self._give_back()
            raise

    @contextmanager
    def at_work(self, state: State) -> Iterator[State]:
        """Renew the hold on a state until the block ends, then give it back."""
        try:
            with beating(self.name, self._lease_ms, partial(self._renew, state.seqno)):
                yield state
        finally:
            although_ended(self._give_back)

    def _renew(self, seqno: int) -> None:
        """Take the hold, or prolong it."""
        self._taken = True
        move = partial(
            carry_on, name=self.name, seqno=seqno, lease_ms=self._lease_ms, owner=self.name
        )
        self._machine.apply(self._shard, move)

    def _give_back(self) -> None:
        """Release the hold if it was ever taken; if that fails, it expires."""
        if self._taken:
            with suppress(StrataError):
                move = partial(release, name=self.name, opaque=self.name)
                self._machine.apply(self._shard, move)


def _covered(state: State, now_ms: int, lease_ms: int) -> bool:
    """Return whether a shared hold, taken before this state, lives for another lease."""
    return any(_lives(found, now_ms + lease_ms, now_ms, lease_ms) for found in state.holds)


def _lives(found: Hold, until_ms: int, now_ms: int, lease_ms: int) -> bool:
    """Return whether a shared hold lives until then, and no clock that was far ahead took it.

    Nobody can give such a one back, and it would keep all that is stored until it expires.
    """
    ends_ms = found.expires_ms if found.name.startswith(PREFIX) else None
    return ends_ms is not None and until_ms <= ends_ms <= now_ms + 2 * lease_ms + AHEAD_MS


def _taken(state: State, now_ms: int, lease_ms: int) -> tuple[State, None]:
    """Take the shared hold of this time, unless another reader just did; drop old ones."""
    if _covered(state, now_ms, lease_ms):
        return state, None
    share_ms = max(lease_ms // SHARES, 1)
    name = f"{PREFIX}{now_ms // share_ms}"
    # Clocks differ: a hold that has just expired may still be needed.
    kept = tuple(
        h
        for h in state.holds
        if not h.name.startswith(PREFIX) or _lives(h, now_ms - lease_ms, now_ms, lease_ms)
    )
    tidy = replace(state, holds=kept)
    taken, _ = hold(
        tidy, now_ms, name=name, since=state.upper, lease_ms=lease_ms + share_ms, owner=PREFIX
    )
    return taken, None
