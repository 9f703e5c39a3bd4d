"""Slices cover the key space once and are about equally heavy, wherever row groups begin."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.manifest import PartRef
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates.cut import between, cut
from strata.updates.slices import WHOLE, Slice
from tests.unit.updates.test_slices import ref_of

TEXT = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())


def part(keys: list[bytes], group_rows: int, limit: int = 64) -> PartRef:
    """Return a part of 100 bytes a row."""
    found = ref_of(sorted(keys), list(range(0, len(keys), group_rows)), limit, TEXT)
    return replace(found, key=str(hash(tuple(keys))), size_bytes=100 * len(keys))


def rows(keys: list[bytes], piece: Slice) -> int:
    """Count the keys that lie in a slice, one by one."""
    return sum(piece.low <= key and (piece.high is None or key < piece.high) for key in keys)


def cut_of(parts: list[PartRef], slice_bytes: int) -> list[Slice]:
    """Cut, and see that every key lies in one slice."""
    pieces = cut(parts, TEXT, [TEXT], slice_bytes)
    assert pieces[0].low == b""
    assert pieces[-1].high is None
    assert all(a.high == b.low and a.low < b.low for a, b in pairwise(pieces))
    return pieces


def test_as_few_slices_as_can_be() -> None:
    keys = [f"{n:04}".encode() for n in range(1000)]
    parts = [part(keys, 100) for _ in range(10)]

    assert len(cut_of(parts, 250_000)) == 4
    assert len(cut_of(parts, 249_999)) == 4
    assert len(cut_of(parts, 240_000)) == 5
    assert cut_of(parts, 10**7) == [WHOLE]
    assert cut_of([], 1) == [WHOLE]


@pytest.mark.parametrize(("runs", "slices", "most"), [(2, 2, 1.04), (8, 2, 1.04), (20, 7, 1.1)])
def test_runs_with_few_row_groups_are_cut_evenly(runs: int, slices: int, most: float) -> None:
    chance = random.Random(runs)
    every = [
        [b"\x01" + chance.randrange(2**40).to_bytes(5, "big") for _ in range(1100)]
        for _ in range(runs)
    ]
    pieces = cut_of([part(keys, 200) for keys in every], 110_000 * runs // slices)

    counts = [sum(rows(keys, piece) for keys in every) for piece in pieces]
    assert len(counts) == slices
    assert max(counts) < most * sum(counts) / slices


def test_a_narrow_group_does_not_upset_what_comes_behind_it() -> None:
    narrow = part([b"\x01" + b"a" * 50 + bytes([n]) for n in range(100)], 50)
    wide = part([b"\x01" + bytes([n, 0]) for n in range(200)], 50)

    pieces = cut_of([narrow, wide], 10_000)

    keys = [b"\x01" + bytes([n, 0]) for n in range(200)]
    counts = [rows(keys, piece) for piece in pieces]
    assert counts == pytest.approx([97, 3, 100], abs=3)


@pytest.mark.parametrize("shared", [60, 100, 300])
def test_keys_that_begin_alike_are_cut_evenly_where_what_follows_is_known(shared: int) -> None:
    chance = random.Random(shared)
    alike = b"\x01" + b"p" * shared
    beginnings = [b"\x00", alike, alike, b"\x02"]
    every = [
        [beginnings[n % 4] + chance.randrange(2**40).to_bytes(5, "big") for n in range(900)]
        for _ in range(8)
    ]
    pieces = cut_of([part(keys, 100, 1024) for keys in every], 100_000)

    counts = [sum(rows(keys, piece) for keys in every) for piece in pieces]
    assert len(counts) == 8
    assert max(counts) < 1.4 * sum(counts) / 8  # 8 row groups are about the border

    counts = [
        sum(rows(keys, piece) for keys in every)
        for piece in cut_of([part(keys, 100, 64) for keys in every], 100_000)
    ]
    assert sum(counts) == 8 * 900
    assert (max(counts) > 3 * sum(counts) / 8) == (shared > 64)  # they stay together


KEYS = st.tuples(st.sampled_from([b"", b"s" * 64, b"s" * 140]), st.binary(max_size=4)).map(b"".join)


@given(
    st.lists(st.lists(KEYS, min_size=1, max_size=40), min_size=1, max_size=5),
    st.integers(1, 12), st.integers(1, 5000), st.sampled_from([64, 66, 1024]),
)  # fmt: skip
def test_every_row_lies_in_one_slice(
    runs: list[list[bytes]], group_rows: int, slice_bytes: int, limit: int
) -> None:
    pieces = cut_of([part(keys, group_rows, limit) for keys in runs], slice_bytes)

    for keys in runs:
        assert sum(rows(keys, piece) for piece in pieces) == len(keys)
    assert len(pieces) <= -(-sum(100 * len(keys) for keys in runs) // slice_bytes)


@given(st.binary(max_size=20), st.binary(max_size=20), st.floats(0, 1))
def test_a_key_between_lies_between(a: bytes, b: bytes, part: float) -> None:
    low, high = sorted([a, b])

    assert low <= between(low, high, part) <= high
