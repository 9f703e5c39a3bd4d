"""Tables of Iceberg: snapshots, catalogs, and columns that change their names and numbers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from strata.adopt.iceberg import IcebergPeer
from strata.errors import InvalidRequest, Unavailable
from tests.support.adopted import IcebergWorld, Mirror, made, rows_of
from tests.support.damaged_pages import write_damaged
from tests.support.deleting_files import EQUALITY, delete_positions


@pytest.fixture
def world(tmp_path: Path) -> IcebergWorld:
    return IcebergWorld(tmp_path)


@pytest.fixture
def mirror() -> Mirror:
    made_one = Mirror()
    made_one.create()
    return made_one


def test_only_changed_files_are_read(world: IcebergWorld, mirror: Mirror) -> None:
    first = mirror.adopt(world.peer())
    world.append([(4, "b")], 0)
    second = mirror.adopt(world.peer())
    world.delete([], 1)
    third = mirror.adopt(world.peer())

    assert [(d.how, d.files_added, d.files_removed) for d in (first, second, third)] == [
        ("whole", 0, 0),
        ("files", 1, 0),
        ("files", 1, 1),
    ]
    assert third.report is not None
    assert third.report.updates == 1
    assert mirror.read() == world.rows()


def test_a_file_whose_rows_another_file_deletes_is_read_again(
    world: IcebergWorld, mirror: Mirror
) -> None:
    world.append([(n, "x") for n in range(10, 20)], 0)
    mirror.adopt(world.peer())
    for which, row in ((0, 0), (1, 0), (0, 1)):
        before = world.rows()
        delete_positions(world.table, which, [row])
        assert world.rows() != before
        done = mirror.adopt(world.peer())
        assert done.files_added == done.files_removed > 0
        assert done.report is not None
        assert done.report.updates == sum((before - world.rows()).values())
        assert mirror.read() == world.rows()


def test_rows_that_are_deleted_by_their_values_are_refused(
    world: IcebergWorld, mirror: Mirror
) -> None:
    mirror.adopt(world.peer())
    held = mirror.read()
    delete_positions(world.table, 0, [1], EQUALITY)

    for anew in (False, True):
        with pytest.raises(InvalidRequest, match="cannot read this snapshot") as refused:
            mirror.adopt(world.peer(), all_anew=anew)
        assert "equality" in str(refused.value)
    assert mirror.read() == held


def test_a_snapshot_can_be_named(world: IcebergWorld, mirror: Mirror) -> None:
    before, first = world.rows(), world.table.current_snapshot()
    assert first is not None
    world.append([(4, "b")], 0)

    done = mirror.adopt(world.peer(), wanted=first.snapshot_id)

    assert done.version == str(first.snapshot_id)
    assert mirror.read() == before
    with pytest.raises(InvalidRequest, match="does not know this snapshot"):
        mirror.adopt(world.peer(), wanted=12345)


def test_a_table_without_a_snapshot_is_empty(tmp_path: Path, mirror: Mirror) -> None:
    catalog = SqlCatalog("strata", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.rows", schema=made([], ()).schema)
    peer = IcebergPeer.open("shop.rows", f"sqlite:///{tmp_path}/c.db")

    assert mirror.adopt(peer).version == "none"
    assert mirror.adopt(peer).already_adopted
    table.append(made([(1, "a"), (1, "a")], ()))
    assert mirror.adopt(peer).before == "0"
    assert sum(mirror.read().values()) == 2


def test_an_expired_snapshot_is_refused_until_the_shard_begins_anew(
    world: IcebergWorld, mirror: Mirror
) -> None:
    first = world.table.current_snapshot()
    assert first is not None
    mirror.adopt(world.peer())
    world.append([(4, "b")], 0)
    world.table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()

    with pytest.raises(InvalidRequest, match="does not know this snapshot") as refused:
        mirror.adopt(world.peer())
    assert "--replace" in str(refused.value)
    mirror.adopt(world.peer(), all_anew=True)
    assert mirror.read() == world.rows()


def test_older_metadata_than_the_shard_has_seen_are_refused(
    world: IcebergWorld, mirror: Mirror
) -> None:
    old = world.peer()
    world.append([(4, "b")], 0)
    mirror.adopt(world.peer())
    held = mirror.read()

    with pytest.raises(InvalidRequest, match="or not yet"):
        mirror.adopt(old)
    assert mirror.read() == held


def test_columns_are_followed_by_their_numbers(world: IcebergWorld, mirror: Mirror) -> None:
    """Renamed in both after the snapshot that the shard holds: old rows have the old name."""
    mirror.adopt(world.peer())
    with world.table.update_schema() as change:
        change.rename_column("s", "word")
    world.table.append(pa.table({"id": [7], "word": ["w"]}))
    with pytest.raises(InvalidRequest, match="does not declare"):
        mirror.adopt(world.peer())
    mirror.rename("s", "word")
    world.delete([], 1)

    assert mirror.adopt(world.peer()).files_removed == 1
    assert mirror.read() == world.rows()
    with world.table.update_schema() as change:  # and this time no snapshot has the new name
        change.rename_column("word", "s")
    mirror.rename("word", "s")
    world.append([(8, "x")], 0)
    mirror.adopt(world.peer())
    with world.table.update_schema() as change:
        change.rename_column("s", "z")
    mirror.rename("s", "z")
    world.delete([], 7)
    mirror.adopt(world.peer())
    assert mirror.read() == world.rows()


def test_a_column_dropped_and_made_again_is_another(world: IcebergWorld, mirror: Mirror) -> None:
    mirror.adopt(world.peer())
    with world.table.update_schema() as change:
        change.delete_column("s")
    with world.table.update_schema() as change:
        change.add_column("s", StringType())
    world.append([(4, "b")], 0)

    with pytest.raises(InvalidRequest, match="other values of this column") as refused:
        mirror.adopt(world.peer())
    assert "another one of this name" in str(refused.value)
    mirror.adopt(world.peer(), all_anew=True)
    assert mirror.read() == world.rows()


def numbers(folder: Path) -> Table:
    """Return a table with a column of small integers, one of them not so small."""
    catalog = SqlCatalog("strata", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("shop")
    first = pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([7, 70_000], pa.int32())})
    table = catalog.create_table("shop.rows", schema=first.schema)
    table.append(first)
    return table


def test_rows_that_were_rejected_are_not_retracted_as_others(tmp_path: Path) -> None:
    """Under a wider type the retraction of a rejected row would be stored, and count -1."""
    table, mirror = numbers(tmp_path), Mirror()
    mirror.create(("id int64", "n int16"), max_rejected=1.0)
    done = mirror.adopt(IcebergPeer.open(table.metadata_location))
    assert done.report is not None
    assert done.report.counts.rejected == 1
    mirror.add("m", "int64")
    with table.update_schema() as change:
        change.add_column("m", LongType())
    table.append(pa.table({"id": [3], "n": pa.array([9], pa.int32()), "m": [1]}))
    mirror.adopt(IcebergPeer.open(table.metadata_location))  # it lets no rejected row in
    assert sum(mirror.read().values()) == 2
    mirror.widen("n", "int32")
    table.delete("id = 2")

    with pytest.raises(InvalidRequest, match="rows were rejected before") as refused:
        mirror.adopt(IcebergPeer.open(table.metadata_location))
    assert refused.value.details["column"] == "n"
    mirror.adopt(IcebergPeer.open(table.metadata_location), all_anew=True)
    assert mirror.read() == rows_of(table.scan().to_arrow())
    table.append(pa.table({"id": [4], "n": pa.array([9], pa.int32()), "m": [1]}))
    mirror.adopt(IcebergPeer.open(table.metadata_location))
    assert mirror.read() == rows_of(table.scan().to_arrow())


def test_a_wider_type_of_both_is_followed(tmp_path: Path) -> None:
    table, mirror = numbers(tmp_path), Mirror()
    mirror.create(("id int64", "n int32"))
    mirror.adopt(IcebergPeer.open(table.metadata_location))
    with table.update_schema() as change:
        change.update_column("n", LongType())
    mirror.widen("n", "int64")
    table.append(pa.table({"id": [3], "n": [2**40]}))
    table.delete("id = 1")

    mirror.adopt(IcebergPeer.open(table.metadata_location))
    assert mirror.read() == rows_of(table.scan().to_arrow())


def test_texts_that_are_read_as_another_type_are_refused(tmp_path: Path) -> None:
    """A text of a number is rounded to a float32 otherwise than to a float64."""
    world, mirror = IcebergWorld(tmp_path), Mirror()
    mirror.create(("id int64", "s float32"), max_rejected=1.0)
    world.overwrite([(1, "0.1")], 1)
    mirror.adopt(world.peer())
    mirror.widen("s", "float64")
    world.append([(4, None)], 0)

    with pytest.raises(InvalidRequest, match="other values of this column") as refused:
        mirror.adopt(world.peer())
    assert "texts" in str(refused.value)


def test_a_new_column_with_a_default_in_the_shard_is_refused(
    world: IcebergWorld, mirror: Mirror
) -> None:
    mirror.adopt(world.peer())
    with world.table.update_schema() as change:
        change.add_column("n", LongType())
    mirror.add("n", "int64", 5)
    world.append([(4, "b")], 0)

    with pytest.raises(InvalidRequest, match="other values of this column") as refused:
        mirror.adopt(world.peer())
    assert "has a default" in str(refused.value)


def test_a_column_that_the_table_had_before_the_shard_is_refused(
    world: IcebergWorld, mirror: Mirror
) -> None:
    """The shard drops a column and gets it again: its rows are null there, the table's are not."""
    mirror.adopt(world.peer())
    mirror.drop("s")
    mirror.add("s", "string")
    world.append([(4, "b")], 0)

    with pytest.raises(InvalidRequest, match="other values of this column") as refused:
        mirror.adopt(world.peer())
    assert "before the shard did" in str(refused.value)


def test_a_column_that_only_the_shard_fills_is_refused_when_the_table_gets_it(
    world: IcebergWorld, mirror: Mirror
) -> None:
    mirror.add("n", "int64", 5)
    mirror.adopt(world.peer())
    world.append([(4, "b")], 0)
    mirror.adopt(world.peer())
    assert {dict(row)["n"] for row in mirror.read()} == {5}
    with world.table.update_schema() as change:
        change.add_column("n", LongType())
    world.append([(5, "b")], 0)

    with pytest.raises(InvalidRequest, match="other values of this column") as refused:
        mirror.adopt(world.peer())
    assert "the table has it now" in str(refused.value)


def test_there_has_to_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="PyIceberg cannot read"):
        IcebergPeer.open(str(tmp_path))


def test_a_null_list_of_records_stays_null(tmp_path: Path) -> None:
    """PyIceberg makes it empty (apache/iceberg-python#3833)."""
    one = pa.struct([pa.field("a", pa.int64())])
    kinds = {
        "tags": pa.list_(one),
        "by_name": pa.map_(pa.string(), one),
        "deep": pa.list_(pa.list_(one)),
        "inside": pa.struct([pa.field("tags", pa.list_(one))]),
        "plain": pa.list_(pa.int64()),
    }
    rows: list[dict[str, Any]] = [
        {"id": 1, "tags": None, "by_name": None, "deep": None, "inside": None, "plain": None},
        {"id": 2, "tags": [], "by_name": [], "deep": [], "inside": {"tags": None}, "plain": []},
        {
            "id": 3,
            "tags": [None],
            "by_name": [("k", None)],
            "deep": [None, [], [None]],
            "inside": {"tags": None},
            "plain": [None],
        },
        {
            "id": 4,
            "tags": [{"a": 1}],
            "by_name": [("k", {"a": None})],
            "deep": [[{"a": 2}]],
            "inside": {"tags": [{"a": 3}]},
            "plain": [4],
        },
    ]
    table = pa.Table.from_pylist(rows, pa.schema({"id": pa.int64(), **kinds}))
    catalog = InMemoryCatalog("lake", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("shop")
    made_one = catalog.create_table("shop.nested", schema=table.schema)
    pq.write_table(table, tmp_path / "spark.parquet")
    made_one.add_files([f"file://{tmp_path}/spark.parquet"])
    delete_positions(made_one, 0, [1])  # the mask of a filtered batch

    peer = IcebergPeer.open(made_one.metadata_location)
    found = pa.Table.from_batches(peer.whole(peer.version(None)))
    assert found.to_pylist() == [rows[0], *rows[2:]]


def test_a_page_that_changed_on_its_way_is_refused(tmp_path: Path) -> None:
    table = pa.table({"id": [1_000, 2_000, 3_000]})
    write_damaged(tmp_path / "a.parquet", table, "id", 1)
    catalog = InMemoryCatalog("lake", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("shop")
    made_one = catalog.create_table("shop.sent", schema=table.schema)
    made_one.add_files([f"file://{tmp_path}/a.parquet"])
    peer = IcebergPeer.open(made_one.metadata_location)

    with pytest.raises(Unavailable, match="failed to read this table") as error:
        list(peer.whole(peer.version(None)))

    assert "checksum" in error.value.details["reason"]
