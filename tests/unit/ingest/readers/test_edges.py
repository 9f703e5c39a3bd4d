"""Rules of readers that decide at an edge, each by itself."""

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from strata.ingest.readers import examined
from strata.ingest.readers.avro_blocks import length_of
from strata.ingest.readers.columns import named_by_source
from strata.ingest.readers.cures import is_variant
from strata.ingest.readers.examined import LOOKED_BYTES, raw_files
from strata.ingest.readers.formats.orc import _has_clock
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
