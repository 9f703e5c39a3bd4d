"""Defaults and widenings of columns."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from strata.errors import InvalidRequest
from strata.format.migrate import default_array, default_scalar, widens
from strata.model.schema import Column
from strata.model.types import parse_type


def column(declared: str, default: object) -> Column:
    return Column(1, "a", parse_type(declared), default=default)


@pytest.mark.parametrize(
    ("declared", "default", "value"),
    [
        ("int16", 5, 5),
        ("int64", None, None),
        ("float64", 1, 1.0),
        ("float32", -0.0, 0.0),
        ("numeric(10,2)", "1.5", Decimal("1.50")),
        ("numeric(10,2)", 3, Decimal("3.00")),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("timestamp", "2024-01-01T12:00:00", datetime(2024, 1, 1, 12)),  # noqa: DTZ001
        ("timestamptz", "2024-01-01T12:00:00+02:00", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("timestamptz", "2024-01-01T12:00:00", datetime(2024, 1, 1, 12, tzinfo=UTC)),
        ("string", "x", "x"),
        ("bytes", "AAE=", b"\x00\x01"),
        ("jsonb", {"b": 1, "a": [1.0]}, '{"a":[1.0],"b":1}'),
        ("jsonb", "x", '"x"'),
        ("bool", False, False),
    ],
)
def test_a_default_is_the_value_that_its_json_says(
    declared: str, default: object, value: Any
) -> None:
    assert default_scalar(column(declared, default)).as_py() == value
    assert default_array(column(declared, default), 2).to_pylist() == [value, value]
    assert len(default_array(column(declared, default), 0)) == 0


@pytest.mark.parametrize(
    ("declared", "default"),
    [
        ("int16", 70_000), ("int16", "5"), ("int64", 1.5), ("int64", True), ("bool", 0),
        ("string", 5), ("numeric(3,2)", "12.345"), ("numeric(10,2)", "x"), ("date", "x"),
        ("bytes", "é"), ("float64", "x"), ("float64", True),
    ],
)  # fmt: skip
def test_a_default_that_does_not_fit_is_refused(declared: str, default: object) -> None:
    with pytest.raises(InvalidRequest, match="default"):
        default_scalar(column(declared, default))


def test_a_type_widens_only_where_every_value_stays_itself() -> None:
    pairs = [("int16", "int32"), ("int16", "int64"), ("int32", "int64"), ("float32", "float64"),
             ("numeric(4,2)", "numeric(10,2)"), ("string", "string")]  # fmt: skip
    for narrow, wide in pairs:
        assert widens(parse_type(narrow), parse_type(wide))
        assert narrow == wide or not widens(parse_type(wide), parse_type(narrow))
    for old, new in [("int64", "float64"), ("numeric(4,2)", "numeric(10,3)"), ("string", "bytes"),
                     ("date", "timestamp")]:  # fmt: skip
        assert not widens(parse_type(old), parse_type(new))


def test_defaults_have_the_arrow_type_of_their_column() -> None:
    assert default_array(column("jsonb", 1), 1).type == pa.string()
    assert default_array(column("int16", None), 3) == pa.nulls(3, pa.int16())
