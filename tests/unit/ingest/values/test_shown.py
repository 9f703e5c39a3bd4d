"""Values are shown as they are, also those that Python or Arrow would show as others."""

from datetime import time

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
