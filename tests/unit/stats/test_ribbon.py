"""Ribbon filters lack no value, are looked up like their twin, and believe no damaged header."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.kernels import ribbon as kernels
from strata.kernels.arrays import Words
from strata.stats import ribbon
from strata.stats.bloom import (
    BLOCK_BYTES,
    bloom_hashes,
    filter_of,
    hold_all,
    may_hold,
    split_blocks_of,
)
from strata.stats.ribbon import LEAST, WIDTH, ribbon_of, ribbons_may_hold
from tests.twins.ribbon import in_ribbon


def drawn(count: int, seed: int) -> Words:
    return np.unique(np.random.default_rng(seed).integers(0, 2**64, count, np.uint64))


def held(data: bytes, hashes: Words) -> list[bool]:
    asked = np.zeros(len(hashes), np.int64)
    found: list[bool] = ribbons_may_hold(pa.array([data]), asked, hashes).tolist()
    return found


def test_the_band_is_as_wide_as_that_of_the_kernels() -> None:
    assert WIDTH == kernels.WIDTH


@given(st.integers(LEAST, 700), st.integers(4, 32), st.integers(0, 2**32))
def test_every_value_is_found_and_lookups_are_those_of_the_twin(
    count: int, bits: int, seed: int
) -> None:
    hashes, others = drawn(count, seed), drawn(200, seed + 1)
    made = ribbon_of(hashes, bits)

    assert made is not None
    assert len(made) % BLOCK_BYTES
    assert 8 * len(made) <= bits * count
    assert all(held(made, hashes))
    assert held(made, others) == [in_ribbon(made, int(one)) for one in others]


@pytest.mark.parametrize("count", [LEAST, 5000, 20_000, 300_000])
@pytest.mark.parametrize(("bits", "least"), [(8, 170), (12, 2000)])
def test_a_filter_is_seldom_wrong(count: int, bits: int, least: int) -> None:
    made = ribbon_of(drawn(count, 1), bits)
    assert made is not None

    wrong = np.mean(held(made, drawn(200_000, 2)))

    assert wrong < (1 / least if count > LEAST else 0.03)


def test_hashes_without_a_solution_become_split_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ribbon, "_solved", lambda *_: None)
    hashes = drawn(400, 3)

    assert ribbon_of(hashes, 8) is None
    assert filter_of(hashes, 8) == split_blocks_of(hashes, 8)


def test_equations_that_contradict_are_found() -> None:
    words = drawn(400, 5)
    low, high, sums = (np.zeros(WIDTH, np.uint64) for _ in range(3))

    assert not kernels.ribbon_equations(words, low, high, sums)  # more of them than slots


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [
        (0, "<4s", b"RBN2"),
        (4, "<B", 0),
        (4, "<B", 255),
        (6, "<H", 1),
        (8, "<I", 127),
        (8, "<I", 2**32 - 1),
        (12, "<I", 2**32 - 1),
        (12, "<I", 1),
    ],
)
def test_a_header_that_cannot_be_says_nothing(at: int, form: str, value: object) -> None:
    made = bytearray(ribbon_of(drawn(500, 7), 8) or b"")
    struct.pack_into(form, made, at, value)

    assert all(held(bytes(made), drawn(300, 8)))


@given(st.binary(max_size=200), st.integers(0, 520))
def test_odd_bytes_say_nothing_or_are_a_filter(odd: bytes, cut: int) -> None:
    made = ribbon_of(drawn(500, 9), 8) or b""
    for data in (odd, made[:cut], made[:16] + odd):
        found = held(data, drawn(50, 10))
        assert len(found) == 50
        assert len(data) == len(made) or all(found)


def test_filters_of_both_kinds_are_asked_at_once() -> None:
    texts = pa.array([b"%d" % n for n in range(400)], pa.binary())
    hashes = bloom_hashes(texts)
    both = [split_blocks_of(hashes, 8), filter_of(hashes, 8), None, b"odd"]
    filters = pa.array([b"before", *both], pa.binary()).slice(1)

    assert may_hold(filters, b"17").tolist() == [True] * 4
    for value in (b"%d" % n for n in range(1000, 1100)):
        expected = [bool(hold_all(one, pa.array([value]))[0]) for one in both[:2] if one]
        assert may_hold(filters, value).tolist() == [*expected, True, True]
