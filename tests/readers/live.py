"""Other engines read published tables as Strata reads the shards: `make test-readers`.

Daft reads files that have the columns of the table and no others: the layout `structured`, and no
column that was dropped or left out. It ends with an error where a file has more.
"""

import subprocess
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from strata.compact import compact_shard
from strata.machine.machine import Machine
from strata.maintain.schema import change_schema
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.state.schema import AddColumn, DropColumn, RenameColumn, WidenColumn
from tests.support.published import World, sums
from tests.support.stored import append, create, settings
from tests.support.updates import table

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = ROOT / ".venv-readers" / "bin" / "python"
RELATION: Final = Relation(
    0,
    (
        Column(1, "id", parse_type("int32")),
        Column(2, "text", parse_type("string")),
        Column(3, "amount", parse_type("numeric(12,2)")),
        Column(4, "day", parse_type("date")),
        Column(5, "at", parse_type("timestamptz")),
        Column(6, "f", parse_type("float64")),
        Column(7, "list", parse_type("list<int32>")),
        Column(8, "yes", parse_type("bool")),
    ),
    (1,),
    (),
)
ALL: Final = ("daft", "duckdb", "pyiceberg")


def rows(first: int, count: int, time: int, sign: int = 1) -> list[tuple[object, ...]]:
    return [
        (
            i,
            None if i % 7 == 0 else f"é {i % 5}",
            Decimal(i - 50) / 100,
            date(1960, 1, 1) + timedelta(days=37 * i),
            1_600_000_000_000_000 - 10**12 * i,
            i / 3,
            [i, None, -1] if i % 3 else [],
            i % 2 == 0,
            time,
            sign,
        )
        for i in range(first, first + count)
    ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    assert PYTHON.exists(), "make test-readers makes it"
    return World(tmp_path)


def start(world: World, layout: str) -> None:
    create(world.stores, RELATION, write_format=layout)
    append(world.stores, "shard", 0, 10, [table(RELATION, rows(0, 300, 1))])
    append(world.stores, "shard", 10, 20, [table(RELATION, rows(100, 50, 11, -1))])


def read_by(engine: str, world: World) -> pa.Table:
    out = world.folder / f"{engine}.arrow"
    script = Path(__file__).with_name("rows.py")
    command = [str(PYTHON), str(script), engine, world.place.address, str(out)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return pa.ipc.open_file(out.read_bytes()).read_all()


@pytest.mark.parametrize("engine", ALL)
def test_updates_and_retractions_add_up_to_the_same_rows(engine: str, world: World) -> None:
    start(world, "structured")
    world.publication().publish()

    assert sums(read_by(engine, world)) == world.expected()

    compact_shard(world.stores, "shard", settings(), full=True)
    world.publication().publish()
    assert sums(read_by(engine, world)) == world.expected()


@pytest.mark.parametrize("engine", ["duckdb", "pyiceberg"])
def test_both_layouts_and_changed_columns(engine: str, world: World) -> None:
    start(world, "both")
    for change in (
        RenameColumn("text", "words"),
        WidenColumn("id", parse_type("int64")),
        DropColumn("amount"),
        AddColumn("late", parse_type("string")),
    ):
        relation = change_schema(Machine(world.stores), "shard", change).evolved.relation
    later = [(2**40, "new", date(2020, 1, 1), 7, 0.5, [1], True, "late", 21, 1)]
    append(world.stores, "shard", 20, 30, [table(relation, later)])
    world.publication().publish()

    assert sums(read_by(engine, world)) == world.expected()


def test_daft_refuses_files_with_columns_that_the_table_does_not_show(world: World) -> None:
    start(world, "both")
    world.publication().publish()

    with pytest.raises(subprocess.CalledProcessError) as caught:
        read_by("daft", world)

    assert "Failed to decode parquet column" in caught.value.stderr
