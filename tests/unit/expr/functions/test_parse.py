"""Constants are read from the plain formats only."""

import pytest

from strata.expr.functions.parse import parse_constant
from strata.expr.nodes import Call, Literal
from strata.expr.spec import Numbers


def _parsed(text: str, kind: str, zone: str = "UTC") -> tuple[object, object] | None:
    call = Call("cast", (Literal(text, "string"),), kind, (("zone", zone),))
    spec = parse_constant(text, call)
    if spec is None:
        return None
    assert isinstance(spec.values, Numbers)
    return spec.values.low[0], spec.values.high[0]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("-5", "integer", -5),
        ("2.5", "double", 2.5),
        ("1.25", "decimal(10,2)", 125),
        ("1970-01-02", "date", 1),
        ("1970-01-01 00:00:01", "timestamp", 1_000_000),
        ("1970-01-01T01:00:00+01:00", "timestamp", 0),
        ("1970-01-01T00:00:00.5Z", "timestamp", 500_000),
    ],
)
def test_a_plain_constant_is_exact(text: str, kind: str, value: object) -> None:
    assert _parsed(text, kind) == (value, value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2147483648", "integer"),
        ("1e3", "double"),
        ("now", "timestamp"),
        ("2024-02-30", "date"),
        ("2024-2-3", "date"),
        ("1970-01-01 00:00:00Z", "timestamp_ntz"),
        ("12:00", "timestamp"),
    ],
)
def test_other_formats_are_left_unknown(text: str, kind: str) -> None:
    assert _parsed(text, kind) is None


def test_a_local_time_abroad_is_widened() -> None:
    low, high = _parsed("1970-01-01 00:00:00", "timestamp", "America/New_York") or (0, 0)

    assert low < 5 * 3_600_000_000 < high  # type: ignore[operator]
