"""Arithmetic on bounds equals Python's exact integers, saturated."""

import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.expr import bounds
from strata.expr.sparktype import spark_type
from strata.expr.spec import Numbers

LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    (-(2**63), 2**63 - 1, 3037000500, -3037000500, 2**32, -(2**31), 0, 1, -1)
)
OPERATIONS = {
    "add": (bounds.add, operator.add),
    "subtract": (bounds.subtract, operator.sub),
    "multiply": (bounds.multiply, operator.mul),
}


@pytest.mark.parametrize("name", OPERATIONS)
@given(a=LONGS, b=LONGS)
def test_long_arithmetic_saturates_and_says_so(name: str, a: int, b: int) -> None:
    ours, exact = OPERATIONS[name]
    result, over = ours(np.array([a]), np.array([b]))
    truth = exact(a, b)

    assert bool(over[0]) == (not -(2**63) <= truth < 2**63)
    assert int(result[0]) == min(max(truth, -(2**63)), 2**63 - 1)


@given(st.integers(-(10**18), 10**18), st.integers(1, 25))
@example(15, 1)
@example(-25, 1)
def test_rescaling_down_rounds_half_away_from_zero(value: int, digits: int) -> None:
    unit = 10**digits
    truth = int(Fraction(abs(value), unit) + Fraction(1, 2)) * (1 if value >= 0 else -1)

    assert int(bounds.rescale(np.array([value]), -digits, 19)[0]) == truth


@given(st.integers(-(10**37), 10**37), st.integers(0, 38))
def test_rescaling_up_is_exact_at_any_width(value: int, digits: int) -> None:
    scaled = bounds.rescale(np.array([value], object), digits, 38)

    assert int(scaled[0]) == value * 10**digits


@given(st.floats())
def test_doubles_become_integers_as_java_casts_them(value: float) -> None:
    for name in ("long", "integer", "byte"):
        kind = spark_type(name)
        whole = 0 if math.isnan(value) else int(min(max(value, -1e20), 1e20))

        assert int(bounds.truncated(np.array([value]), kind)[0]) == min(
            max(whole, kind.low), kind.high
        )


@given(LONGS, st.integers(1, 10**12))
def test_truncating_goes_toward_zero(value: int, unit: int) -> None:
    truth = abs(value) // unit * (1 if value >= 0 else -1)

    assert int(bounds.truncating(np.array([value]), unit)[0]) == truth


@given(LONGS, LONGS)
def test_fitting_keeps_what_is_inside_and_tells_what_is_not(a: int, b: int) -> None:
    low, high, kind = min(a, b), max(a, b), spark_type("integer")
    fitting, outside = bounds.fit(Numbers(np.array([low]), np.array([high])), kind)

    assert bool(outside[0]) == (low < kind.low or high > kind.high)
    if bool(fitting.empty[0]):
        assert high < kind.low or low > kind.high
    else:
        assert int(fitting.low[0]) == max(low, kind.low)
        assert int(fitting.high[0]) == min(high, kind.high)


@pytest.mark.parametrize(
    ("value", "shift", "digits"),
    [
        (10**17, 3, 18),
        (-(10**17), 3, 18),
        (5, 2, 10),
        (10**9, 9, 10),
        (10**8, 10, 8),
    ],
)
def test_decimals_are_moved_exactly_however_many_digits_they_get(
    value: int, shift: int, digits: int
) -> None:
    moved = bounds.rescale(np.array([value]), shift, digits)

    assert int(moved[0]) == value * 10**shift
