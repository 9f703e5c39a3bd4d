"""Which value is the first of an order, and which come no later, NaN among them."""

import math

import pyarrow as pa
import pytest

from strata.plain.conditions import Moment
from strata.read.value_order import ValueOrder, condition_constant

NAN = math.nan


@pytest.mark.parametrize(
    ("greatest", "best", "found"),
    [
        (True, 2.0, [False, True, True]),
        (True, NAN, [False, False, True]),
        (False, 2.0, [True, True, False]),
        (False, NAN, [True, True, True]),
    ],
)
def test_nan_is_above_every_number(greatest: bool, best: float, found: list[bool]) -> None:
    values = pa.array([1.0, 2.0, NAN])

    assert ValueOrder(greatest).not_beyond(values, pa.scalar(best)).to_pylist() == found


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_moment_keeps_its_zone(zone: str | None) -> None:
    scalar = pa.scalar(5, pa.timestamp("us", zone))
    assert condition_constant(scalar) == Moment(5, zoned=zone is not None)
