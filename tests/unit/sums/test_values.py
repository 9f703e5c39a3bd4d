"""Exact numbers at the ends of their columns, and what equals what."""

import pyarrow as pa
import pytest

from strata.errors import InvalidRequest
from strata.model.types import ColumnType, Kind
from strata.sums.values import fitting_numbers, ordered_values, unordered

NUMERIC = ColumnType(Kind.NUMERIC, 38, 0)


@pytest.mark.parametrize(
    ("kind", "stored", "most"),
    [
        (ColumnType(Kind.INT64), pa.int64(), 2**63 - 1),
        (NUMERIC, pa.decimal128(38, 0), 10**38 - 1),
    ],
)
def test_the_greatest_sum_of_a_column_fits_and_the_next_one_is_named(
    kind: ColumnType, stored: pa.DataType, most: int
) -> None:
    assert fitting_numbers([most, -most, None], "sum_n", kind, stored).null_count == 1

    for beyond in (most + 1, -most - 1):
        with pytest.raises(InvalidRequest, match="a sum exceeds its column") as caught:
            fitting_numbers([beyond], "sum_n", kind, stored)
        assert caught.value.details["column"] == "sum_n"


def test_both_zeros_are_one_end() -> None:
    kind = ColumnType(Kind.FLOAT64)
    [one, other] = ordered_values(pa.array([-0.0, 0.0]), kind)

    assert one == other
    assert str(unordered([one, other], kind, pa.float64()).to_pylist()) == "[0.0, 0.0]"
