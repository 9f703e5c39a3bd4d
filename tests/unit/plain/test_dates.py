"""Parts of dates and times are those of Python's calendar, and of the proleptic one beyond."""

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from strata.plain.dates import DATE_PARTS, day_of

DAY_US = 86_400_000_000
EPOCH = date(1970, 1, 1).toordinal()
DATES = [
    date(year, month, day)
    for year in (1, 1582, 1600, 1899, 1900, 1969, 1970, 1999, 2000, 2016, 2020, 2021, 9999)
    for month in (1, 2, 3, 6, 7, 9, 10, 12)
    for day in (1, 2, 3, 4, 28, 30)
    if not (month == 2 and day > 28)
]
OF_DATES = {
    "year": lambda d: d.year,
    "quarter": lambda d: (d.month + 2) // 3,
    "month": lambda d: d.month,
    "day_of_month": lambda d: d.day,
    "day_of_year": lambda d: d.timetuple().tm_yday,
    "day_of_week": lambda d: d.isoweekday() % 7 + 1,
    "week_of_year": lambda d: d.isocalendar().week,
}
OF_TIMES = {
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
}


@pytest.mark.parametrize("part", OF_DATES)
def test_a_part_of_a_date_is_that_of_the_calendar(part: str) -> None:
    days = pa.array([*(d.toordinal() - EPOCH for d in DATES), None], pa.int32())

    assert DATE_PARTS[part](days).to_pylist() == [*map(OF_DATES[part], DATES), None]


@pytest.mark.parametrize("part", OF_TIMES)
def test_a_part_of_a_time_is_that_of_the_clock(part: str) -> None:
    moments = [-DAY_US, -1, 0, 59_999_999, 60_000_000, 3_599_999_999, 3_600_000_000, DAY_US - 1]
    clocks = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=m) for m in moments]

    found = DATE_PARTS[part](pa.array([*moments, None], pa.int64()))

    assert found.to_pylist() == [*map(OF_TIMES[part], clocks), None]
    assert day_of(pa.array([*moments, None], pa.int64())).to_pylist() == [
        *(clock.date().toordinal() - EPOCH for clock in clocks),
        None,
    ]


def test_every_part_is_tried() -> None:
    assert DATE_PARTS.keys() == OF_DATES.keys() | OF_TIMES.keys()
