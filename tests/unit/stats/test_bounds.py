"""Cut bounds are never wrong, never over the limit, and as tight as can be."""

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.model.types import parse_type
from strata.stats import flat
from strata.stats.bounds import common_prefix_bytes, cut_high, cut_low

EDGES = "\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(EDGES), max_size=8)
BYTES = st.binary(max_size=8) | st.lists(st.sampled_from([b"\xff", b"\xfe", b"a"])).map(b"".join)
LIMITS = st.integers(min_value=0, max_value=12)


@given(TEXTS, LIMITS)
@example("\ud7ff\ud7ff", 3)  # the next code point is a surrogate: must be skipped
@example("a\x7fb", 2)  # the next code point is one byte longer: must step back
def test_cut_texts_enclose_the_value_within_the_limit(value: str, limit: int) -> None:
    low, high = cut_low(value, limit), cut_high(value, limit)

    assert low.encode() <= value.encode()
    assert len(low.encode()) <= limit
    assert high is None or (value.encode() <= high.encode() and len(high.encode()) <= limit)


@given(BYTES, LIMITS)
def test_cut_bytes_enclose_the_value_within_the_limit(value: bytes, limit: int) -> None:
    low, high = cut_low(value, limit), cut_high(value, limit)

    assert low <= value
    assert len(low) <= limit
    assert high is None or (value <= high and len(high) <= limit)


@pytest.mark.parametrize("limit", range(6))
def test_high_text_is_the_least_that_fits(limit: int) -> None:
    """Brute force over a small alphabet that has every kind of edge in it."""
    alphabet = "a\x7f\x80\ud7ff\ue000\U0010fffe\U0010ffff"
    texts = ["".join(p) for n in range(4) for p in product(alphabet, repeat=n)]
    fitting = sorted(t for t in texts if len(t.encode()) <= limit)

    for value in texts:
        if above := [t for t in fitting if t >= value]:
            high = cut_high(value, limit)
            assert high is not None
            assert high <= above[0]


@pytest.mark.parametrize("limit", range(4))
def test_high_bytes_are_the_least_that_fit(limit: int) -> None:
    values = [bytes(p) for n in range(4) for p in product(b"\x00a\xfe\xff", repeat=n)]
    fitting = sorted(v for v in values if len(v) <= limit)

    for value in values:
        above = [v for v in fitting if v >= value]
        high = cut_high(value, limit)
        assert (high is None) == (not above)
        assert high is None or high <= above[0]


@given(TEXTS, TEXTS)
def test_common_prefix_counts_shared_bytes(a: str, b: str) -> None:
    n = common_prefix_bytes(a, b)

    x, y = a.encode(), b.encode()
    assert x[:n] == y[:n]
    assert x[n : n + 1] != y[n : n + 1] or n == len(x) == len(y)


@given(st.lists(st.none() | TEXTS, min_size=1), st.integers(4, 12))
@example(["\U0010ffff" * 4], 5)  # so much of it is copied that a character is cut in two
def test_the_beginning_of_a_text_is_cut_like_the_whole(
    values: list[str | None], limit: int
) -> None:
    known = [value for value in values if value is not None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat, "COLLECT_BYTES", limit)

        found = flat.collect_flat(pa.array(values, pa.string()), parse_type("string"))[0]

    low = cut_low(min(known), limit) if known else None
    high = cut_high(max(known), limit) if known else None
    assert (found["low"].as_py(), found["high"].as_py()) == (low, high)
    assert found["low_exact"].as_py() == (bool(known) and low == min(known))
    assert found["high_exact"].as_py() == (bool(known) and high == max(known))
