"""Intervals taken apart: every interval of a range, against what the range is said to give."""

import numpy as np
import pytest

from strata.expr.calendar import DAY_US, SECOND_US
from strata.expr.entry import Context
from strata.expr.nodes import Call, Column
from strata.expr.registry import REGISTRY
from strata.expr.spec import Numbers, Spec

POINTS = [
    sign * (days * DAY_US + micros)
    for sign in (-1, 1)
    for days in (0, 1, 30)
    for micros in (0, 1, 59 * SECOND_US, 3600 * SECOND_US, DAY_US - 1)
]


def of(function: str, low: int, high: int, kind: str) -> Numbers:
    """Return what a part of the intervals of a range may be."""
    call = Call(function, (Column(1, "c", kind),), "integer")
    spec = Spec(Numbers(np.array([low]), np.array([high])))
    found = REGISTRY[function].transfer(call, [spec], Context(0, 0)).values
    assert isinstance(found, Numbers)
    return found


@pytest.mark.parametrize(
    ("function", "frame", "unit"),
    [
        ("interval_hours", DAY_US, 3600 * SECOND_US),
        ("interval_minutes", 3600 * SECOND_US, 60 * SECOND_US),
        ("interval_seconds", 60 * SECOND_US, 1),
    ],
)
def test_a_part_lies_in_its_range(function: str, frame: int, unit: int) -> None:
    for low in POINTS:
        for high in POINTS:
            if low <= high:
                found = of(function, low, high, "interval day to second")
                parts = [
                    abs(p) % frame // unit * (1 if p > 0 else -1)
                    for p in POINTS
                    if low <= p <= high
                ]
                assert found.low[0] <= min(parts)
                assert max(parts) <= found.high[0]
                if low == high:
                    assert found.low[0] == found.high[0]


def test_a_sum_of_units_fails_only_where_it_may_overflow() -> None:
    columns = tuple(Column(n, f"c{n}", "integer") for n in range(2))
    call = Call("make_ym_interval", columns, "interval year to month")
    years = Numbers(np.array([1, -(2**31)]), np.array([2, 2**31 - 1]))
    months = Numbers(np.array([0, 0]), np.array([5, 5]))

    spec = REGISTRY["make_ym_interval"].transfer(call, [Spec(years), Spec(months)], Context(0, 0))

    assert isinstance(spec.values, Numbers)
    assert (spec.values.low[0], spec.values.high[0]) == (12, 29)
    assert spec.fail.tolist() == [False, True]
