"""A restore from before an erasure brings rows back, and says so."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count, repeat
from pathlib import Path

import pytest

from strata.backup import Backup, back_up, restore, verify_point
from strata.errors import Unavailable
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.store.memory import MemoryBlob
from strata.store.open import Stores, open_stores
from tests.crash.test_erase_killed import copy_of
from tests.support.erasing import all_rows, erased, eraser
from tests.support.failing_stores import Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.unit.erase.test_erase import BOB, COLUMNS, text_of
from tests.unit.ingest.test_engine import World

WHO = {"by": "ann", "reason": "the disk is gone"}
_numbers = count()


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, columns=COLUMNS)
    world.ingest(world.put("1.csv", text_of(1, f"170,{BOB},1")), lower=0, upper=10)
    return world


def elsewhere() -> Stores:
    name = f"memory://elsewhere-{next(_numbers)}"
    return open_stores(StoreSettings(name, name), clock=lambda: 2_000_000)


def bobs(stores: Stores) -> int:
    return sum(n for row, n in all_rows(stores, "s").items() if BOB in row)


def dropped(world: World, _: MemoryBlob) -> Stores:
    world.machine.drop("s", by="ann", reason="a bad load")
    return world.stores


def lost_beside_another_point(world: World, target: MemoryBlob) -> Stores:
    world.now += 1_000
    back_up(world.stores, target, world.settings)
    return elsewhere()


@pytest.mark.parametrize("lose", [dropped, lost_beside_another_point])
def test_a_restore_names_the_erasures_that_it_undoes(
    world: World, lose: Callable[[World, MemoryBlob], Stores]
) -> None:
    target = MemoryBlob()
    before = back_up(world.stores, target, world.settings).point
    world.now += 1_000
    id = erased(world.stores, "s", "name", BOB)["id"]
    stores = lose(world, target)

    [back] = restore(stores, Backup(target), point=before.name, names=["s"], **WHO).shards

    assert bobs(stores) == 1
    assert back.erased_since == (id,)
    assert erased(replace(stores, clock=lambda: 3_000_000), "s", "name", BOB)["complete"]
    assert bobs(stores) == 0


def test_rejected_rows_that_come_back_alone_are_named(world: World) -> None:
    bad = world.put("2.csv", text_of(2, f"7,{BOB},no number"))
    world.ingest(bad, lower=10, upper=20)
    target = MemoryBlob()
    before = back_up(world.stores, target, world.settings).point
    world.now += 1_000
    id = erased(world.stores, "s", "name", BOB)["id"]
    after = back_up(world.stores, target, world.settings).point

    for point, wanted in ((before, (id,)), (after, ())):
        names = ["s.rejected"]
        report = restore(elsewhere(), Backup(target), point=point.name, names=names, **WHO)
        assert [one.erased_since for one in report.shards] == [wanted]


def test_a_point_from_after_an_erasure_undoes_none(world: World) -> None:
    target, stores = MemoryBlob(), elsewhere()
    back_up(world.stores, target, world.settings)
    world.now += 1_000
    erased(world.stores, "s", "name", BOB)
    after = back_up(world.stores, target, world.settings).point

    [back] = restore(stores, Backup(target), point=after.name, names=["s"], **WHO).shards

    assert bobs(stores) == 0
    assert back.erased_since == ()


def test_a_point_from_within_an_erasure_names_it(world: World) -> None:
    """It forgets that the erasure is under way."""
    target, stores = MemoryBlob(), elsewhere()

    def killed(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        eraser(world.stores, "s", "name", BOB, log=killed).erase(at_ms=world.now, **WHO)
    under_way = world.state.erasing
    assert under_way is not None
    point = back_up(world.stores, target, world.settings).point

    [back] = restore(stores, Backup(target), point=point.name, names=["s"], **WHO).shards

    assert back.erased_since == (under_way.id,)
    assert Machine(stores).load("s").erasing is None


@pytest.mark.parametrize(
    "calls", [range(2, 60, 5), pytest.param(range(60), marks=pytest.mark.long)]
)
def test_a_point_beside_an_erasure_is_whole(world: World, calls: range) -> None:
    """Rejected rows that went while they were to be copied are not lost: a note says so."""
    bad = world.put("2.csv", text_of(2, f"7,{BOB},no number", "8,ann,no number"))
    world.ingest(bad, lower=10, upper=20)
    for at in calls:
        mine, target = copy_of(world), MemoryBlob()
        faults = Faults(iter([*repeat(Outcome.WORKS, at), Outcome.INTERRUPTED]))
        faults.interlude = lambda stores=mine.stores: begun(stores)  # type: ignore[misc]
        beside = replace(
            mine.stores,
            blob=FaultyBlob(mine.stores.blob, faults),
            consensus=FaultyConsensus(mine.stores.consensus, faults),
        )

        point = back_up(beside, target, mine.settings).point

        wrong = [verify_point(Backup(target), point, saved).wrong for saved in point.shards]
        assert wrong == [()] * len(wrong), at
        stores = elsewhere()
        restore(stores, Backup(target), names=["s"], **WHO)
        assert bobs(stores) in {0, 1}
        assert eraser(mine.stores, "s", "name", BOB).erase(at_ms=mine.now, **WHO)["complete"]


def begun(stores: Stores) -> None:
    """Erase, up to where readers of before are waited for."""
    with suppress(Unavailable):
        erased(stores, "s", "name", BOB)
