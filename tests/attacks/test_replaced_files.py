"""Landed files replaced by others of equal size and time: every replacement is seen.

The ledger believed size and time of modification, which whoever lands a file sets as they like. The
new rows were left out and nobody was told, or stood beside the hash of rows that were never read.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import InvalidRequest, Unavailable
from strata.ingest import ledger, run
from strata.ingest.engine import ingest_steps
from strata.ingest.land.files import files_at, fingerprint, fingerprints
from strata.ingest.plan import steps_of
from strata.ingest.task import IngestReport
from strata.model.runner import Runner, serial
from strata.model.settings import IngestSettings
from tests.unit.ingest.test_engine import DAY, World

NAME = "in/1970-01-01/a.csv"
BEFORE, AFTER = "id,name\n1,x\n", "id,name\n2,y\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.put(NAME, BEFORE)
    return world


def ingested(world: World, runner: Runner = serial) -> IngestReport:
    steps = steps_of(0, DAY, "P1D")
    [report] = ingest_steps(world.stores, world.settings, "s", steps, runner=runner)
    return report


def names(world: World) -> list[str]:
    return sorted(row[1] for row in world.rows())


def overwritten(file: Path, text: str) -> None:
    file.write_text(text)


def renamed_over(file: Path, text: str) -> None:
    other = file.with_name("_other")
    other.write_text(text)
    other.rename(file)


def made_anew(file: Path, text: str) -> None:
    file.unlink()
    file.write_text(text)


def in_secret(how: Callable[[Path, str], None], file: Path, text: str = AFTER) -> None:
    """Replace a file; its size and its times are those of before."""
    seen = file.stat()
    how(file, text)
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    now = file.stat()
    assert (now.st_size, now.st_mtime_ns) == (seen.st_size, seen.st_mtime_ns)


WAYS = pytest.mark.parametrize("how", [overwritten, renamed_over, made_anew])


@WAYS
def test_a_file_replaced_between_two_ingests_is_reported(
    world: World, how: Callable[[Path, str], None]
) -> None:
    ingested(world)

    in_secret(how, world.root / NAME)

    assert ingested(world).changed == (NAME,)
    assert world.ingest(str(world.root / NAME))["changed"] == [NAME]
    assert names(world) == ["x"]
    assert world.ingest(str(world.root / NAME), again=True)["files"] == 1
    assert names(world) == ["x", "y"]


@WAYS
def test_a_file_replaced_between_listing_and_reading_commits_nothing(
    world: World, how: Callable[[Path, str], None]
) -> None:
    def late(function: Any, items: Sequence[Any]) -> Iterator[Any]:
        in_secret(how, world.root / NAME)
        yield from map(function, items)

    with pytest.raises(Unavailable, match="changed while it was read"):
        ingested(world, late)
    assert names(world) == []
    ingested(world)
    assert names(world) == ["y"]


def test_what_is_hashed_is_what_was_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows were of the first file, the hash of the second: its rows would never have come."""

    def slow(file: Any) -> str:
        in_secret(overwritten, world.root / NAME)
        return fingerprint(file)

    monkeypatch.setattr(run, "fingerprint", slow)
    with pytest.raises(Unavailable, match="changed while it was read"):
        ingested(world)
    monkeypatch.undo()
    ingested(world)
    assert names(world) == ["y"]


def test_a_large_file_is_not_of_two(tmp_path: Path) -> None:
    """Pieces of one file are read by many tasks, and one of them has the hash of the whole."""
    world = World(tmp_path)
    world.settings = replace(world.settings, ingest=IngestSettings(task_bytes=100))
    rows = "".join(f"{n:03},x\n" for n in range(100))
    file = Path(world.put(NAME, f"id,name\n{rows}"))

    def slow(function: Any, items: Sequence[Any]) -> Iterator[Any]:
        for number, item in enumerate(items):
            if number == 3:
                in_secret(renamed_over, file, f"id,name\n{rows.replace('x', 'y')}")
            yield function(item)

    with pytest.raises(Unavailable, match="changed while it was read"):
        ingested(world, slow)
    assert names(world) == []
    ingested(world)
    assert set(names(world)) == {"y"}


def test_a_file_that_was_only_touched_is_read_once_more_and_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A landing folder that moves to another disk is not hashed at every ingest from then on."""
    ingested(world)
    hashed: list[str] = []

    def counted(files: Sequence[Any], runner: Runner = serial) -> list[str]:
        hashed.extend(file.name for file in files)
        return fingerprints(files, runner)

    monkeypatch.setattr(ledger, "fingerprints", counted)
    file = world.root / NAME
    shutil.copystat(file, file)  # another ctime
    ingested(world)
    ingested(world)
    assert hashed == [NAME, NAME], "nothing was committed that could say so"
    world.put("in/1970-01-01/another.csv", "id,name\n30,another\n")
    ingested(world)
    assert hashed == [NAME, NAME, NAME]

    report = ingested(world)

    assert hashed == [NAME, NAME, NAME]
    assert (report.counts.taken_before, report.changed) == (2, ())
    assert names(world) == ["another", "x"]
    again = ledger.Ledger(world.stores.blob, world.state)
    assert again.rows["name"].to_pylist() == ["in/1970-01-01/a.csv", "in/1970-01-01/another.csv"]
    assert len(set(again.rows["token"].to_pylist())) == 2, "its token is still the first one"


@pytest.mark.parametrize("envelope", ["append", "upsert"])
@pytest.mark.parametrize("task_bytes", [1 << 20, 1])
def test_half_of_a_file_that_is_still_written_is_worth_another_try(
    tmp_path: Path, envelope: str, task_bytes: int
) -> None:
    """It was no readable Parquet file, for good: Airflow does not try such a task again."""
    columns = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
    source = {"format": "parquet", "envelope": envelope, "paths": ["in/"]}
    world = World(tmp_path, columns=columns, key=["id"], source=source)
    world.settings = replace(world.settings, ingest=IngestSettings(task_bytes=task_bytes))
    file = tmp_path / "in/1970-01-01.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table({"id": [1], "name": ["x"]}), file)
    whole = file.read_bytes()

    def late(function: Any, items: Sequence[Any]) -> Iterator[Any]:
        file.write_bytes(whole[: len(whole) // 2])
        yield from map(function, items)

    with pytest.raises(Unavailable, match="changed while it was read") as refused:
        ingested(world, late)
    assert refused.value.details["file"] == "in/1970-01-01.parquet"
    with pytest.raises(InvalidRequest, match="not a readable Parquet file"):
        ingested(world)
    file.write_bytes(whole)
    ingested(world)
    assert names(world) == ["x"]


@pytest.mark.parametrize("moved", [False, True])
def test_a_file_that_goes_while_it_is_opened_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """Somebody had put a link or a pipe in its place, it said."""
    found = files_at(str(world.root), [NAME])
    real = os.open

    def slow(path: Any, *how: Any) -> int:
        number = real(path, *how)
        if moved:
            (world.root / NAME).rename(world.root / "done.csv")
        else:
            (world.root / NAME).unlink()
        return number

    monkeypatch.setattr(os, "open", slow)
    with pytest.raises(Unavailable, match="the source file is gone"):
        fingerprint(found[0])
