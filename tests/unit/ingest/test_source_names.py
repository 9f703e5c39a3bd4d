"""A source may call columns as no shard can: each value arrives under the declared name."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.engine import ingest
from strata.ingest.quarantine import rejected
from strata.ingest.readers.column_names import proposed_names
from strata.ingest.readers.infer import infer
from strata.ingest.readers.json_table import SMALL_BYTES
from strata.ingest.retry import retry_rejected
from strata.ingest.tables import Rows
from strata.maintain.schema import change_schema
from strata.model.spec import check_column_names, parse_spec
from strata.model.types import parse_type
from strata.state.schema import AddColumn, DropColumn, RenameColumn, WidenColumn
from tests.unit.ingest.test_engine import World
from tests.unit.ingest.test_tables import write

NAMES = {"t": "t_", "Name": "name", "name": "name_2", "size": "weight", "weight": "size"}
TYPES = {"id": "int64", "t_": "int16", "name": "string", "name_2": "jsonb", "size": "float64"}
TYPES |= {"weight": "int32"}
ROWS: list[dict[str, Any]] = [
    {"id": n, "t": n % 7, "Name": f"N{n}", "name": [n], "weight": n / 4, "size": n} for n in (1, 2)
]
STORED = {(n, n % 7, f"N{n}", f"[{n}]", n / 4, n, 0): 1 for n in (1, 2)}
FORMATS = ("csv", "jsonl", "json", "parquet", "orc", "avro")


def world(root: Path, format: str, envelope: str = "append", **source: Any) -> World:
    columns = [{"name": name, "type": kind} for name, kind in TYPES.items()]
    source = {"format": format, "envelope": envelope, "names": NAMES, "verify": "always", **source}
    return World(root, columns=columns, key=["id"], source=source)


def put(root: Path, kind: str, rows: list[dict[str, Any]], name: str = "a") -> str:
    path = root / f"{name}.{kind}"
    path.parent.mkdir(exist_ok=True)
    flat = [{k: json.dumps(v) if k == "name" else v for k, v in row.items()} for row in rows]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(flat), path)
    elif kind == "orc":
        po.write_table(pa.Table.from_pylist(flat), path)
    elif kind == "avro":
        kinds = {int: "long", str: "string", float: "double"}
        fields = [{"name": k, "type": ["null", kinds[type(v)]]} for k, v in flat[0].items()]
        with path.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "r", "fields": fields}, flat)
    elif kind == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    elif kind == "json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_gives_columns_the_names_of_the_shard(tmp_path: Path, kind: str) -> None:
    """Names that exchange two columns, and both readings of a row, are among them."""
    w = world(tmp_path, kind)

    report = w.ingest(put(tmp_path, kind, ROWS), lower=0, upper=10)

    assert w.rows() == STORED
    assert (report["verified"], report["rejected"]) == (2, 0)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_large_files_are_read_by_the_same_names(tmp_path: Path, kind: str) -> None:
    w = world(tmp_path, kind)
    rows = [ROWS[0] | {"id": n, "Name": "x" * 50} for n in range(SMALL_BYTES // 40)]

    w.ingest(put(tmp_path, kind, rows), lower=0, upper=10)

    stored = (1, "x" * 50, "[1]", 0.25, 1, 0)
    assert w.rows() == {(n, *stored): 1 for n in range(len(rows))}


def test_a_key_of_json_that_is_called_as_a_column_of_the_shard_is_not_read(tmp_path: Path) -> None:
    w = world(tmp_path, "jsonl")

    w.ingest(put(tmp_path, "jsonl", [ROWS[0] | {"t_": 99, "name_2": 98}]), lower=0, upper=10)

    assert w.rows() == {(1, 1, "N1", "[1]", 0.25, 1, 0): 1}


def test_change_streams_and_keyed_rows_have_the_source_names(tmp_path: Path) -> None:
    for envelope in ("upsert", "debezium"):
        w = world(tmp_path, "jsonl", envelope, **{"names": {**NAMES, "ID": "id"}})
        one, two = ({**row, "ID": row["id"]} for row in ROWS)
        one.pop("id"), two.pop("id")
        messages = [one, two, {"key": {"ID": 2}, "value": None}]
        if envelope == "debezium":
            events = [{"op": "c", "after": row, "ts_ms": 1} for row in (one, two)]
            messages = [*events, {"op": "d", "before": {"ID": 2}, "ts_ms": 2}]
        file = tmp_path / f"{envelope}.jsonl"
        file.write_text("".join(json.dumps(one) + "\n" for one in messages))

        report = w.ingest(str(file), lower=0, upper=10)

        assert w.rows() == {(1, 1, "N1", "[1]", 0.25, 1, 0): 1}, envelope
        assert not report["rejected"]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_rejected_row_names_both_and_comes_in_later(tmp_path: Path, kind: str) -> None:
    w = world(tmp_path, kind, max_rejected=1.0)
    w.ingest(put(tmp_path, kind, [ROWS[0], ROWS[1] | {"t": 70_000}]), lower=0, upper=10)

    [found] = rejected(w.stores, "s")
    assert found.rows[0]["column_name"] == "t_"
    assert "the source calls the column 't'" in found.rows[0]["reason"]

    change_schema(w.machine, "s", WidenColumn("t_", parse_type("int64")))
    [retried] = retry_rejected(w.stores, w.settings, "s")
    assert (retried.taken, retried.reason) == (1, "")
    assert {row[:4] for row in w.rows()} == {(1, 1, "N1", "[1]"), (2, 70_000, "N2", "[2]")}


def test_rejected_changes_come_in_later(tmp_path: Path) -> None:
    w = world(tmp_path, "jsonl", "debezium", contradictions="quarantine", max_rejected=1.0)
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"op": "u", "after": ROWS[0], "ts_ms": 1}) + "\n")
    w.ingest(str(file), lower=0, upper=10)
    [found] = rejected(w.stores, "s")
    raw = found.rows[0]["raw"]
    assert json.loads(raw)["after"].keys() == ROWS[0].keys(), "the names of the source"

    file = tmp_path / "b.jsonl"
    file.write_text(json.dumps({"op": "c", "after": ROWS[0] | {"t": 5}, "ts_ms": 11}) + "\n")
    w.ingest(str(file), lower=10, upper=20)
    [retried] = retry_rejected(w.stores, w.settings, "s")
    assert (retried.taken, retried.reason) == (1, "")
    left = Counter[Any]()
    for row, n in w.rows().items():
        left[row[:3]] += n
    assert +left == {(1, 1, "N1"): 1}


@pytest.mark.parametrize("kind", ["csv", "parquet", "orc", "avro"])
def test_errors_of_files_name_both(tmp_path: Path, kind: str) -> None:
    w = world(tmp_path, kind)
    lacking = [{k: v for k, v in row.items() if k != "t"} for row in ROWS]

    with pytest.raises(InvalidRequest, match="lacks a declared column") as failed:
        w.ingest(put(tmp_path, kind, lacking), lower=0, upper=10)

    details = failed.value.details
    assert (details["column"], details["column_of_shard"]) == ("t", "t_")


def test_the_cure_of_a_column_that_is_called_otherwise_is_a_pair(tmp_path: Path) -> None:
    w = world(tmp_path, "csv")
    other = [{"T" if k == "t" else k: v for k, v in row.items()} for row in ROWS]

    with pytest.raises(InvalidRequest) as failed:
        w.ingest(put(tmp_path, "csv", other), lower=0, upper=10)

    assert 'source.names: {"T": "t_"}' in (failed.value.cure or "")


def test_the_names_follow_a_schema(tmp_path: Path) -> None:
    w = world(tmp_path, "csv")
    for change in (
        RenameColumn("t_", "hour"),
        DropColumn("size"),
        RenameColumn("name", "Name"),
        AddColumn("more", parse_type("int16")),
    ):
        change_schema(w.machine, "s", change)

    assert dict(w.state.spec.source.names) == {"t": "hour", "name": "name_2", "size": "weight"}
    rows = [{k: v for k, v in row.items() if k != "weight"} | {"more": 3} for row in ROWS]
    w.ingest(put(tmp_path, "csv", rows), lower=0, upper=10)
    assert w.rows() == {(n, n % 7, f"N{n}", f"[{n}]", n, 3, 0): 1 for n in (1, 2)}


def test_a_schema_never_reads_one_column_of_the_source_twice(tmp_path: Path) -> None:
    w = world(tmp_path, "csv", names={"a": "t_"})
    for change in (AddColumn("a", parse_type("int16")), RenameColumn("size", "a")):
        with pytest.raises(InvalidRequest, match="is read as another one"):
            change_schema(w.machine, "s", change)

    change_schema(w.machine, "s", RenameColumn("t_", "a"))
    assert w.state.spec.source.names == ()


def test_rows_of_a_program_have_the_names_of_the_shard(tmp_path: Path) -> None:
    w = world(tmp_path, "csv")
    row = {"id": 1, "t_": 2, "name": "a", "name_2": "3", "size": 4.0, "weight": 5}

    write(w, Rows(0, 10), pa.Table.from_pylist([row]))

    assert w.rows() == {(1, 2, "a", "3", 4.0, 5, 0): 1}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"names": {"x": "nowhere"}}, "a name is for a declared column"),
        ({"names": [["x", "a"], ["y", "a"]]}, "a column has one name in the source"),
        ({"names": [["x", "a"], ["x", "b"]]}, "a column has one name in the source"),
        ({"names": [["x"]]}, "a pair needs two names"),
        ({"names": {"b": "a"}}, "two columns are read from one"),
        ({"names": {"diff": "a"}, "envelope": "diff"}, "has another meaning"),
        ({"names": {"x": "a"}, "envelope": "upsert", "deleted_column": "x"}, "another meaning"),
        ({"names": {1: "a"}}, "source"),
        ({"names": "t"}, "source"),
    ],
)
def test_names_that_contradict_each_other_are_refused(source: Any, message: str) -> None:
    columns = [{"name": name, "type": "int64"} for name in ("a", "b")]
    with pytest.raises(InvalidRequest, match=message):
        parse_spec({"name": "s", "columns": columns, "source": source})


def test_the_time_is_named_as_the_shard_does(tmp_path: Path) -> None:
    columns = [{"name": "t_", "type": "int64"}, {"name": "a", "type": "int64"}]
    with pytest.raises(InvalidRequest, match="another meaning"):
        World(
            tmp_path,
            columns=columns,
            key=["a"],
            source={"names": {"t": "t_"}},
            time={"from": "column", "column": "t"},
        )
    w = World(
        tmp_path,
        columns=columns,
        key=["a"],
        source={"names": {"t": "t_"}},
        time={"from": "column", "column": "t_"},
    )
    (tmp_path / "a.jsonl").write_text('{"t": 5, "a": 1}\n')

    w.ingest(str(tmp_path / "a.jsonl"), lower=0, upper=10)

    assert w.rows() == {(5, 1, 5): 1}


@pytest.mark.parametrize("kind", FORMATS)
def test_names_that_no_column_has_are_proposed_as_pairs(tmp_path: Path, kind: str) -> None:
    w = World(tmp_path)
    rows = [{"t": 1, "D": 2, "Name": "x", "Id": 3, "id": 4}]
    if kind == "csv":
        rows = [{"t": 1, "D": 2, " a ": "x", '"b\nc"': 3, '"\0"': 4, "t_": 5}]
    file = put(tmp_path, kind, rows)

    found = infer(w.settings, "new", file, key=[next(iter(rows[0]))])

    w.machine.create(parse_spec(found.declaration))
    ingest(w.stores, w.settings, "new", paths=[file], lower=0, upper=10)
    assert found.declaration["key"] == [found.declaration["columns"][0]["name"]]
    pairs = found.declaration["source"]["names"]
    if kind == "csv":
        assert pairs == {"t": "t_2", "D": "D_", " a ": "a", "b\nc": "b_c", "\0": "_"}
        assert "b_c: the source calls it 'b\\nc'; with blanks" in found.notes[3]
    else:
        assert pairs == {"t": "t_", "D": "D_", "id": "id_2"}
    assert [note.partition(":")[0] for note in found.notes[: len(pairs)]] == list(pairs.values())


@given(st.lists(st.text(st.sampled_from("tdTD aA\0_2"), max_size=3), unique=True, max_size=8))
def test_proposed_names_are_names_of_columns(names: list[str]) -> None:
    found = proposed_names(names)

    called = [found[name][0] if name in found else name for name in names]
    check_column_names("s", called)
    assert all(name == name.strip() and "\0" not in name for name in called)
    assert all(found[name][0] != name for name in found)
    kept = [name for name in names if name not in found]
    assert not {name.lower() for name in kept} & {column.lower() for column, _ in found.values()}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_column_that_files_spell_otherwise_is_not_two(tmp_path: Path, kind: str) -> None:
    w = World(tmp_path)
    put(tmp_path, kind, [{"id": 1, "Zone": 2}], "in/a")
    put(tmp_path, kind, [{"id": 1, "zone ": 2}], "in/b")

    with pytest.raises(InvalidRequest, match="two files spell a column otherwise") as failed:
        infer(w.settings, "new", "in/")
    assert (failed.value.details["column"], failed.value.details["other"]) == ("Zone", "zone ")

    put(tmp_path, kind, [{"id": 1, "Zone": 2, "zone ": 3}], "in/c")
    assert infer(w.settings, "new", "in/").declaration["source"]["names"] == {"zone ": "zone_"}


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_value_under_another_name_is_not_lost(tmp_path: Path, kind: str) -> None:
    """Under the shard's own name, or a third spelling of two names."""
    w = world(tmp_path, kind, max_rejected=1.0)
    lacking = [
        {k: v for k, v in ROWS[0].items() if k not in (name, "id")} for name in ("t", "Name")
    ]
    rows = [{"id": 8, "t_": 1, **lacking[0]}, {"id": 9, "NAME": "x", **lacking[1]}, *ROWS]

    w.ingest(put(tmp_path, kind, rows), lower=0, upper=10)

    assert w.rows() == STORED
    [found] = rejected(w.stores, "s")
    assert [row["reason"] for row in found.rows] == [
        "the key t_ is a name that the shard has or had for what the source calls t: write t, or "
        "correct source.names",
        "the key NAME differs from the column Name in capital letters alone",
    ]
