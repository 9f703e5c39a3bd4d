"""Rejected rows are a shard of their own: each is there once, and leaves when it is read."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest, Unavailable
from strata.ingest import aside, commit, retry
from strata.ingest.quarantine import catch_up, rejected, rejected_shard, release
from strata.ingest.retry import retry_rejected
from strata.machine.machine import Machine
from strata.maintain.schema import change_schema
from strata.model.types import ColumnType, Kind
from strata.state.schema import WidenColumn
from tests.unit.ingest.changes.test_tasks import event, put, run, table_at, world_of
from tests.unit.ingest.test_engine import DAY, World

COLUMNS = [{"name": "id", "type": "int16", "nullable": False}, {"name": "name", "type": "string"}]
COLUMN_TYPE = ColumnType(Kind.INT64)
ROWS = 'id,name\n1,a\n70000,"b\nb"\nx,c\n2,d\n70001,e\n3,f\n'


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, columns=COLUMNS)


def ids(world: World) -> list[int]:
    return sorted(row[0] for row in world.rows())


def test_rejected_rows_are_found_with_their_place_and_text(world: World) -> None:
    report = world.ingest(world.put("a.csv", ROWS), lower=0, upper=10)

    [found] = rejected(world.stores, "s")

    assert found.token == report["token"]
    assert [(r["file"], r["line"], r["value"], r["raw"]) for r in found.rows] == [
        ("a.csv", 3, "70000", b'70000,"b\nb"'),
        ("a.csv", 5, "x", b"x,c"),
        ("a.csv", 7, "70001", b"70001,e"),
    ]
    assert {r["header"] for r in found.rows} == {"id,name"}
    other = world.ingest(world.put("b.csv", "id,name\n9,z\n"))["token"]
    assert not list(rejected(world.stores, "s", other))
    with pytest.raises(InvalidRequest, match="no batch of the shard has this token"):
        list(rejected(world.stores, "s", "another-token"))


def test_many_rejected_rows_come_in_several_files_and_are_numbered_through(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "ASIDE_BYTES", 8)
    held: list[int] = []
    put = aside.put_aside

    def watched(store: Any, task: Any, rows: Any) -> str:
        held.append(len(rows))
        return put(store, task, rows)

    monkeypatch.setattr(aside, "put_aside", watched)
    bad = "".join(f"x{n},c{n}\n" for n in range(9))
    good = "".join(f"{n},a\n" for n in range(400))
    report = world.ingest(world.put("a.csv", f"id,name\n{good}{bad}"), lower=0, upper=10)

    assert held == [2, 2, 2, 2, 1]
    [found] = rejected(world.stores, "s", report["token"])
    assert [(r["number"], r["raw"]) for r in found.rows] == [
        (n, f"x{n},c{n}".encode()) for n in range(9)
    ]
    assert report["rejected"] == 9


def test_a_quarantine_that_was_dropped_begins_anew(world: World) -> None:
    world.ingest(world.put("a.csv", ROWS), lower=0, upper=10)
    world.machine.drop(rejected_shard("s"), by="me", reason="all are known")

    world.ingest(world.put("b.csv", "id,name\n9,z\n10,y\n11,w\nx,x\n"), lower=10, upper=20)

    assert [len(found.rows) for found in rejected(world.stores, "s")] == [3, 1]


@pytest.mark.parametrize("taken", [False, True])
def test_a_shard_that_is_made_anew_has_rejected_rows_of_its_own(world: World, taken: bool) -> None:
    """Those of its batches were nowhere, and a retry took in the rows of the shard before it."""
    spec = world.state.spec
    widen = partial(change_schema, world.machine, "s", WidenColumn("id", COLUMN_TYPE))
    file = world.put("a.csv", ROWS)
    token = world.ingest(file, lower=0, upper=10, token="day-1")["token"]
    if taken:
        widen()
        assert [one.taken for one in retry_rejected(world.stores, world.settings, "s")] == [2]
    world.machine.drop("s", by="me", reason="begun anew", force=True)
    world.machine.create(spec, revive=True)

    assert not list(rejected(world.stores, "s"))
    assert not retry_rejected(world.stores, world.settings, "s")
    world.put("a.csv", ROWS.replace("70000", "4").replace("2,d", "70002,d"))
    assert world.ingest(file, lower=0, upper=10, token="day-1")["token"] == token
    for _ in range(2):
        [found] = rejected(world.stores, "s")
        assert [row["raw"] for row in found.rows] == [b"x,c", b"70002,d", b"70001,e"]
    widen()
    assert [one.taken for one in retry_rejected(world.stores, world.settings, "s")] == [2]

    [found] = rejected(world.stores, "s")
    assert [row["raw"] for row in found.rows] == [b"x,c"]
    assert ids(world) == [1, 3, 4, 70001, 70002]


def test_a_batch_that_a_new_shard_took_in_whole_has_no_rejected_rows(world: World) -> None:
    spec = world.state.spec
    world.ingest(world.put("a.csv", ROWS), lower=0, upper=10, token="day-1")
    world.machine.drop("s", by="me", reason="begun anew", force=True)
    world.machine.create(spec, revive=True)
    world.ingest(world.put("a.csv", "id,name\n70,e\n"), lower=0, upper=10, token="day-1")

    assert not list(rejected(world.stores, "s"))
    assert not retry_rejected(world.stores, world.settings, "s")


def test_a_run_that_fails_commits_no_rejected_row(world: World) -> None:
    with pytest.raises(InvalidRequest, match="too many rows"):
        world.ingest(world.put("a.csv", "id,name\n1,a\nx,b\ny,c\n"), lower=0, upper=10)

    assert not list(rejected(world.stores, "s"))


def test_who_is_killed_before_the_quarantine_leaves_it_to_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> int:
        raise Unavailable("killed", certain=False)

    with monkeypatch.context() as patched:
        patched.setattr(commit, "catch_up", killed)
        with pytest.raises(Unavailable):
            world.ingest(world.put("a.csv", ROWS), lower=0, upper=10)
    assert rejected_shard("s") not in world.machine.names()

    world.ingest(world.put("b.csv", "id,name\n9,z\n"), lower=10, upper=20)

    [found] = rejected(world.stores, "s")
    assert len(found.rows) == 3
    assert catch_up(world.stores, world.state) == 0


def test_rows_that_can_be_read_now_are_taken_once(world: World) -> None:
    world.ingest(world.put("a.csv", ROWS), lower=0, upper=10)
    change_schema(world.machine, "s", WidenColumn("id", COLUMN_TYPE))

    [first] = retry_rejected(world.stores, world.settings, "s")
    [second] = retry_rejected(world.stores, world.settings, "s")

    assert (first.rows, first.taken, first.reason) == (3, 2, "not readable as int64")
    assert (second.rows, second.taken) == (1, 0)
    assert ids(world) == [1, 2, 3, 70000, 70001]
    [left] = rejected(world.stores, "s")
    assert [row["raw"] for row in left.rows] == [b"x,c"]


def retried_and_killed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill a retry between the commit of its rows and their release."""
    world.ingest(world.put("a.csv", ROWS), lower=0, upper=10)
    change_schema(world.machine, "s", WidenColumn("id", COLUMN_TYPE))

    def killed(*_: Any) -> None:
        raise Unavailable("killed", certain=False)

    with monkeypatch.context() as patched:
        patched.setattr(retry, "release", killed)
        with pytest.raises(Unavailable):
            retry_rejected(world.stores, world.settings, "s")


def test_a_retry_that_is_killed_in_between_takes_nothing_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    retried_and_killed(world, monkeypatch)
    assert ids(world) == [1, 2, 3, 70000, 70001]

    [again] = retry_rejected(world.stores, world.settings, "s")

    assert again.taken == 2
    assert sum(world.rows().values()) == 5
    assert len(next(rejected(world.stores, "s")).rows) == 1


@pytest.mark.parametrize("other", [0, 1, 2])
def test_a_killed_retry_takes_nothing_twice_if_other_rows_can_be_read_then(
    world: World, monkeypatch: pytest.MonkeyPatch, other: int
) -> None:
    retried_and_killed(world, monkeypatch)
    monkeypatch.setattr(retry, "_can_be_read", lambda row, _: row["number"] != other)

    [again] = retry_rejected(world.stores, world.settings, "s")

    assert (again.rows, again.taken) == (3, 2)
    assert sum(world.rows().values()) == 5
    assert [row["raw"] for row in next(rejected(world.stores, "s")).rows] == [b"x,c"]


def test_contradictions_can_be_tried_again(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium", contradictions="quarantine", max_rejected=1.0)
    put(world, 1, [event("u", 2, ("late", None), 5), event("d", 3, t=6)])
    run(world, 1, 1)
    put(world, 2, [event("c", 2, ("there", None), DAY + 1)])
    run(world, 2, 2)
    world.now = 5 * DAY

    [report] = retry_rejected(world.stores, world.settings, "s")

    assert (report.rows, report.taken) == (2, 1)
    assert report.reason == "deleted, and the key is not there"
    assert table_at(world, world.state.upper - 1) == {2: ("late", None)}


def test_an_append_that_is_refused_for_another_reason_is_not_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only who was overtaken tries again; else rejected rows would vanish without a word."""
    tries: list[str] = []

    def refuse(self: Machine, name: str, **_: Any) -> Any:
        tries.append(name)
        raise InvalidRequest("no")

    world.ingest(world.put("a.csv", ROWS), lower=0, upper=10)
    [found] = rejected(world.stores, "s")
    monkeypatch.setattr(Machine, "append", refuse)

    with pytest.raises(InvalidRequest, match="no"):
        release(world.stores, "s", "t", found.rows)
    assert tries == [rejected_shard("s")]


@pytest.mark.parametrize("what", ["release", "ingest"])
def test_who_does_the_same_at_the_same_time_is_not_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Two retries at once: the slower one was refused, for a token of another interval."""
    file = world.put("a.csv", ROWS)
    world.ingest(file)
    [found] = rejected(world.stores, "s")
    release(world.stores, "s", "t", found.rows)
    world.now += 1000
    real, late = Machine.committed, iter([None])

    def just_before(self: Machine, *asked: Any) -> Any:
        return next(late, real(self, *asked))

    monkeypatch.setattr(Machine, "committed", just_before)
    if what == "release":
        release(world.stores, "s", "t", found.rows)
    else:
        assert world.ingest(file)["already_committed"]
    assert sum(world.rows().values()) == 3
    assert not list(rejected(world.stores, "s"))
