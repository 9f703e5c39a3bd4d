"""Tables whose data files Spark 2 has written: days before 1582 are by another calendar."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake
from pyiceberg.catalog.memory import InMemoryCatalog

from strata.adopt.delta import DeltaPeer
from strata.adopt.iceberg import IcebergPeer
from strata.errors import InvalidRequest
from tests.support.adopted import Mirror

OLD, NEW = date(1500, 1, 1), date(2024, 1, 1)
MARKS = {"org.apache.spark.version": "2.4.8"}


def table(day: date, number: int = 1) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "day": pa.array([day], pa.date32())})


def spark_file(path: Path, day: date, number: int = 1, marks: Any = MARKS) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(day, number).replace_schema_metadata(marks), path)
    return str(path)


def shard() -> Mirror:
    mirror = Mirror()
    mirror.create(("id int64", "day date"))
    return mirror


def delta(root: Path, feed: bool) -> None:
    """Make a Delta table of files that Spark 2 has written, without old days."""
    spark_file(root / "one.parquet", NEW)
    convert_to_deltalake(root)
    found = DeltaTable(root)
    if feed:
        found.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})


def appended(root: Path, day: date, number: int, marks: Any) -> None:
    """Append a file as Spark would have written it, below a folder whose name the log escapes."""
    path = Path(spark_file(root / "a b" / f"{number}.parquet", day, number, marks))
    version = DeltaTable(root).version() + 1
    facts = {"path": f"a%20b/{number}.parquet", "partitionValues": {}, "modificationTime": 1}
    add = {"add": facts | {"size": path.stat().st_size, "dataChange": True}}
    (root / "_delta_log" / f"{version:020}.json").write_text(json.dumps(add))


@pytest.mark.parametrize("feed", [False, True])
def test_old_days_of_delta_are_refused(tmp_path: Path, feed: bool) -> None:
    mirror = shard()
    delta(tmp_path / "t", feed)
    mirror.adopt(DeltaPeer.open(str(tmp_path / "t")))
    appended(tmp_path / "t", OLD, 2, MARKS)

    for how in ({}, {"all_anew": True}):
        with pytest.raises(InvalidRequest, match="old calendar") as refused:
            mirror.adopt(DeltaPeer.open(str(tmp_path / "t")), **how)
        assert "column='day' value='1500-01-01'" in str(refused.value)
        assert ".parquet" in str(refused.value)
    assert sum(mirror.read().values()) == 1


@pytest.mark.parametrize("feed", [False, True])
def test_the_same_days_of_a_newer_spark_are_taken_in(tmp_path: Path, feed: bool) -> None:
    mirror = shard()
    delta(tmp_path / "t", feed)
    mirror.adopt(DeltaPeer.open(str(tmp_path / "t")))
    appended(tmp_path / "t", OLD, 2, {"org.apache.spark.version": "3.5.0"})

    done = mirror.adopt(DeltaPeer.open(str(tmp_path / "t")))

    assert done.how == ("feed" if feed else "files")
    assert mirror.read()[("day", OLD), ("id", 2)] == 1


def iceberg(root: Path) -> tuple[Any, Callable[[], IcebergPeer]]:
    catalog = InMemoryCatalog("c", warehouse=str(root / "warehouse"))
    catalog.create_namespace("n")
    found = catalog.create_table("n.t", schema=table(NEW).schema)

    def peer() -> IcebergPeer:
        return IcebergPeer.open(catalog.load_table("n.t").metadata_location)

    return found, peer


def test_old_days_of_iceberg_are_refused(tmp_path: Path) -> None:
    """Files of Spark 2 become part of a table where it was migrated."""
    found, peer = iceberg(tmp_path)
    mirror = shard()
    found.append(table(OLD, 1))
    mirror.adopt(peer())
    found.add_files([spark_file(tmp_path / "two.parquet", OLD, 2)])

    for how in ({}, {"all_anew": True}):
        with pytest.raises(InvalidRequest, match="old calendar") as refused:
            mirror.adopt(peer(), **how)
        assert "two.parquet" in str(refused.value)
    assert mirror.read() == {(("day", OLD), ("id", 1)): 1}
