"""A retried row means what it meant in its file: it comes in with the same value, or stays."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from strata.errors import InvalidRequest
from strata.format.manifest import decode_manifest, part_refs
from strata.ingest.land.files import FileRange, SourceFile
from strata.ingest.quarantine import rejected
from strata.ingest.readers.kept import keep_row, read_kept
from strata.ingest.retry import retry_rejected
from strata.ingest.tables import Rows
from strata.maintain.schema import change_schema
from strata.model.types import parse_type
from strata.read.scan import read_updates
from strata.state.schema import AddColumn, DropColumn, RenameColumn, WidenColumn
from tests.unit.ingest import hostile
from tests.unit.ingest.changes.test_tasks import event, run, table_at, world_of
from tests.unit.ingest.changes.test_tasks import put as put_events
from tests.unit.ingest.test_engine import DAY, World
from tests.unit.ingest.test_hostile_rows import put
from tests.unit.ingest.test_source_names import put as put_rows
from tests.unit.ingest.test_tables import write


def world(root: Path, format: str, *columns: str, **source: Any) -> World:
    declared = [{"name": c.split()[0], "type": c.split(" ", 1)[1]} for c in ("id int16", *columns)]
    source = {"format": format, "max_rejected": 1.0, **source}
    return World(root, columns=declared, key=["id"], source=source)


def values(world: World) -> dict[Any, Any]:
    return {row[0]: row[1:-1] for row, n in world.rows().items() if n > 0}


def widen(world: World, column: str = "id", kind: str = "int64") -> None:
    change_schema(world.machine, "s", WidenColumn(column, parse_type(kind)))


def retry(world: World) -> tuple[int, int]:
    """Return how many rows were tried, and how many taken."""
    found = retry_rejected(world.stores, world.settings, "s")
    return sum(one.rows for one in found), sum(one.taken for one in found)


@pytest.mark.parametrize("bad", [b"a\xffb", b'"a\xff\nb"', b"\xed\xa0\x80"])
def test_bytes_that_are_no_text_stay_what_they_are(tmp_path: Path, bad: bytes) -> None:
    w = world(tmp_path, "csv", "v string")
    w.ingest(put(w, "a.csv", b"id,v\n1,a\n2," + bad + b"\n"), lower=0, upper=10)

    assert retry(w) == (1, 0)
    assert values(w) == {1: ("a",)}
    [found] = rejected(w.stores, "s")
    assert found.rows[0]["raw"] == b"2," + bad


def test_a_backslash_is_a_backslash(tmp_path: Path) -> None:
    w = world(tmp_path, "csv", "v bytes")
    w.ingest(put(w, "a.csv", b"id,v\n1,a\n70000,a\\xff\n"), lower=0, upper=10)
    widen(w)

    assert retry(w) == (1, 1)
    assert values(w) == {1: (b"a",), 70000: (b"a\\xff",)}


def test_a_row_of_too_many_fields_that_is_no_text_is_not_lost(tmp_path: Path) -> None:
    w = world(tmp_path, "csv", "v bytes")

    report = w.ingest(
        put(w, "a.csv", b"id,v\n1,e\n4,\xe9\n2,\xff,\xfe,3\n3,NA\n"), lower=0, upper=10
    )

    assert report["rejected"] == 2
    assert values(w) == {1: (b"e",), 3: (None,)}
    raws = [row["raw"] for row in next(rejected(w.stores, "s")).rows]
    assert raws == [b"4,\xe9", b"2,\xff,\xfe,3"]


def test_rows_that_all_have_the_wrong_shape_stay(tmp_path: Path) -> None:
    w = world(tmp_path, "csv", "v string")
    w.ingest(put(w, "a.csv", b"id,v\n1,a\n2,b,c\n3,d,e\n"), lower=0, upper=10)
    lines = world(tmp_path / "x", "jsonl", "v string") if (tmp_path / "x").mkdir() is None else w
    lines.ingest(put(lines, "a", b'{"id":1}\n{\n[\n'), lower=0, upper=10)

    assert (retry(w), retry(lines)) == ((2, 0), (2, 0))
    assert (retry(w), retry(lines)) == ((2, 0), (2, 0))


@pytest.mark.parametrize("end", [b"\r", b"\r\n", b"\n"])
def test_every_way_to_end_a_line_gives_the_row_its_own_text(tmp_path: Path, end: bytes) -> None:
    w = world(tmp_path, "csv", "v string")
    rows = [b"1,a", b'70000,"x\ny"', b'2,b"c', b"", b"70001,z", b"y," + b"q" * 200_000]
    w.ingest(put(w, "a.csv", b"id,v\n" + end.join(rows) + end), lower=0, upper=10)
    [found] = rejected(w.stores, "s")
    assert [row["raw"] for row in found.rows] == [rows[1], rows[4], rows[5]]
    widen(w)

    assert retry(w) == (3, 2)
    assert values(w) == {1: ("a",), 2: ('b"c',), 70000: ("x\ny",), 70001: ("z",)}


def test_a_mark_in_front_of_a_row_is_part_of_it(tmp_path: Path) -> None:
    w = world(tmp_path, "jsonl", "v string")
    w.ingest(put(w, "a", b'{"id":1}\n\xef\xbb\xbf{"id":2}\n'), lower=0, upper=10)

    assert retry(w) == (1, 0)
    assert set(values(w)) == {1}


def test_a_mark_in_front_of_a_row_of_csv_is_a_letter_of_its_first_field(tmp_path: Path) -> None:
    w = World(
        tmp_path,
        columns=[{"name": "v", "type": "string"}, {"name": "id", "type": "int16"}],
        key=["id"],
        source={"format": "csv", "max_rejected": 1.0},
    )
    w.ingest(put(w, "a", "v,id\n\ufeffx,1\n\ufeffy,70000\n".encode()), lower=0, upper=10)
    widen(w)

    assert retry(w) == (1, 1)
    assert {row[:2] for row in w.rows()} == {("\ufeffx", 1), ("\ufeffy", 70000)}


def test_numbers_of_an_array_keep_their_digits_and_are_no_texts(tmp_path: Path) -> None:
    w = world(tmp_path, "json", "v string", "j jsonb")
    number = "1.00000000000000000001"
    rows = f'[{{"id":1}},{{"id":70000,"j":[{number}]}},{{"id":3,"v":{number}}}]'
    w.ingest(put(w, "a", rows.encode()), lower=0, upper=10)
    widen(w)

    assert retry(w) == (2, 1)
    assert values(w) == {1: (None, None), 70000: (None, f"[{number}]")}


def table() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([1, 70000, 70001], pa.int64()),
            "v": pa.array([b"a", b"\xff\x00", None], pa.binary()),
            "x": pa.array([1.5, float("nan"), float("-inf")], pa.float32()),
            "at": pa.array([0, 1, -(10**15)], pa.timestamp("us", "Pacific/Apia")),
            "l": pa.array([[1.5], [None, float("nan")], None], pa.list_(pa.float64())),
            "n": pa.array([1, -(10**36), None], pa.decimal128(38, 0)),
        }
    )


COLUMNS = ("v bytes", "x float32", "at timestamptz", "l list<float64>", "n numeric(38,0)")


@pytest.mark.parametrize("how", ["parquet", "table"])
def test_a_row_that_is_no_text_comes_in_as_a_file_of_it_would(tmp_path: Path, how: str) -> None:
    def stored(root: Path, kind: str) -> tuple[World, str]:
        root.mkdir()
        w = world(root, "parquet", *COLUMNS)
        if kind == "int64":
            widen(w)
        if how == "table":
            write(w, Rows(0, 10), table())
        else:
            w.ingest(put(w, "a", hostile.parquet(table())), lower=0, upper=10)
        return w, ""

    late, _ = stored(tmp_path / "late", "int16")
    assert len(next(rejected(late.stores, "s")).rows) == 2
    widen(late)
    assert retry(late) == (2, 2)
    direct, _ = stored(tmp_path / "direct", "int64")

    def shown(w: World) -> str:

        rows = []
        for batch in w.state.batches:
            data = w.stores.blob.get(batch.manifest) if batch.manifest else None
            for ref in part_refs(decode_manifest(data)) if data else []:
                rows += read_updates(w.stores, w.state, ref).to_pylist()
        return repr(sorted(tuple(row.values())[:-2] for row in rows))

    assert shown(late) == shown(direct)


def test_what_was_refused_for_its_type_is_not_taken_in_as_text(tmp_path: Path) -> None:
    w = world(tmp_path, "parquet", "v string")
    moment = pa.array([datetime(2026, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    w.ingest(put(w, "a", hostile.parquet(pa.table({"id": [1], "v": moment}))), lower=0, upper=10)

    assert retry(w) == (1, 0)
    assert values(w) == {}


def test_a_retry_that_took_nothing_is_tried_anew_after_a_change(tmp_path: Path) -> None:
    w = world(tmp_path, "csv", "v string")
    w.ingest(put(w, "a.csv", b"id,v\n1,a\n70000,b\n"), lower=0, upper=10)
    assert [retry(w), retry(w)] == [(1, 0), (1, 0)]
    widen(w)

    assert [retry(w), retry(w)] == [(1, 1), (0, 0)]
    assert values(w) == {1: ("a",), 70000: ("b",)}


def test_rows_that_cannot_be_read_at_all_do_not_stop_the_others(tmp_path: Path) -> None:
    w = world(tmp_path, "csv", "v string")
    w.ingest(put(w, "a.csv", b"id,v\n1,a\n70000,b\n"), lower=0, upper=10)
    change_schema(w.machine, "s", DropColumn("v"))
    change_schema(w.machine, "s", AddColumn("u", parse_type("string")))
    w.ingest(put(w, "b.csv", b"id,u\n2,a\n70001,c\n"), lower=10, upper=20)
    widen(w)

    assert retry(w) == (2, 1)
    assert set(values(w)) == {1, 2, 70001}


def test_a_renamed_column_and_a_new_one_do_not_stop_a_row(tmp_path: Path) -> None:
    w = world(tmp_path, "csv", "v string")
    w.ingest(put(w, "a.csv", b"id,v\n1,a\n70000,b\n"), lower=0, upper=10)
    change_schema(w.machine, "s", RenameColumn("v", "u"))
    change_schema(w.machine, "s", AddColumn("z", parse_type("int16"), default=5))
    widen(w)

    assert retry(w) == (1, 1)
    assert values(w)[70000] == ("b", 5)


def test_a_contradiction_keeps_its_values_and_its_neighbours(tmp_path: Path) -> None:
    w = world_of(tmp_path, "debezium", contradictions="quarantine", max_rejected=1.0)
    put_events(w, 1, [event("u", 2, ("late", None), 5), event("d", 3, t=6), event("d", 4, t=7)])
    run(w, 1, 1)
    put_events(w, 2, [event("c", 3, ("there", None), DAY + 1)])
    run(w, 2, 2)
    w.now = 5 * DAY

    assert retry(w) == (3, 1)
    assert table_at(w, w.state.upper - 1) == {}
    assert [row["number"] for one in rejected(w.stores, "s") for row in one.rows] == [0, 2]


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_a_retried_row_has_its_columns_under_their_present_names(tmp_path: Path, kind: str) -> None:
    """By its names its values would have gone into each other's columns, or into none."""
    columns = [{"name": name, "type": "int16"} for name in ("id", "a", "b", "old", "new")]
    source = {"format": kind, "max_rejected": 1.0, "verify": "always"}
    w = World(tmp_path, columns=columns, key=["id"], source=source)
    rows = [{"id": 1, "a": 2, "b": 3, "old": 4, "new": 5}, {"id": 6, "a": 70_000, "b": 7}]
    rows[1] |= {"old": 8, "new": 9}
    w.ingest(put_rows(tmp_path, kind, rows), lower=0, upper=10)
    for change in (
        RenameColumn("a", "c"),
        RenameColumn("b", "a"),
        RenameColumn("c", "b"),
        DropColumn("old"),
        DropColumn("new"),
        AddColumn("new", parse_type("int16")),
        AddColumn("more", parse_type("string"), nullable=False, default="x"),
        WidenColumn("b", parse_type("int32")),
    ):
        change_schema(w.machine, "s", change)

    [retried] = retry_rejected(w.stores, w.settings, "s")

    assert (retried.taken, retried.reason) == (1, "")
    names = [column.name for column in w.machine.load("s").relation.columns]
    found = [dict(zip(names, row, strict=False)) for row in w.rows()]
    assert found == [
        {"id": 1, "b": 2, "a": 3, "new": None, "more": "x"},
        {"id": 6, "b": 70_000, "a": 7, "new": None, "more": "x"},
    ]
    assert retry_rejected(w.stores, w.settings, "s") == []


def test_a_retried_change_has_its_columns_under_their_present_names(tmp_path: Path) -> None:
    kept = keep_row({"id": pa.array([1]), "a": pa.array([2])}, 0, {"id": 1, "a": 2}, 1, ["a"])
    assert kept is not None
    data = kept.encode()
    piece = FileRange(0, len(data), len(data), data=data, whole=True)
    file = SourceFile("/x", "x", len(data), piece=piece)
    raw = read_kept(file, ["id", "b"], ids={"id": 1, "b": 2})
    assert raw.same.keys() == {"b"}
    with pytest.raises(InvalidRequest, match="lacks a declared column"):
        read_kept(file, ["id", "b", "come"], ids={"id": 1, "b": 2, "come": 3})
