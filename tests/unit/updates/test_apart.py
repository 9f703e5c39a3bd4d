"""A part stands apart to its last byte, its last key and its first time, and no further."""

from dataclasses import replace

import pytest

from strata.format.manifest import PartRef
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates.apart import standing_apart
from tests.support.stored import spec_of
from tests.unit.updates.test_overlaps import PART as BARE

RELATION = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())
SPEC = spec_of(RELATION, part_bytes=100, write_format="both")
SINCE = 7
PART = replace(
    BARE,
    size_bytes=50,
    t_low=SINCE,
    layout="both",
    stats_version=1,
    key_low=b"c",
    key_high=b"d",
)


def kept(*parts: PartRef) -> list[bytes]:
    found = standing_apart(parts, SPEC, RELATION, SINCE)
    return [ref.key_low for ref in found]


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        (PART, True),
        (replace(PART, size_bytes=49), False),
        (replace(PART, t_low=SINCE - 1), False),
        (replace(PART, layout="structured"), False),
        (replace(PART, stats_version=None), False),
        (replace(PART, order=(2,)), False),
        (replace(PART, relation_version=1), False),
    ],
)
def test_a_part_is_kept_if_it_would_be_written_just_so(part: PartRef, whole: bool) -> None:
    assert kept(part) == ([b"c"] if whole else [])


def test_a_part_of_rows_needs_no_statistics() -> None:
    spec = replace(SPEC, write_format="row")
    part = replace(PART, layout="row", stats_version=None)

    assert standing_apart([part], spec, RELATION, SINCE) == [part]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (b"a", b"b", [b"a", b"c"]),
        (b"a", b"c", []),
        (b"d", b"e", []),
        (b"d\0", b"e", [b"c", b"d\0"]),
        (b"a", None, []),
        (b"e", None, [b"c", b"e"]),
    ],
)
def test_keys_that_meet_are_merged(low: bytes, high: bytes | None, expected: list[bytes]) -> None:
    assert kept(PART, replace(PART, key_low=low, key_high=high)) == expected
