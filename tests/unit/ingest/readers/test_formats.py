"""Every source format and packing gives the same rows; a declaration can be inferred from them."""

import bz2
import gzip
import json
import lzma
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.ingest.engine import ingest, ingest_now
from strata.ingest.land.files import files_at
from strata.ingest.readers.infer import infer
from strata.ingest.task import Step
from strata.machine.machine import Machine
from strata.model.spec import parse_spec
from strata.read.scan import scan
from strata.shard import Shard
from tests.unit.ingest.test_engine import World

COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "type": "int64"},
    {"name": "name", "type": "string"},
    {"name": "day", "type": "date"},
    {"name": "at", "type": "timestamptz"},
    {"name": "price", "type": "numeric(10,2)"},
    {"name": "tags", "type": "list<string>"},
    {"name": "note", "type": "jsonb"},
]
TABLE = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "name": ["a", None, "c"],
        "day": pa.array([date(2024, 1, 2), None, date(2024, 1, 3)]),
        "at": pa.array([datetime(2024, 1, 2, 3, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.50"), None, Decimal("2.00")], pa.decimal128(10, 2)),
        "tags": pa.array([["x", "y"], [], None], pa.list_(pa.string())),
        "note": ['{"a":1}', None, "[1]"],
    }
)
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": ["null", "long"]},
        {"name": "name", "type": ["null", "string"]},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {
            "name": "price",
            "type": [
                "null",
                {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            ],
        },
        {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "note", "type": ["null", "string"]},
    ],
}


def objects() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = orjson.loads(orjson.dumps(TABLE.to_pylist(), default=str))
    return [{**row, "note": orjson.loads(row["note"] or "null")} for row in rows]


def write(path: Path, kind: str) -> None:
    if kind == "orc":
        po.write_table(TABLE, str(path))
    elif kind == "parquet":
        pq.write_table(TABLE, path)
    elif kind == "avro":
        with path.open("wb") as stream:
            fastavro.writer(stream, AVRO, TABLE.to_pylist(), codec="deflate")
    elif kind == "json":
        path.write_bytes(orjson.dumps(objects()))
    else:
        path.write_bytes(b"\n".join(orjson.dumps(row) for row in objects()))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return rows_of(tmp_path_factory.mktemp("expected"), "jsonl")


def rows_of(root: Path, kind: str) -> Any:
    world = World(root, columns=COLUMNS, source={"format": kind})
    path = root / f"x.{kind}"
    write(path, kind)
    world.ingest(str(path), lower=0, upper=1)
    state = world.state
    batches = scan(world.stores, state, plan_read(world.stores, state), consolidate=True)
    return sorted(str(row) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("kind", ["avro", "json", "orc", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path: Path, kind: str, expected: Any) -> None:
    assert len(expected) == 3
    assert rows_of(tmp_path, kind) == expected


@pytest.mark.parametrize("kind", ["avro", "json", "orc"])
def test_what_is_no_such_file_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path, columns=COLUMNS, source={"format": kind})

    with pytest.raises(InvalidRequest) as error:
        world.ingest(world.put("in/x.bin", "something else"), lower=0, upper=1)

    assert error.value.details["file"] == "in/x.bin"


PACKINGS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("kind", ["orc", "parquet", "avro"])
@pytest.mark.parametrize("data", [b"", b"a,b\n1,2\n"], ids=["empty", "another format"])
def test_nothing_is_inferred_from_what_is_no_such_file(
    tmp_path: Path, kind: str, data: bytes
) -> None:
    world = World(tmp_path)
    (tmp_path / f"x.{kind}").write_bytes(data)

    with pytest.raises(InvalidRequest, match="not a readable") as error:
        infer(world.settings, "new", f"x.{kind}")
    assert error.value.details["file"] == f"x.{kind}"


@pytest.mark.parametrize("suffix", [*PACKINGS, ".zst", ".zstd"])
def test_packed_files_are_unpacked(tmp_path: Path, suffix: str) -> None:
    world = World(tmp_path)
    data = b"id,name\n1,a\n"
    data = PACKINGS[suffix](data) if suffix in PACKINGS else packed(data)
    (tmp_path / f"x.csv{suffix}").write_bytes(data)

    world.ingest(str(tmp_path / f"x.csv{suffix}"), lower=0, upper=1)

    assert world.rows() == {(1, "a", 0): 1}


@pytest.mark.parametrize("suffix", [".gz", ".gzip", ".bz2", ".xz", ".zst", ".zstd", ".lz4"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_a_packed_file_without_a_byte_is_cut_and_not_empty(
    tmp_path: Path, suffix: str, kind: str
) -> None:
    """It would be in the ledger without a row, and what comes under its name would not be taken."""
    world = World(tmp_path, source={"format": kind})

    with pytest.raises(InvalidRequest, match="the file is empty"):
        world.ingest(world.put(f"x.{kind}{suffix}", ""), lower=0, upper=1)

    assert world.state.upper < 1


def packed(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("kind", ["avro", "orc", "parquet"])
def test_a_file_of_the_right_format_that_is_cut_asks_for_it_again(
    tmp_path: Path, kind: str
) -> None:
    """The error asked for another source.format, and nothing else."""
    world = World(tmp_path, columns=COLUMNS, source={"format": kind})
    path = tmp_path / f"x.{kind}"
    write(path, kind)
    path.write_bytes(path.read_bytes()[:-3])

    with pytest.raises(InvalidRequest, match="not a readable") as refused:
        world.ingest(path.name, lower=0, upper=1)

    assert "fetch the file again" in (refused.value.cure or "")


def test_pages_that_are_too_small_for_the_library_have_their_cure(tmp_path: Path) -> None:
    """Arrow finds no values where a page holds less than a row."""
    table = pa.table({"id": [1], "v": pa.array([[1.5]], pa.list_(pa.float64()))})
    pq.write_table(table, tmp_path / "x.parquet", data_page_size=1)
    columns = [{"name": "id", "type": "int64"}, {"name": "v", "type": "list<float64>"}]
    world = World(tmp_path, columns=columns, key=["id"], source={"format": "parquet"})

    with pytest.raises(InvalidRequest, match="not a readable") as refused:
        world.ingest("x.parquet", lower=0, upper=1)

    assert "with larger pages" in (refused.value.cure or "")


def test_times_that_the_library_of_orc_does_not_read_have_their_cure(tmp_path: Path) -> None:
    world = World(tmp_path)
    late = pa.array([0, 253_402_300_799], pa.timestamp("s"))
    po.write_table(pa.table({"id": [1, 2], "at": late}), tmp_path / "x.orc")

    found = infer(world.settings, "new", "x.orc")

    (note,) = found.notes
    assert "253402300799s" in note
    assert "written as Parquet" in note
    assert "check source.format" not in note


@pytest.mark.parametrize("kind", ["avro", "json", "jsonl", "orc", "parquet", "csv"])
def test_what_is_inferred_can_be_ingested(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path)
    (tmp_path / "in").mkdir()
    path = tmp_path / f"in/2024-01-02.{kind}"
    if kind == "csv":
        pacsv.write_csv(TABLE.drop_columns(["tags"]), path)
    else:
        write(path, kind)

    found = infer(world.settings, "new", "in/", key=["name"])
    Machine(world.stores).create(parse_spec(found.declaration))

    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert (types["id"], types["name"], types["day"]) == ("int64", "string", "date")
    assert types["at"] == "timestamptz"
    nulls = {"nulls": [""]} if kind == "csv" else {}
    assert found.declaration["source"] == {"paths": ["in/"], "format": kind} | nulls
    assert world.machine.load("new").relation.column("name").nullable is False


def test_how_csv_is_written_is_told_from_the_files_and_pinned(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("in/1.csv", 'n;price;who;note\n1;"1,5";Null;-\n\\N;2;NULL;a\n')
    world.put("in/2.csv", "n;price;who;note\n7;NA;x;b\n")

    found = infer(world.settings, "new", "in/")

    source = {"paths": ["in/"], "format": "csv", "delimiter": ";", "nulls": ["", "NA", "\\N"]}
    assert found.declaration["source"] == {**source, "decimal": ","}
    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert types == {"n": "int64", "price": "float64", "who": "string", "note": "string"}
    Machine(world.stores).create(parse_spec(found.declaration))
    step = Step(None, None, "in", tuple(files_at(world.settings.store.landing, ["in/"])))
    report = ingest_now(world.stores, world.settings, "new", step)
    assert (report.updates, report.counts.rejected) == (3, 0)


@pytest.mark.parametrize("delimiter", ["\x01", "\t", "|"])
def test_files_that_hive_and_others_write_are_proposed_and_read(
    tmp_path: Path, delimiter: str
) -> None:
    world = World(tmp_path)
    lines = ["id,name,price", "1,a,1.5", "2,,\\N", '3,"b,c",7']
    swapped = str.maketrans({",": delimiter, delimiter: ","})
    world.put("in/1.csv", "\n".join(lines).translate(swapped))

    found = infer(world.settings, "new", "in/")

    assert found.declaration["source"]["delimiter"] == delimiter
    Machine(world.stores).create(parse_spec(found.declaration))
    step = Step(None, None, "in", tuple(files_at(world.settings.store.landing, ["in/"])))
    report = ingest_now(world.stores, world.settings, "new", step)
    assert (report.updates, report.counts.rejected) == (3, 0)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"delimiter": "ab"}, "delimiter"),
        ({"delimiter": "\n"}, "delimiter"),
        ({"delimiter": "\\"}, "delimiter"),
        ({"delimiter": "\0"}, "delimiter"),
        ({"delimiter": "\x7f"}, "delimiter"),
        ({"delimiter": "a"}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
        ({"delimiter": "é"}, "delimiter"),
        ({"nulls": "NA"}, "list of texts"),
        ({"nulls": [None]}, "list of texts"),
    ],
)
def test_a_wrong_dialect_is_refused(source: dict[str, object], told: str) -> None:
    columns = [{"name": "a", "type": "int64"}]
    with pytest.raises(InvalidRequest, match=told):
        parse_spec({"name": "x", "columns": columns, "source": source})


def test_what_only_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("x.csv", "code,n,mixed,empty\n007,1,1,\n123,2.5,x,\n")

    found = infer(world.settings, "new", "x.csv")

    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert types == {"code": "string", "n": "float64", "mixed": "string", "empty": "string"}
    with pytest.raises(InvalidRequest, match="no such column"):
        infer(world.settings, "new", "x.csv", key=["nope"])
    with pytest.raises(InvalidRequest, match="does not show its format"):
        infer(world.settings, "new", world.put("x.dat", ""))


def test_what_is_proposed_takes_files_of_r_and_pandas_in(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("x.csv", '"","n","s"\n' + "".join(f'"{n}","{n or ""}","x"\n' for n in range(30)))

    found = infer(world.settings, "new", "x.csv")

    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert types == {"_c0": "int64", "n": "int64", "s": "string"}
    Machine(world.stores).create(parse_spec(found.declaration))
    step = Step(None, None, None, files_at(str(tmp_path), ["x.csv"]))
    report = ingest_now(world.stores, world.settings, "new", step)
    assert (report.updates, report.counts.rejected) == (30, 0)


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.jsonl", "x.json", "x.jsonl.xz"])
def test_of_a_large_file_the_first_records_are_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.ingest.readers.infer.LOOKED_BYTES", 4096)
    world = World(tmp_path)
    rows = [{"id": n, "note": 'a;"b"\nc', "at": f"2024-01-{n % 28 + 1:02}"} for n in range(3000)]
    if ".csv" in name:
        lines = [f'{r["id"]};"a;""b""\nc";{r["at"]}\n' for r in rows]
        data = ("id;note;at\n" + "".join(lines)).encode()
    elif ".jsonl" in name:
        data = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    else:
        data = orjson.dumps(rows)
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(name).suffix, bytes)
    (tmp_path / name).write_bytes(pack(data))

    found = infer(world.settings, "new", name)

    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert types == {"id": "int64", "note": "string", "at": "date"}
    assert 20 < found.rows < 500
    assert (found.declaration["key"], found.declaration["order"]) == (["id"], ["at"])


def test_bytes_that_are_no_utf8_are_named_and_their_rows_rejected(tmp_path: Path) -> None:
    world = World(tmp_path)
    lines = [f"{n},x".encode() for n in range(40)]
    (tmp_path / "x.csv").write_bytes(b"\n".join([b"id,name", *lines, "40,é".encode("latin-1")]))

    with pytest.raises(InvalidRequest, match="the file is not UTF-8") as refused:
        infer(world.settings, "new", "x.csv")
    assert refused.value.details.items() >= {("file", "x.csv"), ("line", 42), ("byte", "0xe9")}
    assert "--encoding windows-1252" in (refused.value.cure or "")
    found = infer(world.settings, "new", "x.csv", encoding="utf-8")

    note, count = found.notes
    assert note.startswith("x.csv: line 42 is not UTF-8")
    assert count.startswith("name: 1 of 41 examined rows would be rejected")
    Machine(world.stores).create(parse_spec(found.declaration))
    step = Step(None, None, None, files_at(str(tmp_path), ["x.csv"]))
    report = ingest_now(world.stores, world.settings, "new", step)
    assert (report.updates, report.counts.rejected) == (40, 1)


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_an_object_a_line_is_jsonl_under_the_name_of_json(tmp_path: Path, name: str) -> None:
    world = World(tmp_path)
    pack = gzip.compress if name.endswith(".gz") else bytes
    for text, kind in ((b'{"a": 1}\n{"a": 2}\n', "jsonl"), (b'{"a": 1}\n', "json")):
        (tmp_path / name).write_bytes(pack(text))
        found = infer(world.settings, "new", name)
        assert found.declaration["source"]["format"] == kind
    (tmp_path / name).write_bytes(pack(b"[]"))
    with pytest.raises(InvalidRequest, match="no columns to infer from"):
        infer(world.settings, "new", name)


def test_json_numbers_that_no_numeric_holds_are_jsonb(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("x.jsonl", f'{{"a": {int("1" * 45)}, "b": {10**30}}}\n{{"a": 1, "b": 0.5}}\n')

    found = infer(world.settings, "new", "x.jsonl")

    assert [c["type"] for c in found.declaration["columns"]] == ["jsonb", "numeric"]


def test_texts_that_may_mean_something_else_are_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    lines = "EU,NA,1.1,-\nNA,x,1.10,a\nAS,,NA,-\n"
    text = "continent,word,version,mark,n\n" + lines.replace("\n", ",?\n") + "AF,,2,,5\n"
    for name in ("in/1.csv", "in/2.csv"):
        world.put(name, text)

    found = infer(world.settings, "new", "in/")

    assert found.declaration["source"]["nulls"] == ["", "?", "NA"]
    assert found.notes == (
        "continent: NA is read as null, 2 times in the examined rows; if it is a text, leave it "
        "out of source.nulls",
        "word: NA is read as null, 2 times in the examined rows; if it is a text, leave it out of "
        "source.nulls",
        "version: 1.1 and 1.10 are read as one number; if they are two texts, as of versions, "
        "declare type: string",
    )
    codes = infer(world.settings, "new", world.put("z.csv", "code,n\nNA,1\nDE,2\n"))
    assert (codes.declaration["source"]["nulls"], codes.notes) == ([""], ())
    number = world.put("y.csv", "n,mark\n-,-\n5,a\n")
    (note,) = infer(world.settings, "new", number).notes
    assert note.startswith("mark: - is read as null, 1 times")


_NULL = "is read as null, 1 times in the examined rows; if it is"


@pytest.mark.parametrize(
    ("text", "values", "notes"),
    [
        ("1,NaN|2,1.5|3,", ["nan", "1.5", "None"], ()),
        ("1,nan|2,3|", ["nan", "3.0"], ("x: nan is read as a number, 1 times in the examined ",)),
        ("1,NaN|2,2020-01-01|", ["None", "2020-01-01"], ()),
        ("1,\\N|2,a|", ["None", "a"], (f"x: \\N {_NULL} a text, leave it out",)),
        ("1,\\N|", ["None"], (f"x: \\N {_NULL} a text, leave it out",)),
        (
            "1,\\N|2,|3,a|",
            ["None", "None", "a"],
            (f"x: \\N {_NULL} a text,", f'x: an empty field {_NULL} the empty text, leave "" out'),
        ),
        ("1,NULL|2,a|", ["NULL", "a"], ("x: NULL is read as a text, 1 times in the examined",)),
        ("1,-|2,1.5|", ["None", "1.5"], ()),
        ('1,""|2,[1]|', ["None", "[1]"], ()),  # JSON was proposed as bytes
        ('1,""|2,a|', ["", "a"], ()),
    ],
)
def test_what_may_be_null_is_read_as_databases_write_it_or_named(
    tmp_path: Path, text: str, values: list[str], notes: tuple[str, ...]
) -> None:
    r"""NaN beside numbers became null, and \N among texts a text, both without a word."""
    world = World(tmp_path)
    world.put("x.csv", "id,x\n" + text.replace("|", "\n"))

    found = infer(world.settings, "new", "x.csv")

    world.machine.create(parse_spec(found.declaration))
    assert ingest(world.stores, world.settings, "new", paths=["x.csv"]).to_json()["rejected"] == 0
    rows = [row for batch in Shard(world.stores, "new").scan() for row in batch.to_pylist()]
    assert [str(row["x"]) for row in sorted(rows, key=lambda row: row["id"])] == values
    assert len(found.notes) == len(notes), found.notes
    assert all(one.startswith(note) for one, note in zip(found.notes, notes, strict=True))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'0,"a\rb"\n', "a\rb"),
        (b'0;"\r"\n', "\r"),
        (b'0,"a;b;c"\n', "a;b;c"),
        (b'0|"a;b"\n1|\n2|\n', "a;b"),
        (b'0|"a,b"\n', "a,b"),
        (b'"0"|";"\n', ";"),
    ],
)
def test_what_stands_in_quotes_hides_no_delimiter(tmp_path: Path, text: bytes, value: str) -> None:
    """A line break of Mac OS refused the file, and more semicolons than commas were cut at."""
    world = World(tmp_path)
    (tmp_path / "x.csv").write_bytes(text)

    found = infer(world.settings, "new", "x.csv", header=["id", "x"])

    world.machine.create(parse_spec(found.declaration))
    ingest(world.stores, world.settings, "new", paths=["x.csv"])
    (rows,) = (batch["x"].to_pylist() for batch in Shard(world.stores, "new").scan())
    assert rows[0] == value


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("id,x\n1,\\N\n2,a\\nb\n", True),
        ("id\tx\n1\ta\\\\b\n", True),
        ("id|x|y\n1|a\\tb|\\N\n", True),
        ("id\tx\n1\ta\\'b\n", True),
        ("id,x\n1,\\N\n2,C:\\dir\n", False),
        ("id\tx\n1\t\\N\n", False),
        ("id,x\n1,a\\nb\n", False),
    ],
)
def test_backslashes_that_may_mean_other_letters_are_noted(
    tmp_path: Path, text: str, noted: bool
) -> None:
    """What COPY writes as text came in with its escapes, without a word."""
    world = World(tmp_path)
    world.put("x.csv", text)

    notes = infer(world.settings, "new", "x.csv").notes

    assert any("x.csv: backslashes are read as they are" in note for note in notes) is noted


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("id,x\n1,a\nid,x\n2,\n", "row 2"),
        ("id;x\nid;x\n", "row 1"),
        ("id,x\n1,x\nid,\n", None),
        ("x\n1\nx\n", None),
    ],
)
def test_names_that_stand_again_in_a_file_are_noted(
    tmp_path: Path, text: str, row: str | None
) -> None:
    """As in what `cat *.csv` writes; the line is a row, and may make a column of numbers texts."""
    world = World(tmp_path)
    world.put("x.csv", text)

    notes = [note for note in infer(world.settings, "new", "x.csv").notes if "repeats" in note]

    assert [note.partition(" repeats")[0] for note in notes] == ([f"x.csv: {row}"] if row else [])


def test_values_of_several_types_in_json_files_are_jsonb(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("in/1.jsonl", '{"a": 1, "b": "2024-01-01"}\n' * 3)
    world.put("in/2.jsonl", '{"a": "x", "b": "2024-01-01T10:00:00Z"}\n' * 3)

    found = infer(world.settings, "new", "in/")

    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert types == {"a": "jsonb", "b": "timestamptz"}
    Machine(world.stores).create(parse_spec(found.declaration))
    step = Step(None, None, None, files_at(str(tmp_path), ["in/"]))
    report = ingest_now(world.stores, world.settings, "new", step)
    assert (report.counts.rows, report.counts.rejected) == (6, 0)


def test_a_header_that_no_ingest_takes_is_refused_by_infer_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(InvalidRequest, match="column twice"):
        infer(world.settings, "new", world.put("twice.csv", "a,b,a\n1,2,3\n"))
    (tmp_path / "latin.csv").write_bytes("größe\n".encode("latin-1"))
    with pytest.raises(InvalidRequest, match="not UTF-8"):
        infer(world.settings, "new", "latin.csv")


def test_columns_of_change_events_are_told_though_their_lines_hold_long_numbers(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    for number, note in ((1, None), (2, "x")):  # nothing but nulls in one of the files
        row = {"id": number, "note": note, "price": 1.5, "big": 2**63, "part": None}
        event = {"before": None, "after": row, "op": "c", "source": {"ts_ns": 10**18}}
        world.put(f"in/{number}.jsonl", json.dumps(event) + "\n")

    found = infer(world.settings, "new", "in/", key=["id"], envelope="debezium")

    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert types == {
        "id": "int64",
        "note": "string",
        "price": "float64",
        "big": "numeric",
        "part": "jsonb",
    }
    assert found.declaration["time"] == {"from": "source"}
    parse_spec(found.declaration)


def test_key_order_and_sets_are_proposed_with_the_reason(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in (1, 2):
        lines = [
            f"a{number},{number * 100 + n},2024-0{number}-{n % 28 + 1:02}T00:00:00Z,"
            f"{number}x{n % 3},{n},o-{number * 1000 + n}"
            for n in range(80)
        ]
        world.put(f"in/{number}.csv", "who,id,at,city,n,order_id\n" + "\n".join(lines) + "\n")

    found = infer(world.settings, "new", "in/")

    assert (found.files, found.rows) == (2, 160), "each file once"
    shown = found.declaration
    assert (shown["key"], shown["order"]) == (["id"], ["at"])
    assert shown["stats"] == {"sets": ["city"], "blooms": ["order_id"]}
    assert [c["name"] for c in shown["columns"] if not c.get("nullable", True)] == ["id"]
    assert {why.setting for why in found.why} == {"key", "order", "stats.sets", "stats.blooms"}
    assert "different in all 160 rows" in found.why[0].because
    Machine(world.stores).create(parse_spec(shown))
    given = infer(world.settings, "new", "in/", key=["at"])
    assert given.declaration["key"] == ["at"]
    assert "order" not in given.declaration, "the key sorts by it"


@pytest.mark.parametrize("rows", [1, 40])
def test_a_budget_is_proposed_that_holds_the_names_of_times(tmp_path: Path, rows: int) -> None:
    """A shard that is declared without it is refused."""
    world = World(tmp_path)
    names = [f"c{number}_at" for number in range(60)]
    lines = [",".join(["2024-01-02T00:00:00Z"] * 60) for _ in range(rows)]
    world.put(
        "in/1.csv",
        "\n".join([",".join(["id", *names]), *(f"{n},{line}" for n, line in enumerate(lines))])
        + "\n",
    )

    found = infer(world.settings, "new", "in/")

    budget = found.declaration["stats"]["budget_bytes"]
    (why,) = [why for why in found.why if why.setting == "stats.budget_bytes"]
    assert why.value == str(budget) == "2048"
    assert "may take 1," in why.because
    Machine(world.stores).create(parse_spec(found.declaration))
    bare = {name: value for name, value in found.declaration.items() if name != "stats"}
    with pytest.raises(InvalidRequest, match="exceed the budget"):
        Machine(World(tmp_path / "other").stores).create(parse_spec(bare))


def test_what_speaks_against_a_key_is_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("in/1.csv", "id,name\n" + "7,x\n" * 40)
    found = infer(world.settings, "new", "in/")
    assert "key" not in found.declaration
    [why] = found.why
    assert "no column can be dropped later" in why.because
    assert "sorts by id first" in why.because
    world.put("timed/1.csv", "id,day\n" + "7,2026-01-02\n" * 40)
    timed = infer(world.settings, "new", "timed/")
    assert timed.declaration["order"] == ["day"]
    assert "sorts by day first" in timed.why[0].because
    few = infer(world.settings, "new", world.put("few.csv", "id\n1\n2\n"))
    assert "only 2 rows" in few.why[0].because
