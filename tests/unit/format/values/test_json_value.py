"""What a default would lose of a time is said."""

from typing import Any

import pytest

from strata.format.values.json_value import why_cut
from strata.model.types import parse_type

FINE, ZONED = "2020-01-01T00:00:00.1234567", "2020-01-01T00:00:00+01:00"


@pytest.mark.parametrize(
    ("declared", "value", "reason"),
    [
        ("timestamp", FINE, "six places"),
        ("timestamptz", FINE, "six places"),
        ("timestamptz", f"{FINE}Z", "six places"),
        ("timestamp", ZONED, "offset"),
        ("timestamp", "2020-01-01T00:00Z", "offset"),
        ("timestamptz", ZONED, None),
        ("timestamp", f"{FINE[:-1]}000", None),
        ("timestamp", "2020-01-01", None),
        ("time", "00:00:00.1234567", None),  # it has nine places
        ("string", FINE, None),
        ("string", ZONED, None),
        ("jsonb", {"a": FINE}, None),
        ("list<timestamp>", ["2020-01-01", FINE], "six places"),
        ("map<timestamp>", {"a": ZONED}, "offset"),
        ("map<string>", {"a": ZONED}, None),
        ("record<a: string, b: list<timestamp>>", {"a": FINE, "b": [ZONED]}, "offset"),
        ("record<a: string, b: timestamptz>", {"a": FINE, "b": ZONED}, None),
        ("range<timestamp>", {"lower": ZONED, "upper": None}, "offset"),
        ("timestamp", None, None),
    ],
)
def test_what_is_cut_off_a_time_is_said(declared: str, value: Any, reason: str | None) -> None:
    found = why_cut(value, parse_type(declared))

    assert (found is None) == (reason is None)
    assert reason is None or reason in (found or "")
