"""Tables of Delta: which way changes are found, and what is refused with which cure."""

import json
import shutil
import warnings
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake

from strata.adopt.delta import DeltaPeer
from strata.adopt.delta_log import UNKNOWN
from strata.adopt.in_place import InPlace
from strata.errors import InvalidRequest, Unavailable
from tests.support.adopted import DeltaWorld, Mirror, hashed, rows_of
from tests.support.damaged_pages import write_damaged
from tests.support.marked import hide_rows, put_beside


@pytest.fixture
def mirror() -> Mirror:
    made_one = Mirror()
    made_one.create()
    return made_one


def world(folder: Path, *, feed: bool = True, parted: bool = False) -> DeltaWorld:
    folder.mkdir(exist_ok=True)
    return DeltaWorld(folder, feed=feed, parted=parted)


def test_a_version_can_be_named(tmp_path: Path, mirror: Mirror) -> None:
    table = world(tmp_path)
    before = table.rows()
    table.append([(4, "b")], 0)

    first = mirror.adopt(table.peer(), wanted=0)
    assert (first.version, first.before, first.how) == ("0", None, "whole")
    assert mirror.read() == before
    second = mirror.adopt(table.peer(), wanted=1)
    assert (second.version, second.before, second.how) == ("1", "0", "feed")
    assert mirror.read() == table.rows()


def test_without_a_feed_only_changed_files_are_read(tmp_path: Path, mirror: Mirror) -> None:
    table = world(tmp_path, feed=False)
    mirror.adopt(table.peer())
    table.append([(4, "b")], 0)
    table.append([(5, "b")], 0)
    appended = mirror.adopt(table.peer())
    table.delete([], 2)
    deleted = mirror.adopt(table.peer())
    table.optimize([], 0)
    rewritten = mirror.adopt(table.peer())

    assert [(d.how, d.files_added, d.files_removed) for d in (appended, deleted, rewritten)] == [
        ("files", 2, 0),
        ("files", 1, 1),
        ("files", 1, 3),
    ]
    assert rewritten.report is not None
    assert rewritten.report.updates == 0  # rows that moved to another file cancel
    assert mirror.read() == table.rows()


def test_a_feed_that_was_off_in_between_is_not_read(tmp_path: Path, mirror: Mirror) -> None:
    table = world(tmp_path)
    mirror.adopt(table.peer())
    for switched in (0, 1):
        table.switch([], switched)
        table.update([], 1)

    assert mirror.adopt(table.peer()).how == "files"
    assert mirror.read() == table.rows()


def test_a_feed_without_a_column_of_old_rows_is_not_read(tmp_path: Path, mirror: Mirror) -> None:
    """The feed has the columns of its last version, and retractions need those of the first."""
    table = world(tmp_path)
    mirror.add("c0", "int64")
    table.widen([(3, "c")], 0)
    mirror.adopt(table.peer())
    table.table.restore(0)
    mirror.drop("c0")

    assert mirror.adopt(table.peer()).how == "files"
    assert mirror.read() == table.rows()


def test_a_feed_that_contradicts_the_log_is_left_for_the_files(
    tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world(tmp_path)
    mirror.adopt(table.peer())
    table.append([(4, "b"), (5, "b")], 0)
    whole = DeltaTable.load_cdf

    def short(self: DeltaTable, **how: int) -> pa.RecordBatchReader:
        rows = pa.table(whole(self, **how).read_all())
        return rows.slice(1).to_reader()

    monkeypatch.setattr(DeltaTable, "load_cdf", short)

    done = mirror.adopt(table.peer())
    assert (done.how, done.files_added) == ("files", 1)
    assert "1 rows more or fewer, and the log 2" in done.feed_failed
    assert mirror.read() == table.rows()


def test_a_feed_that_the_library_cannot_read_is_left_for_the_files(
    tmp_path: Path, mirror: Mirror
) -> None:
    """Its reader does not find files of partitions whose values are not plain words."""
    at = str(tmp_path / "odd")
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(
        at, pa.table({"id": [1, 2], "s": ["a b", "c/d"]}), partition_by=["s"], configuration=feed
    )
    mirror.adopt(DeltaPeer.open(at))
    DeltaTable(at).update(updates={"id": "id + 10"}, predicate="id = 1")

    done = mirror.adopt(DeltaPeer.open(at))

    assert done.how == "files"
    assert "Failed to fetch" in done.feed_failed
    assert {dict(row)["id"] for row in mirror.read()} == {2, 11}


def test_files_that_are_gone_are_named_with_the_way_out(tmp_path: Path, mirror: Mirror) -> None:
    table = world(tmp_path, feed=False)
    mirror.adopt(table.peer())
    held = mirror.read()
    table.update([], 1)
    table.table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    with pytest.raises(InvalidRequest) as refused:
        mirror.adopt(table.peer())
    assert "--replace" in str(refused.value)
    assert mirror.read() == held
    mirror.adopt(table.peer(), all_anew=True)
    assert mirror.read() == table.rows()


def test_what_a_log_does_not_have_any_more_is_named(tmp_path: Path, mirror: Mirror) -> None:
    table = world(tmp_path, feed=False)
    mirror.adopt(table.peer())
    table.update([], 1)
    table.checkpoint([], 0)
    (tmp_path / "delta/_delta_log/00000000000000000000.json").unlink()

    with pytest.raises(InvalidRequest, match="cannot read") as refused:
        mirror.adopt(table.peer())
    assert "--replace" in str(refused.value)


def test_rows_that_marks_delete_leave_without_the_others(tmp_path: Path, mirror: Mirror) -> None:
    """The feed is on, and does not say it: it is not asked."""
    table = world(tmp_path)
    table.append([(n, "x") for n in range(10, 30)], 0)
    table.allow_marks()
    mirror.adopt(table.peer())
    for rows in ([2, 3, 19], [3, 5]):
        hide_rows(table.at, 0, rows)
        hide_rows(table.at, 1, rows)
        done = mirror.adopt(table.peer())
        assert (done.how, done.files_added) == ("files", 0)
        assert done.report is not None
        assert done.report.updates == len({*rows} - {3} if len(rows) == 2 else rows)
        assert mirror.read() == table.rows()
    assert sum(mirror.read().values()) == 18
    table.table.restore(2)
    assert mirror.adopt(table.peer()).how == "files"
    assert sum(mirror.read().values()) == 22


@pytest.mark.parametrize("feed", [True, False])
def test_marks_that_the_protocol_does_not_mention_count(
    tmp_path: Path, mirror: Mirror, feed: bool
) -> None:
    table = world(tmp_path, feed=feed)
    mirror.adopt(table.peer())
    whole = sum(mirror.read().values())
    hide_rows(table.at, 0, [0])

    assert mirror.adopt(table.peer()).how == "files"
    assert sum(mirror.read().values()) == whole - 1
    assert mirror.read() == table.rows()


def test_a_table_whose_columns_have_other_names_in_files_is_taken_in_whole_only(
    tmp_path: Path, mirror: Mirror
) -> None:
    table = world(tmp_path)
    mirror.adopt(table.peer())
    log = tmp_path / "delta/_delta_log"
    told = next(
        json.loads(line)
        for line in (log / "00000000000000000000.json").read_text().splitlines()
        if "metaData" in line
    )
    told["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
    fields = json.loads(told["metaData"]["schemaString"])
    for number, field in enumerate(fields["fields"], 1):
        field["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": field["name"],
        }
    told["metaData"]["schemaString"] = json.dumps(fields)
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    (log / "00000000000000000001.json").write_text(f"{json.dumps(protocol)}\n{json.dumps(told)}\n")

    with pytest.raises(InvalidRequest, match="do not show what changed") as refused:
        mirror.adopt(table.peer())
    assert "columnMapping" in str(refused.value)
    assert "--replace" in str(refused.value)
    mirror.adopt(table.peer(), all_anew=True)
    assert mirror.read() == table.rows()


def test_there_has_to_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="deltalake cannot read"):
        DeltaPeer.open(str(tmp_path))


def test_a_table_made_anew_at_the_same_place_is_another(tmp_path: Path, mirror: Mirror) -> None:
    table = world(tmp_path)
    mirror.adopt(table.peer())
    before = table.peer()
    again = tmp_path / "again"
    again.mkdir()
    other = DeltaWorld(again, feed=False, parted=False)
    (tmp_path / "delta").rename(tmp_path / "old")
    (again / "delta").rename(tmp_path / "delta")

    with pytest.raises(InvalidRequest, match="taken the place"):
        mirror.adopt(before)
    with pytest.raises(InvalidRequest, match="holds another table"):
        mirror.adopt(DeltaPeer.open(table.at))
    assert other.extra == []


def test_a_column_that_the_feed_uses_makes_it_useless(tmp_path: Path) -> None:
    mirror = Mirror()
    mirror.create(("id int64", "_change_type string"))
    at = str(tmp_path / "odd")
    rows = pa.table({"id": [1], "_change_type": ["insert"]})
    write_deltalake(at, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mirror.adopt(DeltaPeer.open(at))
        write_deltalake(at, rows, mode="append")
        assert mirror.adopt(DeltaPeer.open(at)).how == "files"
    assert sum(mirror.read().values()) == 2


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_of_spark_that_nanoseconds_cannot_hold_are_followed(
    zone: str | None, tmp_path: Path
) -> None:
    at = tmp_path / "spark"
    at.mkdir()
    times = pa.array(["9999-12-31 23:59:59.999999", "2020-01-01 00:00:00.000001"])
    made = {
        "id": pa.array([1, 2]),
        "at": times.cast(pa.timestamp("us")).cast(pa.timestamp("us", zone)),
    }
    pq.write_table(pa.table(made), at / "a.parquet", use_deprecated_int96_timestamps=True)
    convert_to_deltalake(str(at))
    mirror, peer = Mirror(), DeltaPeer.open(str(at))
    mirror.create(["id int64", "at timestamp" if zone is None else "at timestamptz"])
    mirror.adopt(peer)
    DeltaTable(str(at)).delete("id = 2")

    assert mirror.adopt(peer).how == "files"
    assert mirror.read() == rows_of(pa.table(DeltaTable(str(at)).scan().read_all()))


@pytest.mark.parametrize("nested", [False, True])
def test_nanoseconds_beyond_the_times_of_delta_are_cut_off_as_its_readers_do(
    nested: bool, tmp_path: Path
) -> None:
    times = pa.array([1_700_000_000_123_456_789, -1], pa.timestamp("ns"))
    column = pa.StructArray.from_arrays([times], ["at"]) if nested else times
    pq.write_table(pa.table({"id": [1, 2], "a": column}), tmp_path / "a.parquet")
    convert_to_deltalake(str(tmp_path))
    peer = DeltaPeer.open(str(tmp_path))
    version = peer.version(None)

    found = pa.Table.from_batches(peer.whole(version))
    assert found.to_pylist() == pa.table(version.handle.scan().read_all()).to_pylist()


def test_nanoseconds_in_some_files_are_refused_with_a_cure_that_helps(tmp_path: Path) -> None:
    at = str(tmp_path)
    times = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))
    pq.write_table(pa.table({"id": [1], "a": times}), tmp_path / "a.parquet")
    convert_to_deltalake(at)
    later = pa.table({"id": [2], "a": times.cast(pa.timestamp("us"), safe=False)})
    write_deltalake(at, later, mode="append")
    peer = DeltaPeer.open(at)

    with pytest.raises(InvalidRequest, match="finer than Delta's microseconds") as refused:
        list(peer.whole(peer.version(None)))

    assert "overwrite" in str(refused.value)
    write_deltalake(at, DeltaTable(at).scan(), mode="overwrite")
    assert pa.Table.from_batches(peer.whole(peer.version(None))).num_rows == 2


def test_a_page_that_changed_on_its_way_is_refused(tmp_path: Path) -> None:
    write_damaged(tmp_path / "a.parquet", pa.table({"id": [1_000, 2_000, 3_000]}), "id", 1)
    convert_to_deltalake(str(tmp_path))
    peer = DeltaPeer.open(str(tmp_path))

    with pytest.raises(Unavailable, match="failed to read this table") as error:
        [list(file.batches()) for file in peer.files(peer.version(None))]

    assert "checksum" in error.value.details["reason"]


def test_the_first_adoption_refuses_such_a_page_as_well(tmp_path: Path) -> None:
    write_damaged(tmp_path / "a.parquet", pa.table({"id": [1_000, 2_000, 3_000]}), "id", 1)
    convert_to_deltalake(str(tmp_path))
    mirror = Mirror()
    mirror.create(["id int64"])

    with pytest.raises(Unavailable, match="failed to read this table") as error:
        mirror.adopt(DeltaPeer.open(str(tmp_path)))

    assert "checksum" in error.value.details["reason"]
    assert mirror.read() == {}


def test_partitions_below_zero_are_taken_in(tmp_path: Path) -> None:
    """The library writes -0.50 as `0.-50`, also where it shows data files; it can read only."""
    cents = pa.array([Decimal("0.50"), Decimal("1.05")], pa.decimal128(9, 2))
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "p": cents}), partition_by=["p"])
    log = tmp_path / "_delta_log/00000000000000000000.json"
    log.write_text(log.read_text().replace('"p":"0.50"', '"p":"-0.50"'))
    mirror, peer = Mirror(), DeltaPeer.open(str(tmp_path))
    mirror.create(["id int64", "p numeric(9,2)"])

    mirror.adopt(peer, in_place=InPlace(0.5))
    assert {dict(row)["p"] for row in mirror.read()} == {Decimal("-0.50"), Decimal("1.05")}
    DeltaTable(tmp_path).delete("id = 2")
    with pytest.raises(InvalidRequest, match="cannot read") as refused:
        mirror.adopt(peer)
    assert "--replace" in str(refused.value)


def test_marks_that_are_gone_are_named_with_the_way_out(tmp_path: Path, mirror: Mirror) -> None:
    """VACUUM removes them with the files that only earlier versions have."""
    table = world(tmp_path, feed=False)
    mirror.adopt(table.peer())
    hide_rows(table.at, 0, [0])
    log = tmp_path / "delta/_delta_log/00000000000000000001.json"
    inside = json.loads(log.read_text().splitlines()[-1])["add"]["deletionVector"]
    beside = put_beside(tmp_path / "gone.bin", [0])
    log.write_text(log.read_text().replace(json.dumps(inside), json.dumps(beside)))
    mirror.adopt(table.peer())
    assert mirror.read() == table.rows()
    (tmp_path / "gone.bin").unlink()
    table.append([(4, "b")], 0)

    with pytest.raises(InvalidRequest, match="cannot read") as refused:
        mirror.adopt(table.peer())
    assert "gone.bin" in str(refused.value)
    assert "--replace" in str(refused.value)


def require(at: Path, feature: str) -> None:
    """Have a table ask a feature of its readers."""
    log = at / "_delta_log"
    asked = {"readerFeatures": [feature], "writerFeatures": [feature]}
    line = json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **asked}})
    (log / f"{DeltaTable(at).version() + 1:020}.json").write_text(line)


def test_checkpoints_of_another_kind_do_not_hide_data_files(tmp_path: Path, mirror: Mirror) -> None:
    table = world(tmp_path, feed=False)
    require(tmp_path / "delta", "v2Checkpoint")
    mirror.adopt(table.peer())
    hide_rows(table.at, 0, [0])

    assert mirror.adopt(table.peer()).how == "files"
    assert mirror.read() == table.rows()


def test_features_that_the_library_does_not_read_are_named(tmp_path: Path, mirror: Mirror) -> None:
    table = world(tmp_path)
    require(tmp_path / "delta", "vacuumProtocolCheck")

    with pytest.raises(InvalidRequest, match="vacuumProtocolCheck") as refused:
        mirror.adopt(table.peer())
    assert "DROP FEATURE" in str(refused.value)


def test_a_log_that_begins_nowhere_is_no_passing_failure(tmp_path: Path) -> None:
    world(tmp_path)
    (tmp_path / "delta/_delta_log/_last_checkpoint").write_text('{"version": 9, "size": 1}')

    with pytest.raises(InvalidRequest, match="cannot read") as refused:
        DeltaPeer.open(str(tmp_path / "delta"))
    assert "_last_checkpoint" in refused.value.cure
    assert "--replace" not in str(refused.value)


def restored(folder: Path, mirror: Mirror, *, feed: bool, later: int) -> DeltaWorld:
    """Adopt version 1 of a table, then put version 0 back, and commit others than before."""
    table = world(folder, feed=feed)
    shutil.copytree(folder / "delta", folder / "copy")
    table.append([(4, "b")], 0)
    mirror.adopt(table.peer())
    shutil.rmtree(folder / "delta")
    (folder / "copy").rename(folder / "delta")
    for n in range(later):
        table.append([(5 + n, "z")], 0)
    return table


@pytest.mark.parametrize("later", [0, 1, 2])
@pytest.mark.parametrize("feed", [True, False])
def test_a_table_that_was_restored_from_a_copy_is_refused(
    tmp_path: Path, mirror: Mirror, feed: bool, later: int
) -> None:
    """The number of a version says nothing then: the shard kept rows that the table never had."""
    table = restored(tmp_path, mirror, feed=feed, later=later)
    held = mirror.read()

    for wanted in (None, min(1, later)):
        with pytest.raises(InvalidRequest) as refused:
            mirror.adopt(table.peer(), wanted=wanted)
        assert "--replace" in str(refused.value)
    assert mirror.read() == held
    mirror.adopt(table.peer(), all_anew=True)
    assert mirror.read() == table.rows()


def test_a_version_whose_commit_the_log_lost_is_known_by_its_number(
    tmp_path: Path, mirror: Mirror
) -> None:
    table = world(tmp_path, feed=False)
    table.append([(4, "b")], 0)
    mirror.adopt(table.peer())
    table.checkpoint([], 0)
    table.append([(5, "b")], 0)
    for number in (0, 1):
        (tmp_path / f"delta/_delta_log/{number:020}.json").unlink()

    assert mirror.adopt(table.peer()).how == "files"
    assert mirror.read() == table.rows()


def test_each_version_has_the_time_of_its_own_commit(tmp_path: Path) -> None:
    """The library gives that of the newest commit for each version, and skips silent commits."""
    table = world(tmp_path)
    for number in (1, 2):
        line = json.dumps({"commitInfo": {"timestamp": number, "operation": "X"}})
        (tmp_path / f"delta/_delta_log/{number:020}.json").write_text(line)
    (tmp_path / f"delta/_delta_log/{3:020}.json").write_text("")

    times = [table.peer().version(number).at_ms for number in (1, 2, 3)]
    assert times == [1, 2, UNKNOWN]


def test_a_record_that_has_no_mark_of_the_commit_is_read(tmp_path: Path) -> None:
    peer = world(tmp_path).peer()

    assert peer.recall("0").name == peer.version(0).name
    assert not peer.overtaken("0", peer.version(0))


def cloned(source: DeltaWorld, folder: Path, begin: str) -> DeltaWorld:
    """Return a table whose log names the data files of another one, as Spark's shallow clones."""
    log = folder / "delta/_delta_log"
    log.mkdir(parents=True)
    lines = []
    for file in sorted((Path(source.at) / "_delta_log").glob("*.json")):
        for entry in map(json.loads, file.read_text().splitlines()):
            if "metaData" in entry:
                entry["metaData"]["id"] = "0b5a7f1e-4a0f-4c1e-9d0e-3f1d8a2b7c66"
            if "add" in entry:
                entry["add"]["path"] = f"{begin}{source.at}/{entry['add']['path']}"
            lines.append(json.dumps(entry))
    (log / f"{0:020}.json").write_text("\n".join(lines))
    clone = DeltaWorld.__new__(DeltaWorld)
    clone.at, clone.extra, clone.how = str(folder / "delta"), [], {}
    return clone


@pytest.mark.parametrize("begin", ["file://", "file:", ""])
@pytest.mark.parametrize("in_place", [None, InPlace(0.5)])
def test_a_clone_that_names_files_of_another_table_is_followed(
    tmp_path: Path, mirror: Mirror, begin: str, in_place: InPlace | None
) -> None:
    """Its files were looked for below the clone, and said to be removed."""
    source = world(tmp_path / "a b", feed=False)
    clone = cloned(source, tmp_path / "c", begin)
    assert mirror.adopt(clone.peer(), in_place=in_place).how == "whole"
    assert mirror.read() == clone.rows() == source.rows()

    clone.append([(4, "b")], 0)
    hide_rows(clone.at, 0, [0])
    assert mirror.adopt(clone.peer(), in_place=in_place).how == "files"
    assert mirror.read() == clone.rows() != source.rows()
    mirror.adopt(clone.peer(), all_anew=True)
    assert mirror.read() == clone.rows()


def test_a_file_of_the_table_may_be_named_by_its_whole_path(tmp_path: Path, mirror: Mirror) -> None:
    source = world(tmp_path / "a", feed=False)
    clone = cloned(source, tmp_path / "c", "file://")
    for file in Path(source.at).glob("*.parquet"):
        shutil.copy(file, clone.at)
    log = Path(clone.at) / f"_delta_log/{0:020}.json"
    log.write_text(log.read_text().replace(source.at, clone.at))
    mirror.adopt(clone.peer())
    hide_rows(clone.at, 0, [1])

    assert mirror.adopt(clone.peer()).how == "files"
    assert mirror.read() == clone.rows()
    assert sum(mirror.read().values()) == 1


def test_files_of_another_store_are_left_to_the_library(tmp_path: Path) -> None:
    source = world(tmp_path / "a", feed=False)
    clone = cloned(source, tmp_path / "c", "s3://lake")
    peer = clone.peer()
    version = peer.version(None)

    assert not peer.files(version)
    with pytest.raises(InvalidRequest, match="files of another table") as refused:
        peer.changes(version, version)
    assert str(refused.value.details["file"]).startswith("s3://lake/")
    assert "deep clone" in (refused.value.cure or "")


@pytest.mark.parametrize("feed", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_a_column_that_comes_with_values_of_kept_files_is_refused(
    tmp_path: Path, nested: bool, feed: bool
) -> None:
    """The shard had null in their rows, the table what the files had all the time."""
    at = str(tmp_path)
    conf = {"delta.enableChangeDataFeed": "true"} if feed else {}
    inside = pa.array([{"x": 1, "y": 2}])
    column = inside if nested else pa.array([7])
    write_deltalake(at, pa.table({"id": [1], "a": column}), configuration=conf)
    log = tmp_path / "_delta_log/00000000000000000000.json"
    told = [json.loads(line) for line in log.read_text().splitlines()]
    (whole,) = [line for line in told if "metaData" in line]
    schema = json.loads(whole["metaData"]["schemaString"])
    if nested:
        schema["fields"][1]["type"]["fields"].pop()
    else:
        schema["fields"].pop()
    less = {"metaData": {**whole["metaData"], "schemaString": json.dumps(schema)}}
    for number, line in enumerate((less, whole), 1):
        (tmp_path / f"_delta_log/{number:020}.json").write_text(json.dumps(line))
    mirror, peer = Mirror(), DeltaPeer.open(at)
    mirror.create(["id int64", "a record<x:int64>"] if nested else ["id int64"])
    mirror.adopt(peer, wanted=1)
    if nested:
        mirror.widen("a", "record<x:int64,y:int64>")
    else:
        mirror.add("a", "int64")

    with pytest.raises(InvalidRequest, match="files of before have values") as refused:
        mirror.adopt(peer)
    assert refused.value.details["column"] == ("a.y" if nested else "a")
    mirror.adopt(peer, all_anew=True)
    assert mirror.read() == Counter([hashed({"id": 1, "a": {"x": 1, "y": 2} if nested else 7})])
