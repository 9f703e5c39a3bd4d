"""CSV whose rows end with a delimiter, as TPC-H's files do: the same rows as without it."""

import gzip
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from strata.errors import InvalidRequest
from strata.ingest.readers import file_ranges
from strata.ingest.retry import retry_rejected
from strata.maintain.schema import change_schema
from strata.model.settings import IngestSettings
from strata.state.declare import redeclare
from strata.state.schema import RenameColumn
from tests.unit.cli.test_commands import Cli
from tests.unit.ingest.test_csv_without_names import NAMES, put, rejects, rows_of, world_of

ENDED = [*NAMES, ""]
BEHIND = "something stands behind the last delimiter, where the header has no name"
ROWS = [
    "a,1,b",
    'NA,2,""',
    '"ä\nö",3,',
    ",4,NA",
    '"c""d",5,"e,f"',
    "name,6,rest",
    "x,x,x",
    '"g",7,""',
]


@pytest.mark.parametrize("pack", ["", ".gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_a_file_has_the_rows_that_it_has_without_its_ends(
    tmp_path: Path, pack: str, encoding: str, line: str
) -> None:
    found = []
    for header, end in ((NAMES, ""), (ENDED, ",")):
        world = world_of(tmp_path / str(len(header)), header=header, encoding=encoding)
        data = line.join(f"{row}{end}" for row in ROWS).encode(encoding)
        file = put(world, f"a.csv{pack}", gzip.compress(data) if pack else data)
        report = world.ingest(file, lower=0, upper=1)
        bad = [(r["line"], r["column_name"], r["reason"]) for r in rejects(world)]
        found.append((report["updates"], report["verified"], rows_of(world), bad))
    assert found[0] == found[1]
    assert found[0][:2] == (7, 7)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,1,b,x", BEHIND),
        ("a,1,b,NA", BEHIND),
        ('a,1,b,"x"', BEHIND),
        ("a,1,b, ", BEHIND),
        ("a,1,b", "3 fields where the header has 4"),
        ("a,1,b,,", "5 fields where the header has 4"),
    ],
)
@pytest.mark.parametrize("first", ["", "c,2,d,\n", '"c\nc",2,d,\n\nx\n'])
def test_a_row_that_ends_otherwise_is_rejected(
    tmp_path: Path, row: str, reason: str, first: str
) -> None:
    world = world_of(tmp_path, header=ENDED)

    world.ingest(put(world, "a.csv", f"{first}{row}\ne,3,f,\n".encode()), lower=0, upper=1)

    assert rows_of(world)[-1] == (3, "e", "f")
    assert len(rows_of(world)) == 1 + first.count("2")
    last = rejects(world)[-1]
    shown = (last["line"], last["reason"], last["raw"], last["header"])
    assert shown == (first.count("\n") + 1, reason, row.encode(), "name,id,rest,")


def test_a_large_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_ranges, "BLOCK_BYTES", 64)
    monkeypatch.setattr(file_ranges.TextFormat.parts, "__defaults__", (200,))
    world = world_of(tmp_path, header=ENDED)
    world.settings = replace(world.settings, ingest=IngestSettings(task_bytes=500))
    rows = [f'"ä\n{n}",{n},ü,{"x" if n == 90 else ""}\n' for n in range(200)]

    report = world.ingest(put(world, "a.csv", "".join(rows).encode()), lower=0, upper=1)

    assert (report["updates"], report["rejected"], report["verified"]) == (199, 1, 199)
    assert [row[0] for row in rows_of(world)] == [n for n in range(200) if n != 90]
    assert [(row["line"], row["reason"]) for row in rejects(world)] == [(181, BEHIND)]


def test_small_files_are_read_together(tmp_path: Path) -> None:
    world = world_of(tmp_path, header=ENDED)
    for number, text in enumerate(("a,1,b,\n", "", "c,2,d,", "e,3,f,x\n")):
        put(world, f"in/{number}.csv", text.encode())

    report = world.ingest("in/", lower=0, upper=1)

    assert (report["updates"], report["rejected"]) == (2, 1)
    assert rows_of(world) == [(1, "a", "b"), (2, "c", "d")]


def test_a_rejected_row_is_read_again_by_its_names(tmp_path: Path) -> None:
    world = world_of(tmp_path, header=ENDED)
    world.ingest(put(world, "a.csv", b"a,1.000,b,\nc,2,d,\ne,3.000,f,x\n"), lower=0, upper=1)
    change_schema(world.machine, "s", RenameColumn("name", "call"))

    spec = world.state.spec
    assert spec.source.header == ("call", "id", "rest", "")
    changed = replace(spec, source=replace(spec.source, decimal=",", thousands="."))
    world.machine.apply("s", partial(redeclare, asked=changed, seen=spec))
    [retried] = retry_rejected(world.stores, world.settings, "s")

    assert (retried.rows, retried.taken, retried.reason) == (2, 1, BEHIND)
    assert rows_of(world) == [(2, "c", "d"), (1000, "a", "b")]


def test_a_file_whose_rows_all_end_so_is_refused_with_the_cure(tmp_path: Path) -> None:
    world = world_of(tmp_path)

    with pytest.raises(InvalidRequest, match="no row of the file fits") as refused:
        world.ingest(put(world, "a.csv", b"a,1,b,\nc,2,d,\n"), lower=0, upper=1)

    assert 'with an empty one (id, name, "")' in str(refused.value.cure)


@pytest.mark.parametrize("header", [[""], ["id", "", "name"], ["id", "name", "", ""], ["id", " "]])
def test_only_the_last_of_several_names_may_be_empty(tmp_path: Path, header: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="names of their own"):
        world_of(tmp_path, header=header)


def test_a_proposal_takes_them_from_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(tmp_path, capsys)
    file = tmp_path / "lines.tbl"
    file.write_text("1|7.25|start|\n2|8.50|end|\n")
    out = str(tmp_path / "lines.yaml")
    asked = ("--infer", str(file), "--format", "csv", "--header", "id,price,note,", "--key", "id")

    found = cli.json("create", "lines", *asked, "--out", out)

    assert found["declaration"]["source"]["header"] == ["id", "price", "note", ""]
    assert [c["type"] for c in found["declaration"]["columns"]] == ["int64", "float64", "string"]
    cli.json("create", "lines", "--spec", out)
    assert cli.json("ingest", "lines", "--from", str(file))["updates"] == 2
