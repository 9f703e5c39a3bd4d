"""The marks in numbers of files to infer from: proposed where they decide themselves, and said."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from strata.ingest.engine import ingest_steps
from strata.ingest.land.files import files_at
from strata.ingest.readers.found_numerals import USUAL, looks_like_numbers, marks_of
from strata.ingest.readers.infer import infer
from strata.ingest.task import Step
from strata.model.spec import parse_spec
from tests.unit.ingest.test_engine import World


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


@pytest.mark.parametrize(
    ("columns", "marks"),
    [
        ([["1,5", "2"]], (",", "")),
        ([["1,5", "-Inf"], ["Infinity"]], (",", "")),
        ([["1.234,56"]], (",", ".")),
        ([["1 234,56"]], (",", " ")),
        ([["1\u202f234,5", "7"]], (",", "\u202f")),
        ([["1,234.56"]], (".", ",")),
        ([["1,234,567"]], (".", ",")),
        ([["1'234"]], (".", "'")),
        ([["1'234,5"]], (",", "'")),
        ([["1’234.50"]], (".", "’")),
        ([["1,5"], ["1.234"]], (",", ".")),  # one file has one way
        ([["1,5"], ["1.2.2024"], ["a"], ["10.0.0.1"]], (",", "")),
    ],
)
def test_marks_that_decide_themselves(columns: list[list[str]], marks: tuple[str, str]) -> None:
    assert marks_of([texts(*column) for column in columns]) == marks


@pytest.mark.parametrize(
    "columns",
    [
        [["1,234"]],  # a fraction, or a thousand
        [["1.5", "2.25"]],
        [["1,5"], ["1.5"]],  # two ways in one file
        [["1,5"], ["5."]],
        [["1,5"], ["1.5", "Infinity"]],  # floats, too
        [["1,5"], ["-inf", "0.25", "NAN"]],
        [["1.234,5"], [".5", "7"]],
        [["1,5", "a"]],
        [["1 234"]],  # may be a number of a house, or of a phone
        [["0049,5"]],
        [["12,34,567"]],
        [["1,5", "2,3,4"]],
        [["01.02.2024"]],
        [[None]],
        [[]],
    ],
)
def test_marks_that_decide_nothing(columns: list[list[Any]]) -> None:
    assert marks_of([texts(*column) for column in columns]) == USUAL


def test_only_digits_and_marks_look_like_numbers() -> None:
    assert looks_like_numbers(texts("1,5", " -7 ", None, "1,2e5"))
    assert not looks_like_numbers(texts("1", "2"))  # without marks
    assert not looks_like_numbers(texts("1,5", "x"))
    assert not looks_like_numbers(texts(None))


def test_how_numbers_are_read_is_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    rows = "".join(f"{n};{n}.000,5;{n},25;-;{n}.500\n" for n in range(10, 40))
    world.put("x.csv", f"id;sum;rate;none;pop\n{rows}99;1;NULL;1,5;7\n")

    found = infer(world.settings, "new", "x.csv")

    source = found.declaration["source"]
    assert (source["decimal"], source["thousands"]) == (",", ".")
    assert source["nulls"] == ["", "-", "NULL"]
    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    number = "float64"
    assert types == {"id": "int64", "sum": number, "rate": number, "none": number, "pop": "int64"}
    assert "sum: 10.000,5 is read as 10000.5 (source.decimal: ',', source.thousands: '.')" in str(
        found.notes
    )
    assert "pop: 10.500 is read as 10500" in str(found.notes)
    world.machine.create(parse_spec(found.declaration))
    step = Step(0, 1, "t", tuple(files_at(str(tmp_path), ["x.csv"])))
    [report] = ingest_steps(world.stores, world.settings, "new", [step])
    assert (report.updates, report.counts.rejected) == (31, 0)


def test_marks_of_rows_with_diffs_are_said_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("x.csv", "id;sum;diff\n1;1,5;1\n2;2,5;-1\n")

    found = infer(world.settings, "new", "x.csv", envelope="diff")

    assert found.declaration["source"]["decimal"] == ","
    assert found.notes[0].startswith("sum: 1,5 is read as 1.5 (source.decimal: ',')")


def test_what_nothing_decides_stays_text_and_is_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("x.csv", "id;a;b\n1;1,234;1.5\n2;5,678;2.5\n")

    found = infer(world.settings, "new", "x.csv")

    assert "decimal" not in found.declaration["source"]
    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert types == {"id": "int64", "a": "string", "b": "float64"}
    [note] = found.notes
    assert note.startswith("a: texts as 1,234 look like numbers, and nothing decides which")


@pytest.mark.parametrize("rate", ["1.5", "1,5"])
def test_an_empty_field_in_quotes_hides_no_column_of_numbers(tmp_path: Path, rate: str) -> None:
    """The column counted as one of texts: it contradicted no comma, and its rows were refused."""
    world = World(tmp_path)
    file = world.put("x.csv", f'"a";"b"\n"1.234,56";""\n"7,5";"{rate}"\n"8,5";"{rate}"\n')

    found = infer(world.settings, "new", "x.csv")

    types = [c["type"] for c in found.declaration["columns"]]
    assert types == ["string" if rate == "1.5" else "float64", "float64"]
    world.machine.create(parse_spec(found.declaration))
    step = Step(0, 1, "t", tuple(files_at(str(tmp_path), [file])))
    [report] = ingest_steps(world.stores, world.settings, "new", [step])
    assert (report.updates, report.counts.rejected) == (3, 0)


def test_versions_are_doubted_with_a_comma_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("x.csv", "v;n\n1,1;5\n1,10;6\n1,2;7\n")

    notes = infer(world.settings, "new", "x.csv").notes

    assert any("are read as one number" in note for note in notes)
