"""Rules of readers that decide at an edge, each by itself."""

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from strata.errors import InvalidRequest
from strata.ingest.land.source_file import SourceFile
from strata.ingest.readers import examined, found_form
from strata.ingest.readers.avro_blocks import length_of
from strata.ingest.readers.columns import named_by_source
from strata.ingest.readers.csv_doubts import null_words
from strata.ingest.readers.cures import is_variant
from strata.ingest.readers.examined import LOOKED_BYTES, raw_files
from strata.ingest.readers.formats import json as json_format
from strata.ingest.readers.formats.orc import _has_clock
from strata.ingest.readers.jsonl import one_by_one
from strata.ingest.readers.objects import Objects
from strata.ingest.readers.orc_tail import MOST_BYTES, _unpacked
from strata.ingest.twin.exact import shortest
from strata.ingest.twin.moments import iso_text
from strata.ingest.twin.unreadable import Undecided
from strata.model.schema import Column, Relation
from strata.model.types import parse_type


@pytest.mark.parametrize(
    ("data", "length"), [(b"\x05", 5), (b"\xac\x02", 300), (b"\xff\xff\x7f", 2**21 - 1)]
)
def test_a_packed_block_states_its_length_in_groups_of_seven_bits(data: bytes, length: int) -> None:
    assert length_of(data + b"packed") == length


@pytest.mark.parametrize(
    ("inside", "is_one"),
    [
        (["metadata", "value"], True),
        (["metadata", "typed_value"], True),
        (["metadata"], False),
        (["value", "typed_value"], False),
        (["metadata", "value", "other"], False),
    ],
)
def test_a_variant_has_metadata_and_a_value(inside: list[str], is_one: bool) -> None:
    kind = pa.struct([(name, pa.binary()) for name in inside])

    assert is_variant(kind) == is_variant(pa.list_(kind)) == is_one


def test_a_clock_without_a_zone_is_found_beside_other_values() -> None:
    assert _has_clock(pa.struct([("n", pa.int64()), ("t", pa.timestamp("us"))]))
    assert not _has_clock(pa.struct([("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))]))
    assert not _has_clock(pa.int64())


def test_columns_have_the_names_of_their_source_where_it_has_others() -> None:
    relation = Relation(0, (Column(1, "id", parse_type("int64")),), (1,), ())

    assert named_by_source(relation, {}) is relation
    assert [c.name for c in named_by_source(relation, {"id": "ID"}).columns] == ["ID"]


def test_files_behind_a_large_one_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examined, "parse_spec", lambda _: SimpleNamespace(relation=lambda: None))
    monkeypatch.setattr(examined, "read_file", lambda file, *_: [file.name])
    sizes = {"large": 2 * LOOKED_BYTES + 1, "small": 2 * LOOKED_BYTES}
    files: Any = [SimpleNamespace(name=n, load_bytes=size) for n, size in sizes.items()]

    assert [*raw_files({}, files, [])] == ["small"]


@pytest.mark.parametrize("width", ["d", "f", "e"])
def test_both_zeros_have_a_text(width: str) -> None:
    assert (shortest(0.0, width), shortest(-0.0, width)) == ("0.0", "-0.0")


def test_a_time_that_python_has_cut_is_not_decided() -> None:
    assert iso_text(5, pa.date32()) == "1970-01-06"
    with pytest.raises(Undecided):
        iso_text(datetime(2026, 1, 1), pa.timestamp("ns"))  # noqa: DTZ001 - a wall clock


FILE = SourceFile("/f.csv", "f.csv", 9)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["1.5", "NaN", "2"], set()),  # a number
        (["1.5", "NaN", "null"], {"null"}),
        (["NaN", "2024-01-01"], {"NaN"}),
        (["NaN", "text"], set()),
    ],
)
def test_nan_is_no_null_among_numbers(values: list[str], words: set[str]) -> None:
    assert null_words(pa.table({"a": values})) == words


@pytest.mark.parametrize("wrong", ["", "check_quotes", "check_escapes", "check_swallowed"])
def test_a_file_can_be_read_if_no_check_refuses_it(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    def refuse(*_: object) -> None:
        raise InvalidRequest("it cannot be", cure="mend it")

    for name in ("check_quotes", "check_escapes", "check_swallowed"):
        monkeypatch.setattr(found_form, name, refuse if name == wrong else lambda *_: None)
    for name in ("beginning", "read_text"):
        monkeypatch.setattr(found_form, name, lambda *_: b"")

    assert found_form._reads(FILE, 9, True) is not bool(wrong)


def test_one_doubt_of_all_files_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_format, "read_array", lambda _: SimpleNamespace(values=None))
    monkeypatch.setattr(json_format, "note_of_rows", lambda *_: "a note")

    assert list(json_format.FORMAT.doubts([FILE, FILE], None, {})) == ["a note"]


def test_an_object_without_any_column_is_rejected_among_those_read_one_by_one() -> None:
    found = Objects([{"a": 1}, {"other": 2}, {"a": 3}], [1, 2, 3], str, [])

    raw = one_by_one(FILE, found, ["a"], ())

    assert (raw.count, list(raw.columns["a"])) == (2, [1, 3])
    assert [one.line for one in raw.malformed] == [2]


@pytest.mark.parametrize("size", [3, MOST_BYTES + 1])
def test_a_footer_that_would_be_too_long_is_not_unpacked(size: int) -> None:
    if size > MOST_BYTES:
        stated = bytes(
            [size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21]
        )
        with pytest.raises(ValueError, match="a footer that is too long"):
            _unpacked(stated, "snappy")
    else:
        assert _unpacked(pa.Codec("snappy").compress(b"x" * size, asbytes=True), "snappy") == b"xxx"
