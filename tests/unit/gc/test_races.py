"""Whatever else happens while garbage is collected, at whatever step: nothing live is deleted.

An operation is stopped before one of its store calls, something else happens, it goes on. Then
all rows are there, and after two more sweeps the store holds what the newest state names and
nothing else.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import count
from typing import Any

import pytest

from strata import gc
from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import Fenced, InvalidRequest
from strata.model.settings import ReadSettings, Settings
from strata.read.scan import scan
from strata.state.generations import register
from strata.state.holds import hold, release, renew
from strata.store.interface import BlobInfo
from strata.store.open import Stores
from tests.support.failing_stores import CrashError, Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.support.garbage import HOUR, SETTINGS, World

NUMBERS = count(1000)
ONE_BY_ONE = ReadSettings(fetchers=1, ahead_bytes=1)
Event = Callable[[World], Any]


class Interrupted(Faults):
    """Something else happens before the call of this number, once."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.event: Callable[[], Any] | None = None
        self.at = -1

    def call(self, work: Callable[[], Any], what: str) -> Any:
        if self.calls == self.at and self.event is not None:
            event, self.event = self.event, None
            event()
        self.calls += 1
        return super().call(work, what)


@cache
def shard() -> World:
    """Return a shard with garbage of every age."""
    world = World()
    world.append(1, 2)
    world.write([100])  # somebody who never commits
    world.sweep()
    world.append(3)
    world.compact()
    world.append(4)
    world.append(5)
    world.now_ms += HOUR
    return world


def interrupted() -> tuple[World, Interrupted]:
    """Return a new such shard, through whose stores events can come."""
    faults = Interrupted()

    def wrap(stores: Stores) -> Stores:
        blob, consensus = FaultyBlob(stores.blob, faults), FaultyConsensus(stores.consensus, faults)
        return Stores(blob, consensus, stores.clock, stores.settings)

    return shard().copy(wrap), faults


def append(world: World) -> None:
    """Append a row, from the upper on that the shard has then: whoever is faster is first."""
    number = next(NUMBERS)
    for _ in range(2):
        batch = world.write([number])
        with suppress(InvalidRequest):
            world.commit(batch, [number], token=f"append-{number}")
            return


def collect(world: World) -> None:
    gc.collect(world.stores, "s", SETTINGS)


def settle(world: World) -> None:
    """More than the grace passes, twice, and each time somebody sweeps."""
    world.healthy().settle()


def read(world: World) -> None:
    planned = world.state
    assert world.read(planned) == sorted(world.ids)


OPERATIONS: list[Event] = [
    append,
    World.compact,
    World.backfill,
    partial(World.trim, budget_bytes=20),
    collect,
    read,
]
EVENTS: list[Event] = [
    append,
    World.compact,
    World.backfill,
    partial(World.trim, budget_bytes=10),
    collect,
    settle,
]


def name(event: Any) -> str:
    return str(getattr(event, "__name__", None) or event.func.__name__)


def steps_of(operation: Event) -> int:
    world, faults = interrupted()
    faults.calls = 0
    operation(world)
    return faults.calls


@pytest.mark.parametrize("event", EVENTS, ids=name)
@pytest.mark.parametrize("operation", OPERATIONS, ids=name)
def test_anything_may_come_between_two_steps(operation: Event, event: Event) -> None:
    """At every seventh step, another one for each pair; at all of them in the long tests."""
    first = (OPERATIONS.index(operation) + EVENTS.index(event)) % 7
    for at in range(first, steps_of(operation) + 1, 7):
        interrupt(operation, event, at)


@pytest.mark.long
@pytest.mark.parametrize("event", EVENTS, ids=name)
@pytest.mark.parametrize("operation", OPERATIONS, ids=name)
def test_anything_may_come_between_any_two_steps(operation: Event, event: Event) -> None:
    for at in range(steps_of(operation) + 1):
        interrupt(operation, event, at)


def interrupt(operation: Event, event: Event, at: int) -> None:
    world, faults = interrupted()
    faults.calls, faults.at = 0, at
    faults.event = partial(event, world.healthy())
    try:
        operation(world)
    except Fenced:  # it took longer than the grace: it has to begin again
        assert event is settle
        operation(world)
    world.check()
    world.settle()
    world.check()
    assert_tidy(world)


def assert_tidy(world: World) -> None:
    """The store holds what the newest state names, and all of that."""
    expected = {*world.state_parts(), *(b.manifest for b in world.state.batches if b.manifest)}
    assert set(world.stored("parts", "manifests")) == expected


@pytest.mark.parametrize(
    "outcome", [Outcome.CRASH_BEFORE, Outcome.CRASH_AFTER, Outcome.REPLY_LOST], ids=str
)
def test_a_sweep_killed_anywhere_is_finished_by_the_next(outcome: Outcome) -> None:
    for at in range(steps_of(collect)):
        world, faults = interrupted()
        faults.plan([Outcome.WORKS] * at + [outcome])
        try:
            collect(world)
        except CrashError:
            assert outcome is not Outcome.REPLY_LOST
        faults.plan([])
        world.check()
        world.settle()
        world.check()
        assert_tidy(world)


@pytest.fixture
def world() -> World:
    return World()


def test_a_slow_writer_commits_within_a_sweep_and_is_fenced_after_two(world: World) -> None:
    slow = world.write([1])
    world.sweep()
    assert world.sweep(hours=0.5).deleted == 0
    world.commit(slow, [1])
    slower = world.write([2], began := world.state)
    world.settle()

    with pytest.raises(Fenced):
        world.commit(slower, [2])

    assert slower.manifest not in world.stored()
    again = world.write([2])  # its retry: the same rows, the same bytes, another name
    assert (again.digest, again.lower) == (slower.digest, began.upper)
    world.commit(again, [2])
    world.settle()
    world.check()


def test_who_has_a_writers_lease_may_take_as_long_as_it_lasts(world: World) -> None:
    take = partial(register, name="ingest", lease_ms=30 * HOUR)
    world.machine.apply("s", take)
    slow = world.write([1])

    world.settle()
    world.settle()
    world.commit(slow, [1])

    world.settle()
    world.check()


def test_a_writer_may_meet_its_own_dead_bytes(world: World) -> None:
    """Blobs are named by their content: a retry finds them there, just as they are deleted."""
    world.write([1])  # killed before the commit
    world.sweep()
    retry = world.write([1])  # another generation
    assert world.sweep().deleted == 2
    world.commit(retry, [1])
    world.settle()
    world.check()


def test_a_zombie_compaction_changes_nothing(world: World) -> None:
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    other = world.healthy()

    def overtaken(function: Any, tasks: Any) -> Iterator[Any]:
        found = [function(task) for task in tasks]
        other.append(5)
        other.settle()  # it sleeps; the generation in which it wrote is behind the fence
        yield from found

    with pytest.raises(Fenced):
        compact_shard(world.stores, "s", Settings(), overtaken, full=True)

    world.check()
    world.compact()
    world.settle()
    world.check()
    assert_tidy(world)


def test_a_compaction_that_another_overtook_brings_nothing_back(world: World) -> None:
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    other = world.healthy()

    def overtaken(function: Any, tasks: Any) -> Iterator[Any]:
        found = [function(task) for task in tasks]
        other.append(5)
        other.compact()
        other.settle()
        yield from found

    report = compact_shard(world.stores, "s", Settings(), overtaken, full=True)

    assert report.applied == 0
    world.settle()
    world.check()
    assert_tidy(world)


def test_who_planned_within_the_grace_reads_without_a_hold(world: World) -> None:
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    planned = world.state
    world.compact()
    world.sweep()

    assert world.sweep(hours=0.9).deleted == 0
    assert world.read(planned) == [1, 2, 3, 4]
    world.settle()
    with pytest.raises(Fenced):  # too late, and told so: never other rows
        world.read(planned)


def test_a_long_reader_with_a_hold_meets_no_gap_whatever_goes_on_meanwhile(world: World) -> None:
    for row in range(6):
        world.append(row, row + 10)  # each between those of the others: a merge keeps none
    planned, wanted = world.state, sorted(world.ids)
    take = partial(hold, name="reader", since=0, lease_ms=2 * HOUR)
    alive = partial(renew, name="reader", lease_ms=2 * HOUR)
    world.machine.apply("s", take)
    plan = plan_read(world.stores, planned)
    world.compact()
    found: list[int] = []

    for batch in scan(world.stores, planned, plan, settings=ONE_BY_ONE):
        found += batch.column("id").to_pylist()
        world.append(100 + len(found))
        world.compact()
        for _ in range(2):
            world.machine.apply("s", alive)
            world.sweep()
    world.machine.apply("s", partial(release, name="reader"))

    assert sorted(found) == wanted
    world.settle()
    world.check()
    assert_tidy(world)


@pytest.mark.parametrize("ahead_hours", [-10_000, -2, 2, 10_000])
def test_a_clock_that_is_wrong_loses_nothing(world: World, ahead_hours: int) -> None:
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    world.compact()
    slow = world.write([5])
    wrong = Stores(
        world.inner.blob,
        world.inner.consensus,
        lambda: world.now_ms + ahead_hours * HOUR,
        world.inner.settings,
    )

    for _ in range(4):
        world.now_ms += HOUR
        gc.collect(wrong, "s", SETTINGS)
        world.check()
    try:
        world.commit(slow, [5])
    except Fenced:
        assert slow.manifest not in {b.manifest for b in world.state.batches}
    world.append(6)
    for _ in range(3):
        gc.collect(world.stores, "s", SETTINGS)
        world.check()


class StaleBlob(FaultyBlob):
    """A listing of long ago, and of which the second half fails to come."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        super().__init__(inner, faults)
        self.old: dict[str, list[BlobInfo]] = {}
        self.cut = False

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        found = self.old.setdefault(prefix, list(self.inner.list(prefix)))
        return iter(found[: len(found) // 2] if self.cut else found)


def test_a_stale_or_short_listing_only_delays(world: World) -> None:
    blob = StaleBlob(world.inner.blob, Faults())
    stale = Stores(blob, world.inner.consensus, world.inner.clock, world.inner.settings)
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    world.write([9])
    gc.collect(stale, "s", SETTINGS)
    world.compact()
    for _ in range(4):
        world.now_ms += HOUR
        gc.collect(stale, "s", SETTINGS)  # what it saw first is long deleted, or long committed
        world.append(len(world.ids) + 10)
        world.check()
    blob.old.clear()
    blob.cut = True
    for _ in range(3):
        world.now_ms += HOUR
        gc.collect(stale, "s", SETTINGS)
        world.check()

    world.settle()
    world.check()
    assert_tidy(world)
