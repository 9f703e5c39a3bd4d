"""Where rows are retracted by value, no column is widened so that a retraction misses its row."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from strata.errors import InvalidRequest
from strata.ingest.tables import Rows
from strata.machine.machine import Machine
from strata.maintain.schema import change_schema
from strata.model.types import parse_type
from strata.state import schema
from strata.state.schema import WidenColumn
from tests.unit.ingest.test_engine import World
from tests.unit.ingest.test_tables import write


def world_of(root: Path, envelope: str, kind: str, *, keyed: bool = False) -> World:
    columns = [
        {"name": "id", "type": "int16", "nullable": False},
        {"name": "x", "type": kind},
        {"name": "v", "type": "int16"},
    ]
    source = {"paths": ["in/"], "format": "jsonl", "envelope": envelope}
    if envelope == "diff":
        source["diff_column"] = "n"
    return World(root, columns=columns, key=["id", "x"] if keyed else ["id"], source=source)


def widen(world: World, kind: str, column: str = "x") -> None:
    change_schema(world.machine, "s", WidenColumn(column, parse_type(kind)))


OTHERWISE = [
    ("float32", "float64"),
    ("char(3)", "varchar(3)"),
    ("char(3)", "string"),
    ("list<float32>", "list<float64>"),
    ("record<a: int32>", "record<a: int32, b: int32>"),
    ("map<record<a: float32>>", "map<record<a: float64>>"),
]


@pytest.mark.parametrize(("old", "new"), OTHERWISE)
def test_a_widening_that_reads_otherwise_is_refused_with_diffs(
    tmp_path: Path, old: str, new: str
) -> None:
    world = world_of(tmp_path, "diff", old)

    with pytest.raises(InvalidRequest, match="would not be met any more") as error:
        widen(world, new)
    assert error.value.details["column"] == "x"
    assert error.value.cure is not None
    assert "beside it" in error.value.cure
    widen(world, "int64", "v")
    assert world.state.relation.version == 1


@pytest.mark.parametrize("envelope", ["upsert", "debezium"])
def test_of_change_streams_only_the_key_is_met_by_value(tmp_path: Path, envelope: str) -> None:
    (tmp_path / "keyed").mkdir()
    keyed = world_of(tmp_path / "keyed", envelope, "float32", keyed=True)
    with pytest.raises(InvalidRequest, match="would not be met any more"):
        widen(keyed, "float64")

    value = world_of(tmp_path, envelope, "float32")
    widen(value, "float64")


def test_a_value_of_a_change_stream_that_was_widened_is_still_retracted(tmp_path: Path) -> None:
    world = world_of(tmp_path, "upsert", "float32")
    world.ingest(world.put("a.jsonl", '{"id":1,"x":12.8,"v":1}\n'), lower=0, upper=10)
    widen(world, "float64")

    world.ingest(world.put("b.jsonl", '{"id":1,"x":13.8,"v":1}\n'), lower=10, upper=20)

    assert sorted(world.rows().items()) == [
        ((1, 12.800000190734863, 1, 0), 1),
        ((1, 12.800000190734863, 1, 10), -1),
        ((1, 13.8, 1, 10), 1),
    ]


def test_a_shard_that_only_appends_may_be_widened_and_then_takes_no_diffs(tmp_path: Path) -> None:
    world = world_of(tmp_path, "append", "float32", keyed=True)
    row = pa.table({"id": [1], "x": pa.array([12.8], pa.float32()), "v": [1]})
    write(world, Rows(0, 10), row)
    widen(world, "int64", "v")
    widen(world, "float64")
    write(world, Rows(10, 20), row)

    for rows in (Rows(20, 30, envelope="diff", diff_column="n"), Rows(20, 30, envelope="upsert")):
        with pytest.raises(InvalidRequest, match="read otherwise than it was stored") as error:
            write(world, rows, row.append_column("n", pa.array([-1])))
        assert error.value.details["column"] == "x"
        assert error.value.details["version"] == 2


def test_files_with_diffs_are_refused_where_an_older_strata_widened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "diff", "float32")
    world.ingest(world.put("a.jsonl", '{"id":1,"x":12.8,"v":1,"n":1}\n'), lower=0, upper=10)
    with monkeypatch.context() as patched:
        patched.setattr(schema, "met_by_value", lambda *_: frozenset())
        widen(world, "float64")

    with pytest.raises(InvalidRequest, match="read otherwise than it was stored"):
        world.ingest(world.put("b.jsonl", '{"id":1,"x":12.8,"v":1,"n":-1}\n'), lower=10, upper=20)
    assert isinstance(world.machine, Machine)
    assert sum(world.rows().values()) == 1


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("int16", "int64", "7"),
        ("numeric(4,2)", "numeric(38,2)", "12.80"),
        ("varchar(3)", "string", '"ab "'),
        ("char(3)", "char(9)", '"ab "'),
        ("varchar(3)", "varchar(5)", '"  a"'),
    ],
)
def test_other_widenings_are_allowed_and_retractions_meet_their_rows(
    tmp_path: Path, old: str, new: str, text: Any
) -> None:
    world = world_of(tmp_path, "diff", old)
    line = '{{"id":1,"x":{},"v":1,"n":{}}}\n'
    world.ingest(world.put("a.jsonl", line.format(text, 1)), lower=0, upper=10)
    widen(world, new)

    world.ingest(world.put("b.jsonl", line.format(text, -1)), lower=10, upper=20)

    values = {repr(row[1]) for row in world.rows()}
    assert len(values) == 1
    assert sum(world.rows().values()) == 0
