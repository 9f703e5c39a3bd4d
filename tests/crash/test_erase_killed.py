"""Killed at any call to a store, an erasure is run again, and ends as if nothing had happened.

A call that fails, or whose reply is lost, is no worse. Every call is tried, one after the other, in
the long test; the short one tries some of them.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, repeat
from pathlib import Path

import pytest

from strata.errors import StrataError
from strata.model.settings import StoreSettings
from strata.state.state import State
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import Stores, open_stores
from tests.support.erasing import WHO, erased, eraser, places_of
from tests.support.failing_stores import CrashError, Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.unit.erase.test_erase import BOB, COLUMNS, at_all_times, text_of
from tests.unit.ingest.test_engine import World

KINDS = (Outcome.CRASH_BEFORE, Outcome.CRASH_AFTER, Outcome.REPLY_LOST, Outcome.REFUSED)
SLICES = 16  # of the calls, so that no test takes minutes
_numbers = count()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root: Path = tmp_path_factory.mktemp("erase")
    world = World(root, columns=COLUMNS, part_bytes=2048, row_group_bytes=1024)
    for day in (1, 2):
        text = text_of(day, f"{100 * day + 70},{BOB},1", f"7,{BOB},no number")
        world.ingest(world.put(f"day{day}.csv", text), lower=10 * day, upper=10 * day + 10)
    return world


def copy_of(world: World) -> World:
    """Return another world that holds the same."""
    name = f"memory://erase-{next(_numbers)}"
    new = World.__new__(World)
    new.__dict__.update(world.__dict__)
    new.stores = open_stores(
        replace(world.stores.settings, blob=name, consensus=name), clock=lambda: world.now
    )
    new.machine = type(world.machine)(new.stores)
    blob, consensus = new.stores.blob, new.stores.consensus
    assert isinstance(blob, MemoryBlob)
    assert isinstance(consensus, MemoryConsensus)
    blob.live.update(world.stores.blob.live)
    blob.deleted.update(world.stores.blob.deleted)
    consensus.log.update({key: [*log] for key, log in world.stores.consensus.log.items()})
    return new


def failing(stores: Stores, outcomes: Iterator[Outcome]) -> Stores:
    faults = Faults(outcomes, sleep=lambda _: None)
    return replace(
        stores,
        blob=FaultyBlob(stores.blob, faults),
        consensus=FaultyConsensus(stores.consensus, faults),
    )


def calls_of(world: World) -> int:
    faults = Faults(repeat(Outcome.WORKS))
    stores = copy_of(world).stores
    stores = replace(
        stores,
        blob=FaultyBlob(stores.blob, faults),
        consensus=FaultyConsensus(stores.consensus, faults),
    )
    erased(stores, "s", "name", BOB)
    return faults.drawn.total()


def check(world: World, wanted: object, at: int, outcome: Outcome) -> None:
    """Let one call come to its end as `outcome` says, run again, and look at everything."""
    mine = copy_of(world)
    plan = iter([*repeat(Outcome.WORKS, at), outcome])
    try:
        erased(failing(mine.stores, plan), "s", "name", BOB)
    except (CrashError, StrataError):
        assert at_all_times(mine, but=BOB) == wanted, "what stays is there at any moment"
        found = eraser(mine.stores, "s", "name", BOB).erase(at_ms=mine.now + 5, **WHO)
        assert found["complete"]
    assert places_of(mine.stores, BOB) == []
    assert at_all_times(mine) == wanted
    state: State = mine.state
    assert state.erasing is None
    [certificate] = [
        k for k in mine.blobs() if k.startswith("shards/s/erasures/") and k.count("/") == 3
    ]
    assert certificate
    report = mine.ingest(str(mine.root / "day1.csv"), again=True)
    assert report["suppressed"] == 2


def test_killed_at_some_calls_it_goes_on(world: World) -> None:
    wanted = at_all_times(world, but=BOB)
    calls = calls_of(world)
    assert calls > 100
    for number, at in enumerate(range(3, calls, 23)):
        check(world, wanted, at, KINDS[number % len(KINDS)])


@pytest.mark.long
@pytest.mark.parametrize("first", range(SLICES))
@pytest.mark.parametrize("outcome", KINDS)
def test_killed_at_any_call_it_goes_on(world: World, outcome: Outcome, first: int) -> None:
    wanted = at_all_times(world, but=BOB)
    for at in range(first, calls_of(world), SLICES):
        check(world, wanted, at, outcome)


def test_stores_of_the_copy_are_apart(world: World) -> None:
    mine = copy_of(world)
    assert isinstance(mine.stores.settings, StoreSettings)
    erased(mine.stores, "s", "name", BOB)
    assert places_of(world.stores, BOB) != []
