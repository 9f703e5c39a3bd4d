"""CSV without a line of names: the same rows as below one, however a file is read."""

import gzip
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.ingest.land import recode
from strata.ingest.land.files import files_at
from strata.ingest.land.source_file import Dialect
from strata.ingest.quarantine import rejected
from strata.ingest.readers import file_ranges
from strata.ingest.readers.bundle import bundles, joined
from strata.ingest.readers.file_ranges import split_file
from strata.ingest.retry import retry_rejected
from strata.maintain.schema import change_schema
from strata.model.settings import IngestSettings
from strata.state.declare import redeclare
from strata.state.schema import RenameColumn
from tests.unit.cli.test_commands import Cli
from tests.unit.ingest.test_engine import World

COLUMNS = [
    {"name": "id", "type": "int64"},
    {"name": "name", "type": "string"},
    {"name": "rest", "type": "string", "default": "none"},
]
NAMES = ["name", "id", "rest"]  # in the order of the files
USUAL = {"format": "csv", "max_rejected": 0.9, "verify": "always"}


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, capsys)


def world_of(root: Path, **source: Any) -> World:
    root.mkdir(exist_ok=True)
    source = {**USUAL, "header": NAMES, **source}
    return World(root, columns=COLUMNS, key=["id"], source=source)


def put(world: World, name: str, data: bytes) -> str:
    path = world.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def written(count: int, *, bad: int = -1) -> str:
    """Return rows, some in two lines; the one that is bad has no number."""
    return "".join(
        f'"ä{n}{chr(10) if n % 3 else ""}ö",{"x" if n == bad else n},ü\n' for n in range(count)
    )


def rejects(world: World) -> list[dict[str, Any]]:
    return [row for one in rejected(world.stores, "s") for row in one.rows]


def shown(world: World) -> list[tuple[Any, ...]]:
    """Return each rejected row as people see it, counted from the first row of its file."""
    first = 1 if world.state.spec.source.header else 2
    return [
        (row["line"] - first, row["column_name"], row["reason"], row["raw"], row["header"])
        for row in rejects(world)
    ]


def rows_of(world: World) -> list[tuple[Any, ...]]:
    return sorted(row[:3] for row in world.rows())


TEXTS = {
    "plain": written(40, bad=7),
    "the first row is bad": written(5, bad=0),
    "blank lines in front": "\n\n" + written(4, bad=2),
    "a row of another width": written(4) + "a,9\n" + "b,8,c,d\n" + "last,7,r",
    "CRLF": written(6, bad=3).replace("\n", "\r\n"),
    "one row without an end": "a,1,b",
    "a name as a value": "name,1,rest\nname,id,rest\n",
    "nulls and empty texts": 'NA,1,""\n,2,\n"NA",3,NA\n',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("pack", ["", ".gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_file_has_the_rows_that_it_would_have_below_its_names(
    tmp_path: Path, text: str, pack: str, encoding: str
) -> None:
    declared = encoding.removesuffix("-sig")
    found = []
    for header in (NAMES, []):
        world = world_of(tmp_path / str(len(header)), header=header, encoding=declared)
        data = ("" if header else "name,id,rest\n") + text
        packed = gzip.compress if pack else bytes
        file = put(world, f"a.csv{pack}", packed(data.encode(encoding)))
        report = world.ingest(file, lower=0, upper=1)
        found.append((report["updates"], report["rejected"], rows_of(world), shown(world)))
    assert found[0] == found[1]
    assert found[0][1] == len(found[0][3])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_large_file_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr(file_ranges, "BLOCK_BYTES", 64)
    monkeypatch.setattr(file_ranges.TextFormat.parts, "__defaults__", (200,))
    monkeypatch.setattr(recode, "CHUNK_BYTES", 53)
    world = world_of(tmp_path, encoding=encoding)
    world.settings = replace(world.settings, ingest=IngestSettings(task_bytes=500))
    file = put(world, "a.csv", written(200, bad=90).encode(encoding))

    report = world.ingest(file, lower=0, upper=1)

    assert (report["updates"], report["rejected"], report["verified"]) == (199, 1, 199)
    assert [row[0] for row in rows_of(world)] == [n for n in range(200) if n != 90]
    assert shown(world) == [
        (90 + 60, "id", "not readable as int64", '"ä90ö",x,ü'.encode(), "name,id,rest")
    ]
    [source] = files_at(str(tmp_path), [file])
    source = replace(source, dialect=Dialect.of(world.state.spec.source))
    pieces = split_file(source, "csv", 500)
    assert len(pieces) > 5 or encoding == "utf-16"
    assert {piece.piece.header for piece in pieces if piece.piece} <= {b""}


def test_small_files_are_read_together(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    for number, text in enumerate(("a,1,b\n", "", "c,2,d", "name,3,rest\n")):
        put(world, f"in/{number}.csv", text.encode())
    files = files_at(str(tmp_path), ["in"])
    [group] = bundles(files, world.state.spec)

    whole = joined(group, "csv", {}, Dialect.of(world.state.spec.source))

    assert whole is not None
    assert whole.piece is not None
    assert whole.piece.data == b"a,1,b\nc,2,d\nname,3,rest\n"
    assert world.ingest("in/", lower=0, upper=1)["updates"] == 3
    assert rows_of(world) == [(1, "a", "b"), (2, "c", "d"), (3, "name", "rest")]


@pytest.mark.parametrize("odd", ["\ufeffc,2,d\n", 'c,2,"d', "c,2,d\rc,3,e\n"])
def test_a_file_that_does_not_join_is_read_by_itself(tmp_path: Path, odd: str) -> None:
    world = world_of(tmp_path)
    put(world, "in/0.csv", b"a,1,b\n")
    put(world, "in/1.csv", odd.encode())
    [group] = bundles(files_at(str(tmp_path), ["in"]), world.state.spec)

    assert joined(group, "csv", {}, Dialect.of(world.state.spec.source)) is None


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    world = world_of(tmp_path)

    for number, data in enumerate((b"", b"\n\n")):
        file = put(world, f"{number}.csv", data)
        assert world.ingest(file, lower=number, upper=number + 1)["updates"] == 0


def test_a_column_with_a_default_needs_no_field(tmp_path: Path) -> None:
    world = world_of(tmp_path, header=["name", "id"])

    world.ingest(put(world, "a.csv", b"a,1\n"), lower=0, upper=1)

    assert rows_of(world) == [(1, "a", "none")]


@pytest.mark.parametrize(
    ("header", "problem", "cure"),
    [
        (["name", "rest"], "lacks a declared column", "name the field in source.header"),
        ([*NAMES, "more"], "does not declare", "each field of a row is stored"),
    ],
)
def test_names_that_are_not_the_columns_are_refused(
    tmp_path: Path, header: list[str], problem: str, cure: str
) -> None:
    world = world_of(tmp_path, header=header)

    with pytest.raises(InvalidRequest, match=problem) as refused:
        world.ingest(put(world, "a.csv", b"a,1,b\n"), lower=0, upper=1)

    assert refused.value.details["setting"] == "source.header"
    assert cure in (refused.value.cure or "")
    assert "line" not in refused.value.details


@pytest.mark.parametrize("header", [["id", "id"], ["id", " "]])
def test_each_field_needs_a_name_of_its_own(tmp_path: Path, header: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="names of their own") as refused:
        world_of(tmp_path, header=header)
    assert refused.value.details["value"] == header[1]


def test_other_formats_have_names_in_their_files(tmp_path: Path) -> None:
    world = world_of(tmp_path, format="jsonl")

    with pytest.raises(InvalidRequest, match="only CSV is written"):
        world.ingest(put(world, "a.jsonl", b'{"id": 1, "name": "a"}\n'), lower=0, upper=1)


def test_the_names_may_be_those_of_the_source(tmp_path: Path) -> None:
    world = world_of(tmp_path, header=["Name", "nr", "rest"], names={"nr": "id", "Name": "name"})

    report = world.ingest(put(world, "a.csv", b"a,1,b\nc,x,d\n"), lower=0, upper=1)

    assert (report["updates"], report["rejected"], report["verified"]) == (1, 1, 1)
    assert rows_of(world) == [(1, "a", "b")]


@pytest.mark.parametrize("names", [{}, {"nr": "id", "Name": "name"}])
def test_a_field_stays_with_its_column(tmp_path: Path, names: dict[str, str]) -> None:
    called = {column: name for name, column in names.items()}
    header = [called.get(name, name) for name in NAMES]
    world = world_of(tmp_path, header=header, names=names)
    for name, to in (("name", "was"), ("rest", "name"), ("was", "rest")):
        change_schema(world.machine, "s", RenameColumn(name, to))

    world.ingest(put(world, "a.csv", b"a,1,b\n"), lower=0, upper=1)

    assert [column.name for column in world.state.relation.columns] == ["id", "rest", "name"]
    assert rows_of(world) == [(1, "a", "b")]


def test_a_name_that_another_field_has_is_not_given_twice(tmp_path: Path) -> None:
    time = {"from": "column", "column": "at"}
    columns = [{"name": "id", "type": "int64"}, {"name": "seen", "type": "timestamp"}]
    source = {**USUAL, "header": ["id", "seen", "at"]}
    world = World(tmp_path, columns=columns, key=["id"], source=source, time=time)

    change_schema(world.machine, "s", RenameColumn("seen", "at"))

    assert world.state.spec.source.header == ("id", "seen", "at")


def test_a_former_name_of_a_field_is_mended_where_it_stands(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    change_schema(world.machine, "s", RenameColumn("name", "call"))
    spec = world.state.spec
    changed = replace(spec, source=replace(spec.source, header=("name", "id", "rest")))
    world.machine.apply("s", partial(redeclare, asked=changed, seen=spec))

    with pytest.raises(InvalidRequest, match="lacks a declared column") as refused:
        world.ingest(put(world, "a.csv", b"a,1,b\n"), lower=0, upper=1)

    assert "call it 'call' in source.header, or declare" in str(refused.value.cure)


def test_a_rejected_row_keeps_its_names(tmp_path: Path) -> None:
    """Its fields were those of its file, whatever other files have by now."""
    world = world_of(tmp_path)
    world.ingest(put(world, "a.csv", b"a,1.000,b\nc,2,d\n"), lower=0, upper=1)
    assert rows_of(world) == [(2, "c", "d")]

    spec = world.state.spec
    source = replace(spec.source, header=("id", "name", "rest"), decimal=",", thousands=".")
    changed = replace(spec, source=source)
    world.machine.apply("s", partial(redeclare, asked=changed, seen=spec))
    [retried] = retry_rejected(world.stores, world.settings, "s")
    upper = world.state.upper
    world.ingest(put(world, "b.csv", b"3,e,f\n"), lower=upper, upper=upper + 1)

    assert (retried.rows, retried.taken) == (1, 1)
    assert rows_of(world) == [(2, "c", "d"), (3, "e", "f"), (1000, "a", "b")]


def test_a_proposal_takes_the_names_from_a_person(cli: Cli) -> None:
    file = cli.root / "visits.csv"
    file.write_text("2024-01-31,7,start\n2024-02-01,8,end\n")
    found = cli.json("create", "visits", "--infer", str(file))
    assert found["declaration"]["columns"][1]["name"] == "7"
    [note] = found["notes"]
    assert "visits.csv: line 1 is read as the names of columns, and one is 7" in note

    out = str(cli.root / "visits.yaml")
    asked = ("--infer", str(file), "--header", "day, count,page", "--key", "day", "--out", out)
    found = cli.json("create", "visits", *asked)

    assert found["declaration"]["source"]["header"] == ["day", "count", "page"]
    assert [c["type"] for c in found["declaration"]["columns"]] == ["date", "int64", "string"]
    assert found["notes"] == []
    cli.json("create", "visits", "--spec", out)
    assert cli.json("ingest", "visits", "--from", str(file))["updates"] == 2


def test_a_first_row_that_is_taken_for_names_is_refused_with_the_cure(cli: Cli) -> None:
    file = cli.root / "visits.csv"
    file.write_text("7,7,start\n8,7,end\n")

    code, _, err = cli.run("create", "visits", "--infer", str(file))

    assert code == 2
    assert "if the first line is a row, name the fields: source.header" in err


def test_a_header_of_other_formats_is_refused(cli: Cli) -> None:
    file = cli.root / "visits.jsonl"
    file.write_text('{"a": 1}\n')

    code, _, err = cli.run("create", "visits", "--infer", str(file), "--header", "a")

    assert code == 2
    assert "a header is said of CSV only" in err
