"""Killed at any call to a store, an erasure is run again, and ends as if nothing had happened.

A call that fails, or whose reply is lost, is no worse. Every call is tried, one after the other, in
the long test; the short one tries some of them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count, repeat
from pathlib import Path
from typing import Any, TypeVar

import pytest

from strata.compact import compact_shard
from strata.erase.certificate import certificates
from strata.errors import Conflict, Fenced, StrataError
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.state.state import State
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import Stores, open_stores
from tests.support.erasing import WHO, erased, eraser, places_of
from tests.support.failing_stores import CrashError, Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.unit.erase.test_erase import BOB, COLUMNS, at_all_times, text_of
from tests.unit.ingest.test_engine import World

T = TypeVar("T")
KINDS = (Outcome.CRASH_BEFORE, Outcome.CRASH_AFTER, Outcome.REPLY_LOST, Outcome.REFUSED)
BOBS = ("s", "name", BOB)
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


class Noting(Faults):
    """Lets everything work, and notes what is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def call(self, work: Callable[[], T], what: str) -> T:
        self.calls.append(what)
        return super().call(work, what)


def undisturbed(world: World) -> tuple[list[str], dict[str, Any]]:
    """Return the calls that an erasure makes, and what its certificate counts."""
    faults, stores = Noting(), copy_of(world).stores
    stores = replace(
        stores,
        blob=FaultyBlob(stores.blob, faults),
        consensus=FaultyConsensus(stores.consensus, faults),
    )
    certificate = erased(stores, *BOBS)
    return faults.calls, counted(certificate)


def counted(certificate: dict[str, Any]) -> dict[str, Any]:
    """Return what a certificate counts, whichever runs have done it."""
    kinds = ("parts", "manifests", "rejected rows")
    removed = {one["what"]: one["blobs"] for one in certificate["removed"] if one["what"] in kinds}
    rows = {name: certificate[name] for name in ("rows", "rows_about", "rejected_rows")}
    return rows | {"rewritten": len(certificate["rewritten"]), **removed}


def is_over(stores: Stores) -> bool:
    """Return whether an erasure has its certificate, and no shard waits for its end."""
    machine = Machine(stores)
    waits = any(machine.load(name).erasing is not None for name in machine.names())
    return bool(certificates(stores, "s")) and not waits


def check(world: World, wanted: object, counts: object, at: int, outcome: Outcome) -> None:
    """Let one call come to its end as `outcome` says, run again, and look at everything."""
    mine = copy_of(world)
    plan = iter([*repeat(Outcome.WORKS, at), outcome])
    try:
        found = erased(failing(mine.stores, plan), "s", "name", BOB)
    except (CrashError, StrataError):
        assert at_all_times(mine, but=BOB) == wanted, "what stays is there at any moment"
        if is_over(mine.stores):  # killed behind its last call: a further run is another erasure
            [found] = certificates(mine.stores, "s")
        else:
            found = eraser(mine.stores, "s", "name", BOB).erase(at_ms=mine.now + 5, **WHO)
        assert found["complete"]
    assert counted(found) == counts
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
    calls, counts = undisturbed(world)
    assert len(calls) > 100
    for number, at in enumerate(range(3, len(calls), 23)):
        check(world, wanted, counts, at, KINDS[number % len(KINDS)])


def test_a_part_that_was_merged_after_a_kill_is_counted_once(world: World) -> None:
    calls, counts = undisturbed(world)
    merged = 0
    for at in [n for n, call in enumerate(calls) if call == "compare_and_set"][1:12]:
        mine = copy_of(world)
        with pytest.raises(CrashError):
            erased(failing(mine.stores, iter([*repeat(Outcome.WORKS, at), KINDS[0]])), *BOBS)
        merged += len(compact_shard(mine.stores, "s", mine.settings, full=True).requests)
        certificate = eraser(mine.stores, *BOBS).erase(at_ms=mine.now + 5, **WHO)
        assert certificate["rows"] == counts["rows"], at
    assert merged > 3


def overtaken(world: World, at: int) -> None:
    """Let the same command run as a whole at one call of an erasure, and look at both."""
    mine, faster = copy_of(world), list[dict[str, Any]]()
    faults = Faults(iter([*repeat(Outcome.WORKS, at), Outcome.INTERRUPTED]))
    faults.interlude = lambda: faster.append(erased(mine.stores, *BOBS))
    stores = replace(
        mine.stores,
        blob=FaultyBlob(mine.stores.blob, faults),
        consensus=FaultyConsensus(mine.stores.consensus, faults),
    )
    assert [erased(stores, *BOBS)] == faster, at
    assert places_of(mine.stores, BOB) == []
    assert all(mine.machine.load(name).erasing is None for name in mine.machine.names())


def test_of_two_runs_at_once_both_return_the_certificate_of_the_faster(world: World) -> None:
    calls, _ = undisturbed(world)
    for at in range(30, len(calls), 80):
        overtaken(world, at)


def test_what_a_killed_run_removed_beside_another_is_no_damage(world: World) -> None:
    (calls, _), fenced = undisturbed(world), 0
    for at in range(20, 80, 12):
        mine = copy_of(world)
        killed = failing(mine.stores, iter([*repeat(Outcome.WORKS, len(calls) - 12), KINDS[0]]))
        faults = Faults(iter([*repeat(Outcome.WORKS, at), Outcome.INTERRUPTED]))

        def beside(stores: Stores = killed) -> None:
            with suppress(CrashError):  # unless the other has done so much that it ends before
                erased(stores, *BOBS)

        faults.interlude = beside
        stores = replace(
            mine.stores,
            blob=FaultyBlob(mine.stores.blob, faults),
            consensus=FaultyConsensus(mine.stores.consensus, faults),
        )
        try:
            erased(stores, *BOBS)
        except (Conflict, Fenced) as error:
            fenced += isinstance(error, Fenced)
            assert erased(mine.stores, *BOBS)["complete"]
        assert places_of(mine.stores, BOB) == []
    assert fenced


@pytest.mark.long
@pytest.mark.parametrize("first", range(SLICES))
@pytest.mark.parametrize("outcome", KINDS)
def test_killed_at_any_call_it_goes_on(world: World, outcome: Outcome, first: int) -> None:
    wanted = at_all_times(world, but=BOB)
    calls, counts = undisturbed(world)
    for at in range(first, len(calls), SLICES):
        check(world, wanted, counts, at, outcome)


def test_stores_of_the_copy_are_apart(world: World) -> None:
    mine = copy_of(world)
    assert isinstance(mine.stores.settings, StoreSettings)
    erased(mine.stores, "s", "name", BOB)
    assert places_of(world.stores, BOB) != []


@pytest.mark.long
@pytest.mark.parametrize("first", range(SLICES))
def test_of_two_runs_at_once_both_return_one_certificate(world: World, first: int) -> None:
    calls, _ = undisturbed(world)
    for at in range(10 + first, len(calls), SLICES):
        overtaken(world, at)
