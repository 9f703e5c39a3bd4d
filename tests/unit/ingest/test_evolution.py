"""Sources and shards change at different times: what a file lacks, still has, or had when read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.ingest.engine import ingest
from strata.model.runner import serial
from strata.model.types import parse_type
from strata.read.scan import read_updates
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn
from tests.unit.ingest.test_engine import World, source

INT = parse_type("int32")


def evolve(world: World, *changes: Change) -> None:
    for change in changes:
        world.machine.evolve("s", change)


def file(world: World, kind: str, columns: dict[str, list[Any]], name: str = "a") -> str:
    """Write equal rows in one of the formats; a missing value in JSON is a missing key."""
    path = str(world.root / f"{name}.{kind}")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if kind == "parquet":
        pq.write_table(pa.table(columns), path)
        return path
    lines = [",".join(columns), *(",".join(map(str, row.values())) for row in rows)]
    if kind == "jsonl":
        lines = [str(row).replace("'", '"') for row in rows]
    return world.put(f"{name}.{kind}", "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_file_that_lacks_a_column_with_a_default_has_the_default(
    tmp_path: Path, kind: str
) -> None:
    """So that a row from before, taken back by such a file, cancels."""
    world = World(tmp_path, **source(format=kind, envelope="diff"))
    rows = {"id": [1, 2], "name": ["a", "b"], "diff": [1, 1]}
    world.ingest(file(world, kind, rows), lower=0, upper=10)
    evolve(world, AddColumn("size", INT, nullable=False, default=50))

    back = {"id": [1], "name": ["a"], "diff": [-1]}
    world.ingest(file(world, kind, back, "b"), lower=10, upper=20)
    new = {"id": [3], "name": ["c"], "size": [7], "diff": [1]}
    world.ingest(file(world, kind, new, "c"), lower=20, upper=30)

    assert world.rows() == {
        (1, "a", 50, 0): 1,
        (2, "b", 50, 0): 1,
        (1, "a", 50, 10): -1,
        (3, "c", 7, 20): 1,
    }


def test_a_missing_key_has_the_default_and_null_is_null(tmp_path: Path) -> None:
    world = World(tmp_path, **source(format="jsonl"))
    evolve(
        world,
        AddColumn("size", INT, default=50),
        AddColumn("note", parse_type("bytes"), default="AAE="),
    )
    lines = '{"id": 1}\n{"id": 2, "size": null, "note": null}\n{"id": 3, "size": 4, "note": "x"}\n'

    world.ingest(world.put("a.jsonl", lines), lower=0, upper=10)

    assert world.rows() == {
        (1, None, 50, b"\x00\x01", 0): 1,
        (2, None, None, None, 0): 1,
        (3, None, 4, b"x", 0): 1,
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (AddColumn("size", INT), "lacks a declared column"),
        (DropColumn("name"), "does not declare"),
        (RenameColumn("name", "title"), "lacks a declared column"),
    ],
    ids=str,
)
def test_a_file_with_other_columns_is_refused(
    tmp_path: Path, kind: str, change: Change, said: str
) -> None:
    world = World(tmp_path, **source(format=kind))
    evolve(world, change)

    with pytest.raises(InvalidRequest, match=said):
        world.ingest(file(world, kind, {"id": [1], "name": ["a"]}), lower=0, upper=10)


def test_json_keys_of_dropped_columns_are_ignored_and_new_ones_are_null(tmp_path: Path) -> None:
    world = World(tmp_path, **source(format="jsonl"))
    evolve(world, DropColumn("name"), AddColumn("size", INT))

    world.ingest(world.put("a.jsonl", '{"id": 1, "name": "a"}\n'), lower=0, upper=10)

    assert world.rows() == {(1, None, 0): 1}


def test_defaults_of_nested_types_are_filled_in(tmp_path: Path) -> None:
    world = World(tmp_path, **source(format="jsonl"))
    evolve(world, AddColumn("tags", parse_type("list<string>"), default=["x"]))

    world.ingest(world.put("a.jsonl", '{"id": 1, "tags": []}\n{"id": 2}\n'), lower=0, upper=10)

    [ref] = plan_read(world.stores, world.state).fetched
    found = read_updates(world.stores, world.state, ref)
    assert found["3"].to_pylist() == [[], ["x"]]


def test_a_job_that_began_before_a_change_commits_after_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = world.put("a.csv", "id,name\n1,a\n")

    def slow(function: Any, items: Any) -> Iterator[Any]:
        results = list(serial(function, items))
        evolve(world, DropColumn("name"), AddColumn("name", INT, default=50))
        yield from results

    how: dict[str, Any] = {"paths": [path], "lower": 0, "upper": 10}
    report = ingest(world.stores, world.settings, "s", runner=slow, **how)
    again = ingest(world.stores, world.settings, "s", **how)

    assert (report.already_committed, again.already_committed) == (False, True)
    assert world.state.batches[-1].versions == (0,)
    assert world.rows() == {(1, 50, 0): 1}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("wind", "the shard called this column 'wind' before it was renamed"),
        ("windspeed", "is it the column 'windspeed'? if not: add the column"),
        ("zz", "add the column to the file"),
    ],
)
def test_a_renamed_header_is_named_with_the_column_that_it_was(
    tmp_path: Path, kind: str, header: str, said: str
) -> None:
    world = World(tmp_path, **source(format=kind))
    evolve(
        world,
        AddColumn("gust", INT),
        RenameColumn("gust", "wind"),
        RenameColumn("wind", "wind_speed"),
    )

    rows = {"id": [1], "name": ["a"], header: [3]}
    with pytest.raises(InvalidRequest, match="lacks a declared column") as error:
        world.ingest(file(world, kind, rows), lower=0, upper=10)

    assert error.value.details["column"] == "wind_speed"
    assert error.value.details["undeclared"] == [header]
    assert error.value.cure is not None
    assert error.value.cure.startswith(said)


def test_a_misspelt_column_with_a_default_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, **source(format="csv"))
    evolve(world, AddColumn("size", INT, default=3))
    with pytest.raises(InvalidRequest, match="does not declare") as error:
        world.ingest(file(world, "csv", {"id": [1], "name": ["a"], "Sise": [3]}), lower=0, upper=10)
    assert str(error.value.cure).startswith("is it the column 'size'?")
