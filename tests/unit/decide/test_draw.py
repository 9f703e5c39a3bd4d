"""A share of the parts is exact, reproducible, and lies in every larger one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.decide.draw import below, draws, sampled

KEYS = [f"shard/part-{number}" for number in range(2000)]


@pytest.mark.parametrize(
    ("percent", "last"),  # the last draw that belongs to it; -1: none
    [
        (-1, -1),
        (0, -1),
        (1, -(-(2**64) // 100) - 1),
        (50, 2**63 - 1),
        (75, 3 * 2**62 - 1),
        (100, 2**64 - 1),
        (101, 2**64 - 1),
    ],
)
def test_a_share_ends_where_its_percent_of_all_draws_do(percent: int, last: int) -> None:
    drawn = np.array(sorted({0, max(last, 0), min(last + 1, 2**64 - 1), 2**64 - 1}), np.uint64)

    assert below(drawn, percent).tolist() == [int(draw) <= last for draw in drawn]


@given(st.integers(-1, 101), st.integers(-1, 101))
def test_a_larger_share_holds_the_smaller(one: int, other: int) -> None:
    few, many = (sampled(KEYS, "salt", percent) for percent in sorted((one, other)))

    assert not (few & ~many).any()
    assert abs(int(many.sum()) - 20 * min(max(one, other, 0), 100)) < 100


def test_keys_and_salt_decide_alone() -> None:
    assert draws(KEYS, "salt").tolist() == draws(iter(KEYS), "salt").tolist()
    assert draws(KEYS[7:8], "salt")[0] == draws(KEYS, "salt")[7]
    assert draws(KEYS, "salt").tolist() != draws(KEYS, "other").tolist()
    assert len(draws([], "salt")) == 0
