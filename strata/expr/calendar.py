"""The proleptic Gregorian calendar on arrays of days and microseconds since 1970.

NumPy's datetime64 arithmetic does the work; it is exact for every int32 day and every int64
microsecond. Results are int64.
"""

from typing import Final

import numpy as np

from strata.expr.spec import Bounds

DAY_US: Final = 86_400_000_000
SECOND_US: Final = 1_000_000

# Units that Spark accepts in date_trunc and trunc, upper-cased -> NumPy's unit, or the length in
# microseconds.
_MONTHS: Final = {"YEAR": 12, "YYYY": 12, "YY": 12, "QUARTER": 3, "MONTH": 1, "MM": 1, "MON": 1}
_LENGTHS: Final = {
    "DAY": DAY_US,
    "DD": DAY_US,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": SECOND_US,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}


def months(days: Bounds) -> Bounds:
    """Return the months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def years(days: Bounds) -> Bounds:
    """Return the years of the common era, as in 2013."""
    return months(days) // 12 + 1970


def month_start(month: Bounds) -> Bounds:
    """Return the first day of months since January 1970."""
    return month.astype("M8[M]").astype("M8[D]").astype(np.int64)


def add_months(days: Bounds, count: Bounds) -> Bounds:
    """Return the days some months later, on the last day of a shorter month.

    Never decreasing in either argument.
    """
    month = months(days)
    day = days - month_start(month)
    target = month + count
    start = month_start(target)
    later: Bounds = start + np.minimum(day, month_start(target + 1) - start - 1)
    return later


def truncate_days(days: Bounds, unit: str) -> Bounds | None:
    """Return the first day of the unit around each day; None if trunc has no such unit.

    `unit`: as Spark spells it, in any case; weeks start on Monday.
    """
    unit = unit.upper()
    if unit == "WEEK":
        monday: Bounds = days - (days + 3) % 7  # 1970-01-01 was a Thursday
        return monday
    if unit not in _MONTHS:
        return None
    size = _MONTHS[unit]
    return month_start(months(days) // size * size)


def truncate_micros(micros: Bounds, unit: str) -> Bounds | None:
    """Return the first instant of the unit in UTC; None if date_trunc has no such unit.

    An instant within one unit of the start of the int64 range may wrap around; callers must avoid
    those.
    """
    if (length := _LENGTHS.get(unit.upper())) is not None:
        start: Bounds = micros // length * length  # NumPy divides by a constant faster than %
        return start
    days = truncate_days(micros // DAY_US, unit)
    return None if days is None else days * DAY_US
