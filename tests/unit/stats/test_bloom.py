"""Split-block bloom filters have Parquet's layout, and lack no value that they were made from."""

from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.stats.bloom import BLOCK_BYTES, SALTS, bloom_hashes, hold_all, may_hold, split_blocks_of

VALUES = st.lists(st.binary(max_size=80), unique=True, max_size=60)
MASK: Final = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def turned(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & MASK


def mixed(state: int, word: int) -> int:
    return turned((state + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes) -> int:
    """Return XXH64 with the seed 0, as its specification writes it."""
    at = 0
    if len(data) >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        while at + 32 <= len(data):
            words = [int.from_bytes(data[at + 8 * n : at + 8 * n + 8], "little") for n in range(4)]
            lanes = [mixed(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        state = sum(turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            state = ((state ^ mixed(0, lane)) * P1 + P4) & MASK
    else:
        state = P5
    state = (state + len(data)) & MASK
    while at + 8 <= len(data):
        word = int.from_bytes(data[at : at + 8], "little")
        state = (turned(state ^ mixed(0, word), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(data):
        word = int.from_bytes(data[at : at + 4], "little")
        state = (turned(state ^ (word * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        state = turned(state ^ (byte * P5 & MASK), 11) * P1 & MASK
    state = (state ^ (state >> 33)) * P2 & MASK
    state = (state ^ (state >> 29)) * P3 & MASK
    return state ^ (state >> 32)


def is_in(bits: bytes, value: bytes) -> bool:
    """Look a value up as Parquet's specification says, word by word."""
    found = xxh64(value)
    block = ((found >> 32) * (len(bits) // 32)) >> 32
    for word, salt in enumerate(SALTS.tolist()):
        at = 32 * block + 4 * word
        bit = ((found & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27
        if not int.from_bytes(bits[at : at + 4], "little") >> bit & 1:
            return False
    return True


def made(values: list[bytes], bits: int = 8) -> bytes:
    return split_blocks_of(bloom_hashes(pa.array(values, pa.binary())), bits)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_hash_is_that_of_the_specification(text: bytes, expected: int) -> None:
    assert int(bloom_hashes(pa.array([text]))[0]) == expected == xxh64(text)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=20), st.integers(0, 3))
def test_the_kernel_hashes_like_its_twin(values: list[bytes], skipped: int) -> None:
    array = pa.array([b"x"] * skipped + values, pa.binary()).slice(skipped)

    assert bloom_hashes(array).tolist() == [xxh64(value) for value in values]


@given(VALUES, VALUES, st.integers(4, 16))
def test_every_value_is_found_and_lookups_are_those_of_the_twin(
    values: list[bytes], others: list[bytes], bits: int
) -> None:
    held = made(values, bits)
    looked = pa.array([*values, *others], pa.binary())

    assert hold_all(held, looked).tolist() == [is_in(held, v) for v in [*values, *others]]
    assert all(is_in(held, value) for value in values)
    for value in [*values[:5], *others[:5]]:
        filters = pa.array([None, held, b"", held, b"odd"], pa.binary())
        there = is_in(held, value)
        assert may_hold(filters, value).tolist() == [True, there, True, there, True]
        assert may_hold(filters.slice(1, 2), value).tolist() == [there, True]


def test_a_filter_without_bits_may_hold_anything() -> None:
    assert hold_all(b"", pa.array([b"a", b"b"], pa.binary())).tolist() == [True, True]


@pytest.mark.parametrize(("bits", "most"), [(8, 0.05), (12, 0.012), (16, 0.004)])
def test_a_filter_costs_what_is_said_and_is_seldom_wrong(bits: int, most: float) -> None:
    values = [f"id {n}".encode() for n in range(20_000)]
    held = made(values, bits)

    others = pa.array([f"other {n}".encode() for n in range(20_000)], pa.binary())

    assert len(held) % BLOCK_BYTES == 0
    assert bits * len(values) <= 8 * len(held) < bits * len(values) + 8 * BLOCK_BYTES
    assert 0 < np.mean(hold_all(held, others)) < most


@pytest.mark.parametrize("count", [33, 40, 63, 64, 65, 95, 96, 127])
def test_a_filter_of_few_values_is_as_seldom_wrong(count: int) -> None:
    """One of 63 values was a single block, half the bits that were asked for: wrong for a third."""
    held = made([f"id {n}".encode() for n in range(count)])
    others = pa.array([f"other {n}".encode() for n in range(20_000)], pa.binary())
    assert np.mean(hold_all(held, others)) < 0.05


def test_few_values_take_one_block() -> None:
    assert len(made([b"a", b"b"])) == len(made([])) == BLOCK_BYTES
    assert not is_in(made([]), b"a")
