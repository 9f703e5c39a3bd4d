"""Days and moments that Python's calendar does not reach are text, at any depth."""

from datetime import date

import pyarrow as pa
import pytest

from strata.format.columns import child
from strata.format.values.beyond import python_values
from strata.format.values.view import to_view
from tests.formats import every_type

DAYS = pa.array([2**31 - 1, -(2**31), 2_932_897, -719_163, 0, None], pa.int32()).view(pa.date32())
READ = [
    "+5881580-07-11",
    "-5877641-06-23",
    "+10000-01-01",
    "0000-12-31",
    date(1970, 1, 1),
    None,
]
MOMENTS = [2**63 - 1, -(2**63), 253_402_300_800_000_000, -62_135_596_800_000_001, None]
SPELLED = [
    "+294247-01-10T04:00:54.775807",
    "-290308-12-21T19:59:05.224192",
    "+10000-01-01T00:00:00",
    "0000-12-31T23:59:59.999999",
]


def test_days_are_iso() -> None:
    assert python_values(DAYS) == READ


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_moments_are_iso(zone: str | None) -> None:
    moments = pa.array(MOMENTS, pa.int64()).view(pa.timestamp("us", zone))
    end = "" if zone is None else "Z"
    assert python_values(moments) == [*(text + end for text in SPELLED), None]


def test_what_is_inside_is_found() -> None:
    record = pa.StructArray.from_arrays([DAYS, pa.array(range(6), pa.int8())], ["day", "n"])
    lists = pa.ListArray.from_arrays(pa.array([0, None, 1, 6], pa.int32()), record)
    maps = pa.MapArray.from_arrays([0, 1, 2, 2], pa.array(["a", "b"]), DAYS[:2])

    rows = python_values(lists)

    assert rows[0] == [{"day": READ[0], "n": 0}]
    assert rows[1] is None
    assert [row["day"] for row in rows[2]] == READ[1:]
    assert python_values(maps) == [{"a": READ[0]}, {"b": READ[1]}, {}]


def test_every_type_has_values_in_python() -> None:
    updates = every_type.updates()
    for column in every_type.RELATION.columns:
        stored = updates.column(child(column.id)).combine_chunks()
        assert len(python_values(to_view(stored, column.type))) == every_type.ROWS
