"""CSV with blanks around its fields: they are no part of them, if the source says so."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.ingest.engine import ingest
from strata.ingest.quarantine import rejected
from strata.ingest.readers import file_ranges
from strata.ingest.readers.infer import infer
from strata.model.spec import parse_spec
from tests.unit.ingest.test_encodings import put
from tests.unit.ingest.test_engine import World

COLUMNS = [
    {"name": "id", "type": "int64"},
    {"name": "text", "type": "string"},
    {"name": "at", "type": "date"},
]
PADDED = b"""id,                 text,         at
 1,   "say ""hi"", all"  , 2026-01-01
 2,                plain,  2026-01-02
3,\t"  its own  "\t,
 4,                     ,
   \t
"""
ROWS = [
    (1, 'say "hi", all', "2026-01-01"),
    (2, "plain", "2026-01-02"),
    (3, "  its own  ", "None"),
    (4, None, "None"),
]


def world_of(root: Path, **source: Any) -> World:
    source = {"format": "csv", "max_rejected": 0.9, "verify": "always", "nulls": [""], **source}
    return World(root, columns=COLUMNS, key=["id"], source=source)


def rows_of(world: World) -> list[tuple[Any, ...]]:
    return sorted((number, text, str(at)) for number, text, at, *_ in world.rows())


@pytest.mark.parametrize("pack", ["", ".gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_blanks_are_no_part_of_fields(tmp_path: Path, pack: str, encoding: str) -> None:
    world = world_of(tmp_path, skip_blanks=True, encoding=encoding)
    data = PADDED.decode().encode(encoding)
    file = put(world, f"a.csv{pack}", gzip.compress(data) if pack else data)

    report = world.ingest(file, lower=0, upper=1)

    assert (report["updates"], report["rejected"], report["verified"]) == (4, 0, 4)
    assert rows_of(world) == ROWS


def test_a_file_in_parts_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_ranges, "BLOCK_BYTES", 7)
    monkeypatch.setattr(file_ranges, "PART_BYTES", 20)
    monkeypatch.setattr("strata.ingest.land.recode.CHUNK_BYTES", 5)
    world = world_of(tmp_path, skip_blanks=True)

    world.ingest(put(world, "a.csv.gz", gzip.compress(PADDED)), lower=0, upper=1)

    assert rows_of(world) == ROWS


def test_small_files_are_read_together(tmp_path: Path) -> None:
    world = world_of(tmp_path, skip_blanks=True)
    for number in range(9):
        put(world, f"in/{number}.csv", f'id, text, at\n{number}, "a, b" ,\n'.encode())

    report = world.ingest(str(world.root / "in"), lower=0, upper=1)

    assert (report["updates"], report["rejected"]) == (9, 0)
    assert {row[1] for row in rows_of(world)} == {"a, b"}


def test_a_rejected_row_is_read_again_without_its_blanks(tmp_path: Path) -> None:
    world = world_of(tmp_path, skip_blanks=True)
    world.ingest(put(world, "a.csv", b'id, text, at\n1, b,\n 2,50, "a, b",\n'), lower=0, upper=1)
    [found] = rejected(world.stores, "s")
    assert found.rows[0]["raw"] == b'2,50,"a, b",'
    assert found.rows[0]["line"] == 3


def test_without_the_setting_blanks_are_letters(tmp_path: Path) -> None:
    world = world_of(tmp_path, names={"  text": "text"})

    world.ingest(put(world, "a.csv", b'id,  text,at\n1,  "a",\n2, ,\n'), lower=0, upper=1)

    assert [row[:2] for row in rows_of(world)] == [(1, '  "a"'), (2, " ")]


def test_blanks_that_are_the_delimiter_stay(tmp_path: Path) -> None:
    world = world_of(tmp_path, skip_blanks=True, delimiter="\t")

    world.ingest(put(world, "a.csv", b'id\ttext\tat\n1\t\t\n2\t  "a" \t\n'), lower=0, upper=1)

    assert [row[:2] for row in rows_of(world)] == [(1, None), (2, "a")]


def test_a_field_that_goes_on_behind_its_quotes_hides_nothing(tmp_path: Path) -> None:
    """It is read as if blanks were not skipped: two lines that do not fit, not one that does."""
    world = world_of(tmp_path, skip_blanks=True)
    file = put(world, "a.csv", b'id,text,at\n1, "a" "b\nc",\n2, "d",\n')

    report = world.ingest(file, lower=0, upper=1)

    assert (report["updates"], report["rejected"]) == (1, 2)


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (PADDED, ["id", "text", "at"]),
        (b'id,text,at\n1, "a, b", 2026-01-01\n', ["id", "text", "at"]),
        (b'id;text;at\n1; "a; b"; 2026-01-01\n', ["id", "text", "at"]),
    ],
)
def test_a_file_with_blanks_before_all_its_fields_is_proposed_so(
    tmp_path: Path, data: bytes, names: list[str]
) -> None:
    world = world_of(tmp_path)
    file = put(world, "a.csv", data)

    found = infer(world.settings, "t", file)

    assert [column["name"] for column in found.declaration["columns"]] == names
    assert found.declaration["source"]["skip_blanks"] is True
    assert "names" not in found.declaration["source"]
    assert any("blanks before fields are left out" in note for note in found.notes)
    world.machine.create(parse_spec({**found.declaration, "name": "t"}))
    report = ingest(world.stores, world.settings, "t", paths=[file]).to_json()
    assert (report["rejected"], report["updates"] > 0) == (0, True)


@pytest.mark.parametrize(
    ("other", "skips"),
    [
        (b"id, text\n", True),
        (b"id, text", True),
        (b'id, text\n2, "c"\n', True),
        (b"id, text\n2,c\n", False),
    ],
)
def test_one_file_without_blanks_is_enough_to_keep_them(
    tmp_path: Path, other: bytes, skips: bool
) -> None:
    world = world_of(tmp_path)
    put(world, "in/a.csv", b"id, text\n1, a\n")
    put(world, "in/b.csv", other)

    found = infer(world.settings, "t", str(world.root / "in")).declaration

    assert found["source"].get("skip_blanks", False) is skips


@pytest.mark.parametrize(
    ("data", "noted"),
    [
        (b"id,text\n1, a\n2, b\n", False),  # they may be the text's own
        (b"id, text\n1,a\n2, b\n", False),
        (b'id,text\n1,a\n2, "b"\n', True),
    ],
)
def test_blanks_of_some_fields_are_letters_in_a_proposal(
    tmp_path: Path, data: bytes, noted: bool
) -> None:
    world = world_of(tmp_path)

    found = infer(world.settings, "t", put(world, "a.csv", data))

    assert "skip_blanks" not in found.declaration["source"]
    assert any("quotes behind blanks are letters" in note for note in found.notes) is noted


def test_only_csv_has_blanks_to_skip(tmp_path: Path) -> None:
    world = world_of(tmp_path, format="jsonl", skip_blanks=True)

    with pytest.raises(InvalidRequest, match="only CSV is written in ways") as refused:
        world.ingest(put(world, "a.jsonl", b'{"id": 1}\n'), lower=0, upper=1)

    assert refused.value.details["setting"] == "source.skip_blanks"
