"""Flags of one element stand for all parts: `both`, `either`, `negated` are NumPy's operators."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata.decide.fields import nonzero
from strata.expr.spec import NO, YES, both, either, negated, uniform

PARTS = 3
FLAGS = st.sampled_from([YES, NO, np.array([True]), np.array([False])]) | st.lists(
    st.booleans(), min_size=PARTS, max_size=PARTS
).map(np.array)


def _all(flags: np.ndarray) -> list[bool]:
    return np.broadcast_to(flags, PARTS).tolist()


@given(FLAGS, FLAGS)
def test_they_are_the_operators_of_numpy(a: np.ndarray, b: np.ndarray) -> None:
    assert _all(both(a, b)) == _all(a & b)
    assert _all(either(a, b)) == _all(a | b)
    assert _all(negated(a)) == _all(~a)
    assert _all(uniform(a)) == _all(a)


@given(st.lists(st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=PARTS))
def test_counts_are_zero_or_not(values: list[int]) -> None:
    counts = np.array(values, np.int64)
    assert np.broadcast_to(nonzero(counts), len(values)).tolist() == [v != 0 for v in values]
