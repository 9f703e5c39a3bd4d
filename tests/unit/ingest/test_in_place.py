"""Parquet files of a source that stay where they are: each row once, whichever files can."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt, InvalidRequest
from strata.maintain.own import referred_files, take_in
from tests.unit.ingest.test_engine import World, source

ROWS = 5_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, **source(format="parquet", in_place=True))


def put(world: World, name: str, ids: Any, **columns: Any) -> str:
    path = world.root / "in" / name
    path.parent.mkdir(exist_ok=True)
    table = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{n % 9}" for n in ids]})
    for column, values in columns.items():
        table = table.append_column(column, pa.array(values))
    pq.write_table(table, path)
    return str(path)


def stored(ids: Any, at: int = 10) -> dict[Any, int]:
    return {(n, f"n{n % 9}", at): 1 for n in ids}


def test_sorted_files_stay_and_others_are_copied_once(world: World) -> None:
    files = [
        put(world, "a.parquet", range(ROWS)),
        put(world, "b.parquet", range(2 * ROWS, ROWS, -1)),
        put(world, "c.parquet", range(3 * ROWS, 4 * ROWS)),
    ]
    report = world.ingest(*files, lower=10, upper=20)

    assert (report["in_place"], report["files"], report["parts"]) == (2, 3, 3)
    ids = [*range(ROWS), *range(ROWS + 1, 2 * ROWS + 1), *range(3 * ROWS, 4 * ROWS)]
    assert world.rows() == stored(ids)
    assert world.ingest(*files, lower=10, upper=20)["already_committed"]
    places = [one.file for one in referred_files(world.stores.blob, "s")]
    assert sorted(places) == [f"file://{files[0]}", f"file://{files[2]}"]

    Path(files[0]).rename(files[0] + ".aside")
    with pytest.raises(Corrupt, match="changed or removed by its owner"):
        world.rows()
    Path(files[0] + ".aside").rename(files[0])
    assert len(take_in(world.stores, "s")) == 2
    for file in files:
        Path(file).unlink()
    assert world.rows() == stored(ids)


def test_rows_keep_times_of_their_own_and_names_of_the_source(tmp_path: Path) -> None:
    columns = [{"name": n, "type": k} for n, k in (("id", "int64"), ("t_", "int64"))]
    asked = source(format="parquet", in_place=True, names={"t": "t_"})
    time = {"from": "column", "column": "t_"}
    world = World(tmp_path, columns=columns, time=time, **asked)
    path = tmp_path / "a.parquet"
    ids, times = list(range(ROWS)), [n % 7 for n in range(ROWS)]
    pq.write_table(pa.table({"t": times, "id": ids}), path)

    report = world.ingest(str(path), lower=0, upper=20)

    assert report["in_place"] == 1
    assert world.rows() == {(n, n % 7, n % 7): 1 for n in ids}


def test_a_column_that_reads_otherwise_is_taken_along(tmp_path: Path) -> None:
    """Nanoseconds are stored like microseconds: only their values show that they are none."""
    types = {"id": "int64", "at": "timestamp", "more": "string"}
    columns = [{"name": name, "type": kind} for name, kind in types.items()]
    world = World(tmp_path, columns=columns, **source(format="parquet", in_place=True))
    path = tmp_path / "a.parquet"
    nanoseconds = pa.array([n * 1_000_000 for n in range(ROWS)], pa.timestamp("ns"))
    more = pa.array([str(n) * 9 for n in range(ROWS)])
    rows = pa.table({"id": range(ROWS), "at": nanoseconds, "more": more})
    pq.write_table(rows, path)

    report = world.ingest(str(path), lower=10, upper=20)

    assert report["in_place"] == 1
    moments = rows["at"].cast(pa.timestamp("us")).to_pylist()
    assert world.rows() == {(n, moments[n], str(n) * 9, 10): 1 for n in range(ROWS)}


@pytest.mark.parametrize("name", ["id", "name"])
def test_a_file_with_a_rejected_row_is_copied(name: str, world: World) -> None:
    path = put(world, "a.parquet", range(ROWS))
    table = pq.read_table(path)
    if name == "id":  # a null where none may be
        ids = pa.array([*range(ROWS - 1), None], pa.int64())
        table = table.set_column(0, "id", ids)
    else:
        words = pa.array([b"x"] * (ROWS - 1) + [b"\xff"])
        table = table.set_column(1, "name", words)
    pq.write_table(table, path)
    report = world.ingest(path, lower=10, upper=20)
    assert (report["in_place"], report["rejected"]) == (0, 1)
    assert sum(world.rows().values()) == ROWS - 1


def test_large_files_stay_whole(world: World) -> None:
    small = replace(world.settings.ingest, task_bytes=20_000)
    world.settings = replace(world.settings, ingest=small)
    report = world.ingest(put(world, "a.parquet", range(20 * ROWS)), lower=10, upper=20)
    assert (report["in_place"], report["parts"]) == (1, 1)
    assert sum(world.rows().values()) == 20 * ROWS


@pytest.mark.parametrize("other", [{"format": "csv"}, {"envelope": "diff"}])
def test_other_files_cannot_be_asked_to_stay(other: dict[str, str], tmp_path: Path) -> None:
    world = World(tmp_path, **source(**({"format": "parquet", "in_place": True} | other)))
    with pytest.raises(InvalidRequest, match="only Parquet files whose rows are appended"):
        world.ingest(world.put("a.csv", "id,name\n"), lower=10, upper=20)
