"""A table that is altered in the middle of its stream: nothing is lost, or it is refused.

The slow twin is the table itself. A person follows each refusal by the command for the next change.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.ingest.quarantine import rejected
from strata.ingest.readers import debezium
from strata.ingest.readers.turns import Turn
from strata.maintain.schema import change_schema
from strata.model.types import parse_type
from strata.read.scan import scan
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn
from tests.support.sizes import tries
from tests.unit.ingest.changes.test_tasks import put, run
from tests.unit.ingest.test_engine import World

TEXT: Final = parse_type("string")
Origin = Callable[[int, int], dict[str, Any]]


def postgres(commit: int, lsn: int) -> dict[str, Any]:
    return {
        "connector": "postgresql",
        "lsn": lsn,
        "sequence": f'["{commit}","{lsn}"]',
        "snapshot": "false",
    }


def mysql(_: int, lsn: int) -> dict[str, Any]:
    return {"connector": "mysql", "pos": lsn}


def world_of(root: Path, envelope: str = "debezium", **source: Any) -> World:
    columns = [{"name": "id", "type": "int64", "nullable": False}]
    columns += [{"name": name, "type": "string"} for name in "ab"]
    source = {"paths": ["in/"], "format": "jsonl", "envelope": envelope, **source}
    return World(root, columns=columns, source=source)


def event(op: str, key: int, lsn: int, origin: Origin = postgres, **row: Any) -> dict[str, Any]:
    before = {"id": key} if op == "d" else None
    after = None if op == "d" else {"id": key, **row}
    source = {"ts_ms": lsn, **origin(lsn - 1, lsn)}
    return {"before": before, "after": after, "op": op, "source": source}


def rows(world: World) -> dict[int, dict[str, Any]]:
    state = world.state
    plan = plan_read(world.stores, state, as_of=state.upper - 1)
    found = [
        row for b in scan(world.stores, state, plan, consolidate=True) for row in b.to_pylist()
    ]
    assert all(row["d"] == 1 for row in found)
    return {
        row["id"]: {n: v for n, v in row.items() if n not in "td" and n != "id"} for row in found
    }


def change(world: World, *changes: Change) -> None:
    for one in changes:
        change_schema(world.machine, "s", one)


@pytest.fixture(params=[False, True])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files with Arrow where that is possible, or never."""
    if request.param:
        monkeypatch.setattr(debezium, "SMALL_BYTES", 0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("origin", [postgres, mysql])
def test_a_column_keeps_its_values_from_before_its_new_name(tmp_path: Path, origin: Origin) -> None:
    """They were null: the former name was let pass as that of a column which the shard had."""
    world = world_of(tmp_path)
    lines = [event("c", 1, 10, origin, a="x", b="y"), event("c", 2, 20, origin, c="z", b="y")]
    put(world, 1, lines)
    with pytest.raises(InvalidRequest, match="does not declare") as refused:
        run(world, 1, 1)
    assert str(refused.value.cure).startswith("if it is 'a' by a new name: strata schema rename;")

    change(world, RenameColumn("a", "c"))
    [report] = run(world, 1, 1)

    assert rows(world) == {1: {"c": "x", "b": "y"}, 2: {"c": "z", "b": "y"}}
    assert report.counts.undeclared == set()


def test_a_delete_and_a_schema_have_the_former_name_of_the_key(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    fields = [{"field": "id", "type": "int64"}, {"field": "a", "type": "bytes"}]
    told = {"fields": [{"field": "after", "fields": fields}]}
    put(world, 1, [event("c", 1, 10, a="x", b="y"), event("d", 1, 20)])
    change(world, RenameColumn("id", "number"), RenameColumn("a", "c"))
    put(world, 1, [{"schema": told, "payload": event("c", 2, 30, a="eA==")}], "y")

    with pytest.raises(InvalidRequest, match="lacks a column") as refused:
        run(world, 1, 1)

    assert refused.value.details["column"] == "b"
    put(world, 1, [event("c", 2, 30, a="x", b="z")], "y")
    run(world, 1, 1)
    state = world.state
    [batch] = scan(world.stores, state, plan_read(world.stores, state), consolidate=True)
    [row] = batch.to_pylist()
    assert (row["number"], row["c"], row["b"]) == (2, "x", "z")


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("origin", [postgres, mysql])
def test_a_new_column_with_a_former_name_is_not_left_out(tmp_path: Path, origin: Origin) -> None:
    world = world_of(tmp_path)
    change(world, RenameColumn("a", "c"))
    put(world, 1, [event("c", 1, 10, origin, b="y", c="z", a="new")])

    with pytest.raises(InvalidRequest, match="does not declare") as refused:
        run(world, 1, 1)

    assert refused.value.details["column"] == "a"


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("origin", [postgres, mysql])
@pytest.mark.parametrize("together", [True, False])
def test_a_dropped_column_that_comes_back_is_not_left_out(
    tmp_path: Path, origin: Origin, together: bool
) -> None:
    world = world_of(tmp_path)
    change(world, DropColumn("a"))
    first = [event("c", 1, 10, origin, a="old", b="y"), event("c", 2, 20, origin, b="y")]
    again = [event("u", 1, 30, origin, b="y", a="new"), event("u", 2, 40, origin, b="z", a="new")]
    put(world, 1, first + again if together else first)
    put(world, 2, [] if together else again)

    with pytest.raises(InvalidRequest, match="that it had lost, and the shard dropped") as refused:
        run(world, 1, 2)

    assert refused.value.details["column"] == "a"
    assert refused.value.details["line"] in ((4,) if together else (2,))
    if not together:
        change(world, AddColumn("a", TEXT))
        run(world, 2, 2)
        assert rows(world) == {1: {"b": "y", "a": "new"}, 2: {"b": "z", "a": "new"}}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("origin", [postgres, mysql])
def test_a_column_that_came_and_goes_is_not_set_back_to_its_default(
    tmp_path: Path, origin: Origin
) -> None:
    world = world_of(tmp_path)
    change(world, AddColumn("c", TEXT, default="d"))
    put(world, 1, [event("c", 1, 10, origin, a="x", b="y")])
    put(world, 2, [event("u", 1, 20, origin, a="x", b="y", c="set")])
    put(world, 3, [event("u", 1, 30, origin, a="x", b="z")])
    run(world, 1, 2)
    assert rows(world)[1]["c"] == "set"

    with pytest.raises(InvalidRequest, match="lacks a column that it had before") as refused:
        run(world, 3, 3)

    assert refused.value.details["column"] == "c"
    assert refused.value.details["line"] == 1
    change(world, DropColumn("c"))
    run(world, 3, 3)
    assert rows(world) == {1: {"a": "x", "b": "z"}}


def test_a_column_that_replaces_one_of_its_name_may_not_be_missing(tmp_path: Path) -> None:
    """By its name alone a column counted as one of the first, or as one that came."""
    world = world_of(tmp_path)
    change(world, RenameColumn("a", "c"))
    put(world, 1, [event("c", 1, 10, b="y")])

    with pytest.raises(InvalidRequest, match="lacks a column that the shard declares"):
        run(world, 1, 1)

    change(world, DropColumn("c"), AddColumn("a", TEXT, default="d"))
    run(world, 1, 1)
    assert rows(world) == {1: {"b": "y", "a": "d"}}


def test_changes_that_come_again_may_have_columns_of_any_time(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    before, after = event("c", 1, 10, a="x", b="y"), event("c", 2, 20, b="y")
    put(world, 1, [before, after])
    change(world, DropColumn("a"))
    run(world, 1, 1)
    put(world, 2, [before, after, event("c", 3, 30, b="z")])

    [report] = run(world, 2, 2)

    assert (report.counts.repeated, set(rows(world))) == (2, {1, 2, 3})


def test_report_goes_on_where_a_column_goes(tmp_path: Path) -> None:
    world = world_of(tmp_path, schema_changes="report")
    change(world, AddColumn("c", TEXT))
    put(world, 1, [event("c", 1, 10, a="x", b="y", c="z"), event("c", 2, 20, a="x", b="y")])

    run(world, 1, 1)

    assert rows(world)[2] == {"a": "x", "b": "y", "c": None}


@pytest.mark.parametrize("envelope", ["append", "diff"])
@pytest.mark.parametrize("format", ["jsonl", "json"])
def test_an_object_with_a_former_name_is_rejected(
    tmp_path: Path, envelope: str, format: str
) -> None:
    """Its value became null."""
    world = world_of(tmp_path, envelope, format=format, max_rejected=1.0)
    change(world, RenameColumn("a", "c"))
    world.put(
        f"in/1970-01-01.{format}",
        '[{"id": 1, "a": "x", "b": "y", "diff": 1}]'.strip("[]" if format == "jsonl" else ""),
    )

    [report] = run(world, 1, 1)

    assert report.counts.rejected == 1
    [[row]] = [found.rows for found in rejected(world.stores, "s")]
    assert "the key a is a name that the shard has or had" in row["reason"]


def test_keyed_rows_with_a_former_name_are_refused_with_the_pair_of_names(tmp_path: Path) -> None:
    world = world_of(tmp_path, "upsert")
    change(world, RenameColumn("a", "c"))
    put(world, 1, [{"id": 1, "a": "x", "b": "y"}])

    with pytest.raises(InvalidRequest, match="lacks a column") as refused:
        run(world, 1, 1)

    assert 'source.names: {"a": "c"}' in str(refused.value.cure)


@pytest.mark.parametrize("schema_changes", ["refuse", "report"])
def test_a_mark_of_deleted_rows_is_not_left_out(tmp_path: Path, schema_changes: str) -> None:
    world = world_of(tmp_path, "upsert", schema_changes=schema_changes)
    put(world, 1, [{"id": 1, "a": None, "b": None, "__deleted": "true"}])

    with pytest.raises(InvalidRequest, match="which of them were deleted") as refused:
        run(world, 1, 1)

    assert refused.value.cure == "source.deleted_column: __deleted"


class Table:
    """A table of a database that is altered now and then, and its stream."""

    def __init__(self, seed: int, reuse: bool) -> None:
        """Make a stream; `reuse`: names come again."""
        self.random = random.Random(seed)
        self.reuse = reuse
        self.origin: Origin = postgres if self.random.random() < 0.7 else mysql
        self.columns = ["a", "b"]
        self.rows: dict[int, dict[str, Any]] = {}
        self.changes: list[Change] = []
        self.events: list[dict[str, Any]] = []
        altered = False
        for lsn in range(110, 110 + 10 * self.random.randrange(5, 30), 10):
            if not altered and self.random.random() < 0.15:
                altered = True
                self._alter(lsn)
            else:
                altered = self._write(lsn, altered)

    def _alter(self, lsn: int) -> None:
        free = [n for n in "abce" if n not in self.columns] if self.reuse else [f"n{lsn}"]
        kind, old = self.random.randrange(3), self.random.choice(self.columns)
        if kind == 0 and free:
            new, default = self.random.choice(free), self.random.choice([None, f"d{lsn}"])
            self.columns.append(new)
            self.rows = {key: {**row, new: default} for key, row in self.rows.items()}
            self.changes.append(AddColumn(new, TEXT, default=default))
        elif kind == 1 and len(self.columns) > 1:
            self.columns.remove(old)
            for row in self.rows.values():
                del row[old]
            self.changes.append(DropColumn(old))
        elif kind == 2 and free:
            new = self.random.choice(free)
            self.columns[self.columns.index(old)] = new
            for row in self.rows.values():
                row[new] = row.pop(old)
            self.changes.append(RenameColumn(old, new))

    def _write(self, lsn: int, altered: bool) -> bool:
        """Change a row; return whether no row shows yet that the table was altered."""
        key = self.random.randrange(5)
        if key in self.rows and self.random.random() < 0.3:
            del self.rows[key]
            self.events.append(event("d", key, lsn, self.origin))
            return altered
        row = {name: self.random.choice([None, f"{name}{lsn}"]) for name in self.columns}
        op = "u" if key in self.rows else "c"
        self.events.append(event(op, key, lsn, self.origin, **row))
        self.rows[key] = row
        return False

    def files(self) -> list[list[dict[str, Any]]]:
        """Return the stream in files; what has positions comes twice now and then."""
        found, at = [], 0
        while at < len(self.events):
            end, again = at + self.random.randrange(1, 8), self.random.randrange(6)
            twice = self.origin is postgres and self.random.random() < 0.3
            found.append(self.events[max(0, at - again * twice) : end])
            at = end
        return found


def followed(world: World, table: Table) -> bool:
    """Take in all files, and follow each refusal by the next change; return whether all came."""
    files, left, day = table.files(), [*table.changes], 1
    for day, lines in enumerate(files, 1):
        put(world, day, lines)
    day = 1
    while day <= len(files):
        try:
            run(world, day, day)
        except InvalidRequest:
            if not left:
                return False
            change(world, left.pop(0))
        else:
            day += 1
    change(world, *left)
    return True


@pytest.mark.parametrize("seed", range(tries(12, 400)))
@pytest.mark.parametrize("reuse", [False, True])
def test_whoever_follows_each_refusal_has_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, reuse: bool
) -> None:
    """Where names come again within one file, it may be refused for good."""
    monkeypatch.setattr(debezium, "SMALL_BYTES", 0 if seed % 2 else 1 << 17)
    table = Table(seed, reuse)
    world = world_of(tmp_path, contradictions="fail" if table.origin is postgres else "count")

    if followed(world, table):
        assert (rows(world) if table.events else {}) == table.rows
    else:
        assert reuse


def test_the_ledger_of_a_table_that_was_never_altered_says_nothing_of_turns(tmp_path: Path) -> None:
    """Programs that do not know them read it."""
    world = world_of(tmp_path)
    put(world, 1, [event("c", 1, 10, a="x", b="y")])
    put(world, 2, [event("c", 2, 20, a="x")])
    run(world, 1, 1)
    assert all("turns" not in names for names in columns_of_ledger(world))

    change(world, DropColumn("b"))
    run(world, 2, 2)

    assert any("turns" in names for names in columns_of_ledger(world))


def columns_of_ledger(world: World) -> list[list[str]]:
    consumed = world.state.consumed
    assert consumed is not None
    blobs = [world.stores.blob.get(segment.key) for segment in consumed.segments]
    return [pq.read_schema(pa.BufferReader(blob)).names for blob in blobs if blob is not None]


def of_table(name: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events as those of one of several tables."""
    said = {"db": "shop", "schema": "public", "table": name}
    return [{**line, "source": {**line["source"], **said}} for line in lines]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("origin", [postgres, mysql])
@pytest.mark.parametrize("files", [1, 2])
def test_one_of_several_tables_may_not_lose_a_column_that_it_had(
    tmp_path: Path, origin: Origin, files: int
) -> None:
    """Its rows got the default, because the other table had not been altered yet."""
    world = world_of(tmp_path, tables="t*")
    change(world, AddColumn("c", TEXT, default="d"))
    first = [
        event("c", 1, 10, origin, a="x", b="y", c="z"),
        event("u", 1, 20, origin, a="x", b="y"),
    ]
    other = [event("c", 2, 15, origin, a="x", b="y")]
    both = of_table("t1", first[:1]) + of_table("t2", other) + of_table("t1", first[1:])
    put(world, 1, both[: 1 + files % 2 * 2])
    put(world, 2, both[1 + files % 2 * 2 :])

    with pytest.raises(InvalidRequest, match="lacks a column that it had before") as refused:
        run(world, 1, 2)

    assert refused.value.details["table"] == "shop.public.t1"
    assert refused.value.details["column"] == "c"


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("origin", [postgres, mysql])
def test_several_tables_are_altered_one_after_the_other(tmp_path: Path, origin: Origin) -> None:
    world = world_of(tmp_path, tables="t*")
    change(world, AddColumn("c", TEXT, default="d"), DropColumn("b"))
    put(world, 1, of_table("t1", [event("c", 1, 10, origin, a="x", c="z")]))
    put(world, 2, of_table("t2", [event("c", 2, 20, origin, a="x", b="y")]))
    put(world, 3, of_table("t2", [event("c", 3, 30, origin, a="x", c="w")]))
    run(world, 1, 3)
    assert rows(world) == {n: {"a": "x", "c": c} for n, c in ((1, "z"), (2, "d"), (3, "w"))}

    put(world, 4, of_table("t2", [event("c", 4, 40, origin, a="x", b="v", c="w")]))
    with pytest.raises(InvalidRequest, match="has a column again") as refused:
        run(world, 4, 4)
    assert refused.value.details["table"] == "shop.public.t2"


def test_a_table_that_joins_others_later_brings_a_snapshot_of_its_own(tmp_path: Path) -> None:
    """A connector without positions: only another snapshot of the same table is refused."""
    world = world_of(tmp_path, tables="t*")
    read = [event("r", 1, 10, mysql, a="x", b="y"), event("r", 2, 30, mysql, a="x", b="y")]
    for line in read:
        line["source"]["snapshot"] = "true"
    put(world, 1, of_table("t1", [read[0], event("c", 3, 20, mysql, a="x", b="y")]))
    put(world, 2, of_table("t2", [read[1]]))
    run(world, 1, 2)
    assert sorted(rows(world)) == [1, 2, 3]

    put(world, 3, of_table("t1", [read[0]]))
    with pytest.raises(InvalidRequest, match="another snapshot of the table begins") as refused:
        run(world, 3, 3)
    assert refused.value.details["table"] == "shop.public.t1"


def test_turns_add_up_in_any_order() -> None:
    some = [Turn("a", False, 5, 3, True, "x", 1), Turn("a", False, None, 9, True, "y", 2)]

    assert some[0].plus(some[1]) == some[1].plus(some[0])
    assert some[0].plus(some[1]) == Turn("a", False, 5, 9, True, "y", 2)
