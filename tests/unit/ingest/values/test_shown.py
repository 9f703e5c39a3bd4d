"""Values are shown as they are, also those that Python or Arrow would show as others."""

from collections.abc import Callable
from datetime import time
from typing import Any

import pyarrow as pa
import pytest

from strata.ingest.values.shown import as_python

DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (DAY_US, pa.time64("us"), "<value out of range: 86400000000>"),
        (-1, pa.time64("us"), "<value out of range: -1>"),
        (86_400, pa.time32("s"), "<value out of range: 86400>"),
        (DAY_US * 1_000, pa.time64("ns"), "<value out of range: 86400000000000>"),
        (1, pa.time64("ns"), "00:00:00.000000001"),
        (-1, pa.date64(), "1969-12-31 23:59:59.999"),
        (253_402_300_800_000_000, pa.timestamp("us", "UTC"), "10000-01-01 00:00:00.000000"),
        (-62_135_596_800_000_001, pa.timestamp("us", "UTC"), "0000-12-31 23:59:59.999999"),
        (2**63 - 1, pa.timestamp("us", "UTC"), "<value out of range: 9223372036854775807>"),
        (2**63 - 1, pa.timestamp("us", "Asia/Tokyo"), "<value out of range: 9223372036854775807>"),
    ],
)
def test_a_time_that_python_lacks_is_shown_as_it_is(
    value: int, kind: pa.DataType, text: str
) -> None:
    assert as_python(pa.scalar(value, kind)) == text


def test_a_time_within_a_day_is_one_of_python() -> None:
    assert as_python(pa.scalar(DAY_US - 1, pa.time64("us"))) == time(23, 59, 59, 999_999)
    assert as_python(pa.scalar(0, pa.time32("s"))) == time()
    assert as_python(pa.scalar(None, pa.time32("ms"))) is None


@pytest.mark.parametrize(
    ("value", "nested"),
    [
        ([DAY_US], pa.list_),
        ([DAY_US], pa.large_list),
        ([DAY_US], pa.list_view),
        ([DAY_US], lambda kind: pa.list_(kind, 1)),
        ({"a": DAY_US}, lambda kind: pa.struct({"a": kind})),
        ([("k", DAY_US)], lambda kind: pa.map_(pa.string(), kind)),
        ([[{"a": DAY_US}]], lambda kind: pa.list_(pa.list_(pa.struct({"a": kind})))),
    ],
)
def test_a_time_inside_of_others_is_shown_as_outside(
    value: Any, nested: Callable[[pa.DataType], pa.DataType]
) -> None:
    """It was shown as 00:00:00, and a day behind 9999 took all beside it along."""
    shown = str(as_python(pa.scalar(value, nested(pa.time64("us")))))
    assert shown == str(value).replace(str(DAY_US), f"'<value out of range: {DAY_US}>'")


def test_what_is_beside_a_late_day_is_shown() -> None:
    kind = pa.struct({"at": pa.date32(), "n": pa.int8(), "none": pa.list_(pa.date32())})
    value = {"at": 3_000_000, "n": 1, "none": None}

    assert as_python(pa.scalar(value, kind)) == {"at": "10183-09-21", "n": 1, "none": None}
