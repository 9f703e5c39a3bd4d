"""The calendar on arrays agrees with Python's datetime."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.expr import calendar

DATES = st.dates(date(2, 1, 1), date(9990, 12, 31))
SECONDS = st.integers(-62_000_000_000, 253_000_000_000)  # years 5 to 9987
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _days(day: date) -> int:
    return (day - date(1970, 1, 1)).days


@given(DATES)
def test_days_have_the_month_and_year_of_the_calendar(day: date) -> None:
    days = np.array([_days(day)])

    assert calendar.years(days).tolist() == [day.year]
    assert calendar.months(days).tolist() == [(day.year - 1970) * 12 + day.month - 1]


@given(DATES)
def test_a_unit_starts_where_the_calendar_says(day: date) -> None:
    starts = {
        "YEAR": day.replace(month=1, day=1),
        "Quarter": day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "mm": day.replace(day=1),
        "week": day - timedelta(days=day.weekday()),
    }
    for unit, start in starts.items():
        found = calendar.truncate_days(np.array([_days(day)]), unit)
        assert found is not None
        assert found.tolist() == [_days(start)]


@given(SECONDS, st.integers(0, 999_999))
def test_an_instant_is_cut_to_its_unit(seconds: int, micro: int) -> None:
    moment = EPOCH + timedelta(seconds=seconds, microseconds=micro)
    cut = {
        "day": moment.replace(hour=0, minute=0, second=0, microsecond=0),
        "HOUR": moment.replace(minute=0, second=0, microsecond=0),
        "minute": moment.replace(second=0, microsecond=0),
        "second": moment.replace(microsecond=0),
        "microsecond": moment,
    }
    micros = np.array([(moment - EPOCH) // timedelta(microseconds=1)])
    for unit, start in cut.items():
        found = calendar.truncate_micros(micros, unit)
        assert found is not None
        assert found.tolist() == [(start - EPOCH) // timedelta(microseconds=1)]


@pytest.mark.parametrize("unit", ["day", "hour", "fortnight", ""])
def test_a_date_has_no_such_unit(unit: str) -> None:
    assert calendar.truncate_days(np.array([0]), unit) is None


@given(DATES, DATES, st.integers(-500, 500))
def test_adding_months_keeps_the_order_of_days(a: date, b: date, count: int) -> None:
    first, second = sorted((_days(a), _days(b)))
    moved = calendar.add_months(np.array([first, second]), np.array([count]))

    assert moved[0] <= moved[1]


def test_a_month_may_end_early() -> None:
    january = [_days(date(2024, 1, day)) for day in (28, 29, 30, 31)]
    february = [_days(date(2024, 2, day)) for day in (28, 29, 29, 29)]

    assert calendar.add_months(np.array(january), np.array([1])).tolist() == february
