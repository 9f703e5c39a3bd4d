"""A float without a count of NaNs may hold NaN, which is greater than every number in Spark."""

import pyarrow as pa
import pytest

from strata.decide.decision import decide
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.model import schema
from strata.model.types import parse_type

ABOVE = Call("greater_than", (Column(1, "f", "double"), Literal(9.0, "double")), "boolean")
FILTER = Filter(ABOVE, "f > 9", 0, 0)
RELATION = schema.Relation(0, (schema.Column(1, "f", parse_type("float64")),), (1,), ())


@pytest.mark.parametrize(
    ("nans", "keep"),
    [
        ({}, True),
        ({"nans": None}, True),
        ({"nans": "0"}, True),
        ({"nans": 1}, True),
        ({"nans": 0}, False),
    ],
)
def test_only_a_known_zero_rules_nan_out(nans: dict[str, object], keep: bool) -> None:
    claim = {"nulls": 0, "low": 1.0, "high": 2.0, **nans}
    stats = pa.table({"rows": pa.array([5], pa.int64()), "s.1": pa.array([claim])})

    assert decide(FILTER, stats, RELATION).keep.tolist() == [keep]
