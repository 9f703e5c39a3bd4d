"""Another operation as a whole at each call of an ingest: the outcome is that of some order."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from strata.backup import verify_shard
from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest, Unavailable
from strata.gc import collect
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.ingest.retry import retry_rejected
from strata.model.settings import GcSettings
from strata.model.types import parse_type
from strata.state.schema import AddColumn, Change, DropColumn, WidenColumn
from strata.state.tombstone import drop
from strata.store.open import Stores
from tests.support.erasing import erased, places_of
from tests.support.failing_stores import Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.unit.ingest.changes.test_altered import TEXT, Origin, change, event, mysql, postgres
from tests.unit.ingest.changes.test_altered import rows as rows_of_stream
from tests.unit.ingest.changes.test_altered import world_of as stream_of
from tests.unit.ingest.changes.test_tasks import put, run
from tests.unit.ingest.test_engine import DAY, World
from tests.unit.ingest.test_retried_names import EXCHANGED, REPLACED, kept
from tests.unit.ingest.test_retried_names import world_of as rejected_of

BOB = "bob-the-builder@example.org"
REJECTING = {"format": "csv", "max_rejected": 0.9}


def at_each_call(make: Callable[[int], World], beside: Callable[[World], Any]) -> Iterator[Any]:
    """Yield a world and its stores, in which another operation comes at the n-th call, for each n.

    It ends behind the last call that whoever takes them makes.
    """
    for number in count():
        world = make(number)
        faults = Faults([*[Outcome.WORKS] * number, Outcome.INTERRUPTED])
        faults.interlude = lambda world=world: beside(world) and None  # type: ignore[misc]
        blob = FaultyBlob(world.stores.blob, faults)
        consensus = FaultyConsensus(world.stores.consensus, faults)
        yield world, Stores(blob, consensus, world.stores.clock, world.settings.store)
        if not faults.drawn[Outcome.INTERRUPTED]:
            assert number > 1
            return


@pytest.mark.parametrize("origin", [postgres, mysql])
@pytest.mark.parametrize("altered", [AddColumn("c", TEXT, default="d"), DropColumn("b")])
def test_an_altered_table_is_followed_while_another_day_comes_in(
    tmp_path: Path, origin: Origin, altered: Change
) -> None:
    """What the other day showed of the table was not known, if it came while files were read."""
    before, after = {"a": "x"}, {"a": "y", "b": "z"}
    if isinstance(altered, AddColumn):
        before, after = {"a": "x", "b": "z", "c": "set"}, {"a": "y", "b": "z"}

    def made(number: int) -> World:
        world = stream_of(tmp_path / str(number))
        change(world, altered)
        put(world, 1, [event("c", 1, 10, origin, **before)])
        put(world, 2, [event("u", 1, 20, origin, **after)])
        return world

    for world, stores in at_each_call(made, lambda world: run(world, 1, 1)):
        with pytest.raises((InvalidRequest, Conflict)):
            list(ingest_steps(stores, world.settings, "s", steps_of(DAY, 2 * DAY)))
        run(world, 1, 1)
        assert rows_of_stream(world) == {1: before}


def test_a_day_of_a_stream_follows_one_that_came_while_its_files_were_read(tmp_path: Path) -> None:
    def made(number: int) -> World:
        world = stream_of(tmp_path / str(number))
        put(world, 1, [event("c", 1, 10, a="x", b="y"), event("c", 2, 11, a="x", b="y")])
        put(world, 2, [event("u", 1, 20, a="z", b="y"), event("d", 2, 21)])
        return world

    for world, stores in at_each_call(made, lambda world: run(world, 1, 1)):
        with suppress(InvalidRequest, Conflict):  # of a day before that is not there
            list(ingest_steps(stores, world.settings, "s", steps_of(DAY, 2 * DAY)))
        run(world, 1, 2)
        assert rows_of_stream(world) == {1: {"a": "z", "b": "y"}}


@pytest.mark.parametrize("origin", [postgres, mysql])
def test_who_takes_the_same_day_of_a_stream_finds_it_done(tmp_path: Path, origin: Origin) -> None:
    """A double of a run is neither another writer nor a contradiction."""

    def made(number: int) -> World:
        world = stream_of(tmp_path / str(number))
        put(world, 1, [event("c", 1, 10, origin, a="x", b="y"), event("d", 1, 11, origin)])
        return world

    for world, stores in at_each_call(made, lambda world: run(world, 1, 1)):
        [report] = ingest_steps(stores, world.settings, "s", steps_of(0, DAY))
        run(world, 1, 1)
        assert (report.counts.rejected, rows_of_stream(world)) == (0, {})


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("changes", [EXCHANGED, REPLACED])
def test_a_retried_row_stays_with_its_columns_while_they_are_renamed(
    tmp_path: Path, kind: str, changes: list[Change]
) -> None:
    """Where the exchange came between a look at the names and the ingest, values exchanged."""
    value = "A" if changes is EXCHANGED else None  # the other column of that name has no value

    def made(number: int) -> World:
        return rejected_of(tmp_path / str(number), kind)

    for world, stores in at_each_call(made, lambda world: change(world, *changes)):
        retry_rejected(stores, world.settings, "s")
        a = world.state.relations[0].by_name["a"].id
        b = world.state.relations[0].by_name["b"].id
        ids = [column.id for column in world.state.relation.columns]
        taken = [row for row in world.rows() if row[0] == 5_000_000_000]
        assert len(taken) + len(kept(world)) == 1
        for row in taken:
            assert row[ids.index(b)] == "B"
            assert a not in ids or row[ids.index(a)] == "A"
            assert a in ids or row[ids.index(world.state.relation.by_name["a"].id)] == value


def test_a_retry_beside_an_erasure_finds_no_damage(tmp_path: Path) -> None:
    """A file of rejected rows that the erasure had replaced a moment before was missing."""
    columns = [{"name": "id", "type": "int32"}, {"name": "name", "type": "string"}]
    rows = f"id,name\n1,ann\n5000000000,{BOB}\n"

    def made(number: int) -> World:
        world = World(tmp_path / str(number), columns=columns, key=["id"], source=REJECTING)
        world.ingest(world.put("x", rows), lower=0, upper=1)
        change(world, WidenColumn("id", parse_type("int64")))
        return world

    def erase(world: World) -> None:
        world.now += 1000
        with suppress(Unavailable):  # it goes on when the retry has ended
            erased(world.stores, "s", "name", BOB, BOB)
        world.now += 1000

    for world, stores in at_each_call(made, erase):
        with suppress(Fenced):
            retry_rejected(stores, world.settings, "s")
        erase(world)
        assert places_of(world.stores, BOB) == []


def test_a_retry_beside_a_shard_that_is_made_anew_leaves_no_damage(tmp_path: Path) -> None:
    """The new shard named rejected rows that went with the dropped one, and said so for ever."""

    def made(number: int) -> World:
        world = rejected_of(tmp_path / str(number), "csv")
        world.settings = replace(world.settings, gc=GcSettings(grace_ms=0))
        return world

    def make_anew(world: World) -> None:
        spec = world.state.spec
        world.machine.apply("s", partial(drop, by="ann", reason="anew", force=True))
        for _ in range(2):
            world.now += 10
            collect(world.stores, "s", world.settings)
        world.machine.create(spec, revive=True)

    for world, stores in at_each_call(made, make_anew):
        with suppress(Fenced, Corrupt):  # what it reads is gone
            retry_rejected(stores, world.settings, "s")
        assert verify_shard(world.stores, "s", world.settings).wrong == ()
        retry_rejected(world.stores, world.settings, "s")
