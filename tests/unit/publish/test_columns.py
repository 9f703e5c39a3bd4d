"""Columns of a published table: ids through every change, types, what is left out, and metrics."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from strata.compact import compact_shard
from strata.errors import InvalidRequest
from strata.format import field_ids, part_write
from strata.format.columns import child
from strata.format.field_ids import Place
from strata.machine.machine import Machine
from strata.maintain.schema import change_schema
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.publish import fields, iceberg, manifests
from strata.publish.fields import Fields, fields_of, have_ids_of_parts
from strata.publish.metrics import metrics_of
from strata.publish.views import views_of
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from tests.support.published import World, flat, sums
from tests.support.stored import append, create, memory_stores, settings
from tests.support.updates import table

RELATION = Relation(
    0,
    (
        Column(1, "id", parse_type("int16")),
        Column(2, "naïve text", parse_type("varchar(9)")),
        Column(3, "small", parse_type("uint32")),
        Column(4, "where", parse_type("float64")),
    ),
    (1,),
    (),
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    create(made.stores, RELATION)
    rows = [(i, f"é{i}", i, i / 2, i % 10, 1) for i in range(12)]
    append(made.stores, "shard", 0, 10, [table(RELATION, rows)], "both")
    return made


def change(world: World, made: Change) -> Relation:
    return change_schema(Machine(world.stores), "shard", made).evolved.relation


def shown(world: World) -> dict[str, int]:
    """Return the field ids of the columns by name."""
    schema = world.table().schema()
    return {
        field.name: field.field_id
        for side in ("key", "value")
        for field in schema.find_field(side).field_type.fields  # type: ignore[union-attr]
    }


def names(world: World) -> list[str]:
    return [name for name, _ in flat(world.table().scan().to_arrow())]


def test_unsigned_numbers_are_left_out_and_named(world: World) -> None:
    done = world.publication().publish()

    assert len(done.left_out) == 1
    assert done.left_out[0].startswith("small (uint32): Iceberg has no unsigned type")
    assert names(world) == ["id", "naïve text", "where"]
    assert world.read() == world.expected(names(world))


def test_ids_stay_through_renames_widenings_new_and_dropped_columns(world: World) -> None:
    first = world.publication().publish()
    before, at_first = shown(world), world.expected(["id", "naïve text", "where"])
    change(world, RenameColumn("naïve text", "text"))
    change(world, WidenColumn("id", parse_type("int64")))
    relation = change(world, AddColumn("new", parse_type("string")))
    append(
        world.stores, "shard", 10, 20, [table(relation, [(2**40, "wide", 1, 0.5, "new", 11, 1)])]
    )
    world.publication().publish()
    after = shown(world)

    assert after["text"] == before["naïve text"]
    assert after["id"] == before["id"]
    assert after["new"] not in before.values()
    assert world.read() == world.expected(["id", "text", "where", "new"])
    assert world.read(first.snapshot) == at_first
    dropped = change(world, DropColumn("where"))
    again = change(world, AddColumn("where", parse_type("date")))
    append(world.stores, "shard", 20, 30, [table(again, [(1, "x", 1, "y", None, 21, 1)])])
    world.publication().publish()

    assert dropped.version < again.version
    assert shown(world)["where"] not in {*before.values(), *after.values()}
    assert world.read() == world.expected(["id", "text", "new", "where"])


def test_a_table_without_rows_follows_a_rename(tmp_path: Path) -> None:
    world = World(tmp_path)
    create(world.stores, RELATION)
    world.publication().publish()
    change(world, RenameColumn("where", "place"))

    assert world.publication().publish().new
    assert "place" in shown(world)
    assert not world.publication().publish().new


def numbered(places: dict[Place, int], place: Place) -> int:
    """Return the next number for a new place, as tables were numbered before parts had ids."""
    return places.setdefault(place, len(places) + 1)


def test_a_table_that_numbered_columns_itself_begins_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(part_write, "with_field_ids", lambda schema: schema)
        earlier.setattr(fields, "field_id", partial(numbered, {}))
        earlier.setattr(iceberg, "have_ids_of_parts", lambda _: True)
        rows = [(i, "z", i, 0.5, 11, 1) for i in range(5)]
        append(world.stores, "shard", 10, 20, [table(RELATION, rows)])
        world.publication().publish()
        append(world.stores, "shard", 20, 30, [table(RELATION, [(1, "z", 1, 0.5, 21, 1)])])
        assert world.publication().publish().snapshots == 2
    append(world.stores, "shard", 30, 40, [table(RELATION, [(9, "new", 1, 0.5, 31, 1)])])

    done = world.publication().publish()

    assert (done.snapshots, done.expired) == (1, 2)
    assert world.read() == world.expected(names(world))
    append(world.stores, "shard", 40, 50, [table(RELATION, [(9, "newer", 1, 0.5, 41, 1)])])
    assert world.publication().publish().snapshots == 2
    assert world.read() == world.expected(names(world))


def test_the_mapping_of_names_numbers_each_column_of_parts(world: World) -> None:
    mapping = fields_of(Machine(world.stores).load("shard")).mapping
    [keys] = [one for one in mapping if one["names"] == ["k_s"]]

    assert have_ids_of_parts(mapping)
    assert [one["names"] for one in keys["fields"]] == [[child(1)]]
    keys["fields"][0]["field-id"] += 1
    assert not have_ids_of_parts(mapping)


def test_a_number_says_what_its_bytes_are_where_its_type_does_not(world: World) -> None:
    change(world, AddColumn("price", parse_type("numeric(9,2)")))
    change(world, AddColumn("exact", parse_type("numeric")))
    shown = fields_of(Machine(world.stores).load("shard")).shown
    docs = {one.column.name: one.field.doc for one in shown}

    assert docs["price"] is None
    assert "the exact number as 40 bytes" in str(docs["exact"])


def test_whatever_lies_in_a_nested_value_may_be_null(world: World) -> None:
    nested = {"l": "list<int32>", "m": "map<string, int32>", "r": "record<a: int32>"}
    for name, kind in nested.items():
        change(world, AddColumn(name, parse_type(kind)))
    shown = fields_of(Machine(world.stores).load("shard")).shown
    kinds = {one.column.name: one.field.field_type for one in shown}

    assert not kinds["l"].element_required  # type: ignore[attr-defined]
    assert not kinds["m"].value_required  # type: ignore[attr-defined]
    assert not kinds["r"].fields[0].required  # type: ignore[attr-defined]


def test_nested_fields_with_one_id_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(world, AddColumn("both", parse_type("record<a: int32, b: int32>")))
    monkeypatch.setattr(field_ids, "crc32", lambda _: 5)

    with pytest.raises(InvalidRequest, match="same field id"):
        world.publication().publish()


def test_a_default_is_left_out_until_old_parts_are_rewritten(world: World) -> None:
    relation = change(world, AddColumn("new", parse_type("string"), default="usual"))
    append(world.stores, "shard", 10, 20, [table(relation, [(1, "x", 1, 0.5, "own", 11, 1)])])
    done = world.publication().publish()

    assert [text.partition(" ")[0] for text in done.left_out] == ["small", "new"]
    assert "instead of its default" in done.left_out[1]
    compact_shard(world.stores, "shard", settings(), full=True)
    done = world.publication().publish()
    assert [text.partition(" ")[0] for text in done.left_out] == ["small"]
    assert world.read() == world.expected(names(world))


def test_a_widened_unsigned_number_is_left_out_while_parts_hold_it(world: World) -> None:
    change(world, WidenColumn("small", parse_type("int64")))
    done = world.publication().publish()

    assert "in which older parts hold it" in done.left_out[0]
    relation = Machine(world.stores).load("shard").relation
    append(world.stores, "shard", 10, 20, [table(relation, [(1, "x", 1, 0.5, 11, 1)])])
    compact_shard(world.stores, "shard", settings(), full=True)
    assert world.publication().publish().left_out == ()
    assert world.read() == world.expected()


def test_metrics_of_columns_only_while_readers_may_skip(world: World) -> None:
    assert not world.publication().publish().metrics
    assert bounded(world) == {"t"}
    world.let_skip()
    done = world.publication().publish()

    assert done.metrics
    assert done.new
    assert bounded(world) == {"t", "id", "naïve text"}  # no floats


def test_nothing_in_quarantine_has_metrics(world: World) -> None:
    world.let_skip()
    machine = Machine(world.stores)

    def distrust(state: Any, _: int) -> tuple[Any, None]:
        rollout = replace(state.rollout, quarantine=("2",))
        return replace(
            state, seqno=state.seqno + 1, walltime_ms=state.walltime_ms + 1, rollout=rollout
        ), None

    machine.apply("shard", distrust)
    world.publication().publish()

    assert bounded(world) == {"t", "id"}


def bounded(world: World) -> set[str]:
    schema = world.table().schema()
    return {
        schema.find_column_name(i).rpartition(".")[2]  # type: ignore[union-attr]
        for task in world.table().scan().plan_files()
        for i in {*task.file.lower_bounds, *task.file.upper_bounds}
    }


def test_a_wrong_bound_loses_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of filtered reads would notice: PyIceberg does skip by these metrics."""

    def wrong(*given: Any, **named: Any) -> Any:
        found = metrics_of(*given, **named)
        for one in found:
            one.lower_bounds |= {
                i: b"\x7f" * 2 for i in one.lower_bounds if len(one.lower_bounds[i]) == 2
            }
            one.upper_bounds |= {
                i: (0).to_bytes(len(b), "little") for i, b in one.upper_bounds.items()
            }
        return found

    world.let_skip()
    world.publication().publish()
    right = world.table().scan(row_filter="key.id > 5").to_arrow()
    world.publication().drop()
    monkeypatch.setattr(manifests, "metrics_of", wrong)
    world.publication().publish()

    assert right.num_rows == 6
    assert world.table().scan(row_filter="key.id > 5").to_arrow().num_rows == 0


BROKEN = {
    "a null struct": None,
    "more nulls than rows": {"nulls": 9, "low": 1, "high": 2},
    "negative nulls": {"nulls": -1, "low": 1, "high": 2},
    "bounds though all is null": {"nulls": 3, "low": 1, "high": 2},
    "one bound though all is null": {"nulls": 3, "low": None, "high": 2},
    "nulls unknown": {"nulls": None, "low": 1, "high": 2},
    "inverted": {"nulls": 0, "low": 2, "high": 1},
    "beyond the type": {"nulls": 0, "low": -(2**40), "high": 2**40},
}


@pytest.mark.parametrize("case", BROKEN)
def test_statistics_that_contradict_themselves_give_no_bounds(case: str, world: World) -> None:
    found: Fields = fields_of(Machine(world.stores).load("shard"))
    kind = pa.struct([("nulls", pa.int64()), ("low", pa.int64()), ("high", pa.int64())])
    stats = pa.array([BROKEN[case], {"nulls": 0, "low": 1, "high": 2}], kind)
    rows = pa.table(
        {
            "key": ["a", "b"],
            "rows": [3, 3],
            "t_low": [0, 5],
            "t_high": [4, 1],
            "s.1": stats,
        }
    )
    broken, fine = metrics_of(rows, found, trusted=True, quarantine=())
    column = found.schema.find_field("key.id").field_id

    assert column not in broken.lower_bounds
    assert column not in broken.upper_bounds
    assert column in fine.lower_bounds
    assert column in fine.upper_bounds
    assert found.time.field_id in broken.lower_bounds
    assert found.time.field_id not in fine.lower_bounds  # inverted


def test_each_part_has_the_bounds_that_its_own_statistics_prove() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    found = fields_of(Machine(stores).load("shard"))
    kind = pa.struct([("nulls", pa.int64()), ("low", pa.int64()), ("high", pa.int64())])
    stats = pa.array([*BROKEN.values(), {"nulls": 0, "low": 1, "high": 2}], kind)
    times = {"rows": 3, "t_low": 0, "t_high": 4}
    rows = pa.table(
        {name: [value] * len(stats) for name, value in times.items()}
        | {"key": [str(n) for n in range(len(stats))], "s.1": stats}
    )

    *broken, fine = metrics_of(rows, found, trusted=True, quarantine=())

    column = found.schema.find_field("key.id").field_id
    assert not any(column in {*one.lower_bounds, *one.upper_bounds} for one in broken)
    bounds = [found[column] for found in (fine.lower_bounds, fine.upper_bounds)]
    assert [int.from_bytes(one, "little") for one in bounds] == [1, 2]


def test_polars_reads_the_same(world: World) -> None:
    world.publication().publish()
    found = pl.scan_iceberg(world.table(), reader_override="pyiceberg").collect()

    assert sums(found.to_arrow()) == world.expected(["id", "naïve text", "where"])


@pytest.mark.parametrize("plain", [False, True])
def test_the_views_of_duckdb(plain: bool, world: World) -> None:
    """Only the function that opens a table is ours here: its extension is not installed."""
    if not plain:
        rows = [(3, "é3", 3, 1.5, 11, -1), (50, "it's", 1, None, 12, 3)]
        append(world.stores, "shard", 10, 20, [table(RELATION, rows)])
    done = world.publication().publish()
    updates = world.table().scan().to_arrow()
    engine = duckdb.connect()
    engine.register("updates", updates)
    engine.execute(
        "create macro iceberg_scan(place, snapshot_from_id := 0) as table select * from updates"
    )
    text = (world.folder / "iceberg/views/duckdb.sql").read_text()
    engine.execute(text)
    expected = world.expected(["id", "naïve text", "where"])
    now = engine.execute('select "id", "naïve text", "where", "d" from iceberg_now').fetchall()
    each = engine.execute("select * from iceberg_rows").fetchall()

    assert {tuple(map(repr, row[:3])): row[3] for row in now} == expected
    assert sorted(tuple(map(repr, row)) for row in each) == sorted(expected.elements())
    assert done.plain is plain
    assert ("iceberg_plain" in text) is plain
    assert (f"snapshot_from_id = {done.snapshot}" in text) is plain
    if plain:
        alone = engine.execute("select * from iceberg_plain").fetchall()
        assert sorted(tuple(map(repr, row)) for row in alone) == sorted(expected.elements())


@pytest.mark.parametrize("name", ["copy", "copies", "d", "iceberg_now"])
def test_the_views_take_columns_of_their_own_names(name: str, tmp_path: Path) -> None:
    relation = Relation(0, (Column(1, name, parse_type("string")),), (1,), ())
    found = fields_of(create(World(tmp_path).stores, relation))
    engine = duckdb.connect()
    engine.execute(
        "create macro iceberg_scan(place) as table "
        f"select {{'{name}': x}} as key, d from (values ('a', 2), ('b', -1)) as u(x, d)"
    )
    engine.execute(views_of("file:///iceberg", "file:///iceberg", found, None)["duckdb.sql"])

    assert sorted(engine.execute("select * from iceberg_now").fetchall()) == [("a", 2), ("b", -1)]
    assert engine.execute("select * from iceberg_rows").fetchall() == [("a",), ("a",)]


def test_a_row_that_counts_twice_is_not_plain(world: World) -> None:
    append(world.stores, "shard", 10, 20, [table(RELATION, [(50, "a", 1, None, 12, 2)])])

    assert not world.publication().publish().plain


def test_diffs_whose_sum_only_looks_right_are_not_plain(world: World) -> None:
    big = 2**63 - 1  # three rows whose diffs add up to 3 + 2**64
    rows = [(50, "a", 1, None, 12, big), (51, "a", 1, None, 12, big), (52, "a", 1, None, 12, 5)]
    append(world.stores, "shard", 10, 20, [table(RELATION, rows)])

    assert not world.publication().publish().plain
