"""Values as JSON has them: spans with two places of each part of a clock."""

from datetime import timedelta
from typing import Any

import pytest

from strata.model.shown import as_json_value


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(0), "00:00:00"),
        (timedelta(hours=9, seconds=1), "09:00:01"),
        (timedelta(hours=23, minutes=59, seconds=59), "23:59:59"),
        (timedelta(microseconds=1), "00:00:00.000001"),
        (timedelta(microseconds=-1), "-00:00:00.000001"),
        (timedelta(days=2), "2 days 00:00:00"),
        (timedelta(days=-2, microseconds=1), "-1 days -23:59:59.999999"),
    ],
)
def test_a_span_is_days_and_a_clock(span: timedelta, text: str) -> None:
    assert as_json_value(span) == text


@pytest.mark.parametrize(
    ("value", "plain", "wide"),
    [
        (2**64 - 1, 2**64 - 1, 2**64 - 1),
        (2**64, str(2**64), 2**64),
        (-(2**63) - 1, str(-(2**63) - 1), -(2**63) - 1),
        (float("-inf"), "-inf", "-inf"),
        (b"\x00\xff", "\\x00ff", "00ff"),
        ({"a": [(1, None)]}, {"a": [[1, None]]}, {"a": [[1, None]]}),
    ],
)
def test_what_json_cannot_hold_is_text(value: Any, plain: Any, wide: Any) -> None:
    assert as_json_value(value) == plain
    assert as_json_value(value, wide=True) == wide
