"""What a long read planned stays stored for its lease; readers share holds, and these end."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import enumerate as enumerate_threads

import pytest

from strata import gc
from strata.errors import InvalidRequest, Unavailable
from strata.machine.heartbeat import BEATS
from strata.machine.machine import Machine
from strata.machine.reader_hold import (
    AHEAD_MS,
    BRIEF_MS,
    PREFIX,
    SHARES,
    _Own,
    _taken,
    held_state,
    kept,
    reading,
)
from strata.model.settings import GcSettings, ReadSettings, Settings
from strata.shard import describe
from strata.state.state import Hold
from strata.store.interface import Consensus
from strata.store.open import Stores
from tests.support.garbage import HOUR, World

LEASE: int = 24 * HOUR
SETTINGS = ReadSettings(hold_ms=LEASE)


@pytest.fixture
def world() -> World:
    world = World()
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    return world


def test_what_was_planned_stays_until_the_lease_has_ended(world: World) -> None:
    planned = held_state(world.stores, "s", SETTINGS)
    world.compact()

    for _ in range(LEASE // HOUR - 1):
        world.sweep()
        assert world.read(planned) == [1, 2, 3, 4]

    gone = world.sweep(hours=LEASE / HOUR / SHARES + 2).deleted + world.settle()
    assert gone == 4
    world.check()


def test_who_comes_late_in_a_share_has_a_whole_lease_too(world: World) -> None:
    held_state(world.stores, "s", SETTINGS)
    world.now_ms += LEASE // SHARES - 1
    before = world.state
    planned = held_state(world.stores, "s", SETTINGS)
    assert world.state == before, "the hold of this share was there: nothing is written"
    world.compact()

    for _ in range(LEASE // HOUR - 1):
        world.sweep()

    assert world.read(planned) == [1, 2, 3, 4]


def test_a_shared_hold_of_a_clock_that_was_ahead_ends_with_the_next_reader(world: World) -> None:
    world.now_ms += 365 * 24 * HOUR
    held_state(world.stores, "s", SETTINGS)
    world.now_ms -= 365 * 24 * HOUR

    planned = held_state(world.stores, "s", SETTINGS)

    [found] = planned.holds
    assert (found.expires_ms or 0) <= world.now_ms + 2 * LEASE
    world.compact()
    assert world.read(planned) == [1, 2, 3, 4]
    assert world.sweep(hours=2 * LEASE / HOUR).deleted + world.settle() == 4
    world.check()


def test_without_a_hold_it_goes_when_the_grace_ends(world: World) -> None:
    held_state(world.stores, "s", ReadSettings(hold_ms=0))
    assert not world.state.holds
    world.compact()

    assert world.settle() == 4


def test_holds_are_few_however_many_readers_there_are(world: World) -> None:
    commits = world.state.seqno
    for _ in range(500):
        world.now_ms += LEASE // 100
        held_state(world.stores, "s", SETTINGS)

    assert len(world.state.holds) <= 2 * SHARES + 3
    assert world.state.seqno - commits <= 5 * (SHARES + 1)
    assert all(hold.name.startswith(PREFIX) for hold in world.state.holds)
    shown = describe(world.state)["holds"]
    assert [hold["name"] for hold in shown] == [hold.name for hold in world.state.holds]


def test_a_hold_of_readers_keeps_no_history(world: World) -> None:
    upper = world.state.upper
    held_state(world.stores, "s", SETTINGS)

    assert [hold.since for hold in world.state.holds] == [upper]


class ReadOnly:
    """States that a role may read and not write."""

    def __init__(self, inner: Consensus) -> None:
        self.head, self.scan, self.list = inner.head, inner.scan, inner.list

    def compare_and_set(self, *_: object) -> bool:
        raise Unavailable("permission denied", certain=True)

    truncate = compare_and_set


def test_who_may_only_read_reads_without_a_hold(world: World) -> None:
    stores: Stores = replace(world.inner, consensus=ReadOnly(world.inner.consensus))  # type: ignore[arg-type]

    assert held_state(stores, "s", SETTINGS) == world.state
    with reading(stores, "s", SETTINGS, "read") as planned:
        assert planned == world.state
    assert not world.state.holds


def until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.001)  # pytest's limit of a test ends it


# Its threads wait by the real clock, the shard's is set by the test.
SOON = ReadSettings(hold_ms=60)
AT_ONCE = Settings(gc=GcSettings(grace_ms=0))


def own(world: World) -> list[str]:
    return [hold.name for hold in world.state.holds if not hold.name.startswith(PREFIX)]


def lives(world: World, until_ms: int) -> bool:
    return max(hold.expires_ms or 0 for hold in world.state.holds) >= until_ms


def test_who_reads_for_longer_takes_a_hold_renews_it_and_gives_it_back(world: World) -> None:
    with reading(world.stores, "s", SOON, "validate") as planned:
        world.compact()
        for _ in range(20):  # twenty leases, one behind the other, while parts are dead
            until(lambda: bool(own(world)))
            world.now_ms += SOON.hold_ms // BEATS
            until(partial(lives, world, world.now_ms + SOON.hold_ms))
            assert gc.collect(world.stores, "s", AT_ONCE).deleted == 0
        assert own(world)[0].startswith("validate-")
        assert world.read(planned) == [1, 2, 3, 4]
    assert own(world) == []
    assert sum(gc.collect(world.stores, "s", AT_ONCE).deleted for _ in range(2)) == 4
    world.check()


def test_a_command_leaves_no_hold_and_the_shard_can_be_dropped(world: World) -> None:
    with reading(world.stores, "s", SETTINGS, "read") as planned:
        assert own(world)
        world.compact()
        assert sum(gc.collect(world.stores, "s", AT_ONCE).deleted for _ in range(2)) == 0
        assert world.read(planned) == [1, 2, 3, 4]
        with pytest.raises(InvalidRequest, match="in use"):
            Machine(world.stores).drop("s", by="ann", reason="old")
    assert sum(gc.collect(world.stores, "s", AT_ONCE).deleted for _ in range(2)) == 4
    assert not world.state.holds
    Machine(world.stores).drop("s", by="ann", reason="old")


def test_a_command_that_comes_beside_readers_uses_their_hold(world: World) -> None:
    held_state(world.stores, "s", SETTINGS)
    with reading(world.stores, "s", SETTINGS, "read"):
        seqno = world.state.seqno
    assert world.state.seqno == seqno


def test_an_error_of_the_reader_gives_the_hold_back(world: World) -> None:
    def reads() -> None:
        with reading(world.stores, "s", SOON, "read"):
            until(lambda: bool(own(world)))
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        reads()
    assert own(world) == []


def test_a_reader_that_slept_too_long_takes_no_hold_on_what_is_gone(world: World) -> None:
    planned = held_state(world.stores, "s", SETTINGS)
    world.compact()
    world.now_ms += 2 * LEASE
    before = world.state

    with kept(world.stores, planned, SOON, "read"):
        [beat] = [t for t in enumerate_threads() if t.name.startswith("read-")]
        beat.join(timeout=30)
        assert not beat.is_alive(), "it was fenced, and knows that there is nothing to renew"
    assert world.state == before


def test_who_began_under_a_shared_hold_gives_the_own_one_back(world: World) -> None:
    planned = held_state(world.stores, "s", SETTINGS)

    with kept(world.stores, planned, SOON, "read"):
        until(lambda: bool(own(world)))

    assert own(world) == []


@pytest.mark.parametrize(
    ("name", "expires_ms", "stays"),
    [
        (f"{PREFIX}1", LEASE // 2, True),  # others read under it
        (f"{PREFIX}1", 1, True),
        (f"{PREFIX}1", -LEASE, True),  # it has just ended by this clock, not by each
        (f"{PREFIX}1", -LEASE - 1, False),
        (f"{PREFIX}1", 2 * LEASE + AHEAD_MS + 1, False),  # a clock that was ahead took it
        ("job", -LEASE - 1, True),  # it is for its owner, or since, to end it
        ("job", 2 * LEASE, True),  # its owner may release it while others still read
    ],
)
def test_a_reader_that_takes_a_shared_hold_drops_only_shared_ones_that_are_over(
    world: World, name: str, expires_ms: int, stays: bool
) -> None:
    before = Hold(name, world.state.since, world.now_ms + expires_ms, "x", 1)

    taken, _ = _taken(replace(world.state, holds=(before,)), world.now_ms, LEASE)

    assert (before in taken.holds) == stays
    assert len(taken.holds) == 1 + stays
    assert _taken(taken, world.now_ms, LEASE)[0] is taken, "another reader just did"


@pytest.mark.parametrize("expires_ms", [LEASE, 2 * LEASE + AHEAD_MS])
def test_a_shared_hold_that_lives_for_a_lease_is_not_taken_twice(
    world: World, expires_ms: int
) -> None:
    shared = Hold(f"{PREFIX}1", world.state.since, world.now_ms + expires_ms, "", 1)
    held = replace(world.state, holds=(shared,))

    assert _taken(held, world.now_ms, LEASE)[0] is held


@pytest.mark.parametrize(("lease_ms", "share_ms"), [(8 * HOUR, HOUR), (1, 1)])
def test_a_shared_hold_lives_for_its_share_longer_than_a_lease(
    world: World, lease_ms: int, share_ms: int
) -> None:
    [taken] = _taken(world.state, world.now_ms, lease_ms)[0].holds

    assert taken.expires_ms == world.now_ms + lease_ms + share_ms


def test_a_hold_that_is_taken_by_a_reader_who_never_begins_is_given_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        assert own(world)
        raise Unavailable("the store is away", certain=True)

    machine = Machine(world.stores)
    monkeypatch.setattr(machine, "load", fails)

    with pytest.raises(Unavailable):
        _Own(machine, "s", LEASE, "read").begin()
    assert own(world) == []


def test_who_wants_no_hold_takes_none_at_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.machine.reader_hold._Own", None)  # nothing would be called
    none = ReadSettings(hold_ms=0)

    with reading(world.stores, "s", none, "read"), kept(world.stores, world.state, none, "read"):
        assert not world.state.holds


@pytest.mark.parametrize("hold_ms", [1000, LEASE])
def test_a_command_that_is_killed_leaves_a_hold_for_a_short_time_only(
    world: World, hold_ms: int
) -> None:
    with reading(world.stores, "s", ReadSettings(hold_ms=hold_ms), "read") as planned:
        [own_hold] = planned.holds

    assert own_hold.expires_ms == world.now_ms + min(hold_ms, BRIEF_MS)


@pytest.mark.parametrize("purpose", ["label", "consumer"])
def test_no_reader_takes_a_hold_of_a_name_that_means_more(world: World, purpose: str) -> None:
    hold = kept(world.stores, world.state, SOON, purpose)

    with pytest.raises(InvalidRequest, match=f"is a {purpose}"), hold:
        pass
