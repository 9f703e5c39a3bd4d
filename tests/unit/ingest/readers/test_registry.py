"""Every source format and envelope has all that one needs, in code, documents and the wall."""

from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.ingest.land.files import PACKINGS, SourceFile
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.file_ranges import TextFormat
from strata.ingest.readers.formats.interface import KEPT, Format, format_of
from strata.ingest.readers.messages import MESSAGES
from strata.ingest.updates import check_spec
from strata.model.spec import ENVELOPES, FORMATS, parse_spec
from tests.fuzz.sources import SOURCES as FUZZED
from tests.wall.cells import SOURCES as WALL

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "strata" / "ingest" / "readers" / "formats"
COLUMNS = [{"name": "id", "type": "int64", "nullable": False}, {"name": "v", "type": "string"}]


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_what_it_needs(name: str) -> None:
    found = format_of(name)

    assert {"read", "guesses"} <= overridden(found)
    assert isinstance(found, TextFormat) or "ranges" in overridden(found)
    assert found.suffixes
    assert all(suffix.startswith(".") and suffix not in PACKINGS for suffix in found.suffixes)
    assert set(found.envelopes) <= set(ENVELOPES)
    assert "append" in found.envelopes
    assert found.joins == ("joined" in overridden(found))


def overridden(found: Format) -> set[str]:
    """Return what a format does by itself."""
    classes = type(found).__mro__[: type(found).__mro__.index(Format)]
    return {name for one in classes for name in vars(one)}


def test_modules_and_names_are_the_same() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} - {"__init__", "interface"} == {
        *FORMATS,
        KEPT,
    }


def test_a_suffix_has_one_format() -> None:
    suffixes = [suffix for name in FORMATS for suffix in format_of(name).suffixes]

    assert sorted(suffixes) == sorted(set(suffixes))


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_its_row_in_the_documents(name: str) -> None:
    [row] = [
        line
        for page in (ROOT / "docs").rglob("*.md")
        for line in page.read_text().splitlines()
        if line.startswith(f"| `{name}` |")
    ]

    assert all(f"`{suffix}`" in row for suffix in format_of(name).suffixes)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_stands_in_the_wall_and_is_fuzzed(name: str) -> None:
    assert name in {source.spec.get("format") for source in WALL.values()}
    assert name in {source.format for source in FUZZED.values()}


def test_an_envelope_says_how_its_messages_are_read() -> None:
    assert set(MESSAGES) == set(ENVELOPES)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_format_is_refused_with_an_envelope_that_it_cannot_have(name: str, envelope: str) -> None:
    declared: dict[str, Any] = {"name": "s", "columns": COLUMNS, "key": ["id"]}
    spec = parse_spec({**declared, "source": {"format": name, "envelope": envelope}})

    if envelope in format_of(name).envelopes:
        check_spec(spec, spec.relation())
    else:
        with pytest.raises(InvalidRequest, match="cannot have this envelope"):
            check_spec(spec, spec.relation())


class Bare(Format):
    """A format that says only what it must."""

    def read(self, file: Any, columns: Any) -> Any:
        """See `Format`."""

    def guesses(self, file: Any, envelope: str) -> Any:
        """See `Format`."""


def test_a_format_that_does_not_say_so_is_not_cut_has_no_dialect_and_joins_no_files() -> None:
    bare = Bare()
    file = SourceFile("/x", "x", 1)

    assert (bare.ranges(file, 1), bare.dialect([file])) == ((), None)
    assert bare.joined([b"x"], Dialect()) is None
    assert not bare.joins
    assert bare.row_text is None
    assert "debezium" not in bare.envelopes
