"""JSON values that are no value of a type are refused with an error of values."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from strata.format.types import from_json


@pytest.mark.parametrize(
    ("read", "value", "found"),
    [
        (from_json.as_canonical_text, {"b": [1.0, None], "a": "é"}, '{"a":"é","b":[1.0,null]}'),
        (from_json.as_canonical_text, "x", '"x"'),
        (from_json.moment_utc, "2020-01-01T00:00", datetime(2020, 1, 1, tzinfo=UTC)),
        (from_json.moment_utc, "2020-01-01T01:00+01:00", datetime(2020, 1, 1, tzinfo=UTC)),
        (from_json.unsigned64, 2**64 - 1, Decimal(2**64 - 1)),
        (from_json.floating, "Infinity", math.inf),
        (from_json.decimal, 0.1, Decimal("0.1")),
        (from_json.raw_bytes, "YWI=", b"ab"),
    ],
)
def test_a_value_is_read_as(read: Callable[[Any], Any], value: Any, found: Any) -> None:
    assert read(value) == found


@pytest.mark.parametrize(
    ("read", "value", "error"),
    [
        (from_json.as_canonical_text, math.nan, ValueError),
        (from_json.as_canonical_text, [1, -math.inf], ValueError),
        (from_json.as_canonical_text, {1, 2}, TypeError),
        (from_json.boolean, 1, TypeError),
        (from_json.integer, True, TypeError),
        (from_json.floating, True, TypeError),
        (from_json.decimal, False, TypeError),
        (from_json.raw_bytes, "YWI", ValueError),
    ],
)
def test_what_is_no_value_is_refused(
    read: Callable[[Any], Any], value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        read(value)


def test_parts_that_are_unknown_or_missing() -> None:
    assert from_json.parts({"b": 1}, {"a": None, "b": 2}) == {"a": None, "b": 1}
    with pytest.raises(ValueError, match="there is no c, d"):
        from_json.parts({"d": 1, "c": 1}, {"a": None})
    with pytest.raises(TypeError, match="not an object"):
        from_json.parts([1], {"a": None})
