"""Parts of dates and times, as Spark has them: the proleptic Gregorian calendar, UTC.

Dates are int32 days and times int64 microseconds since 1970, as arrays of Arrow; a null stays one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_DAY_US: Final = 86_400_000_000
_THURSDAY: Final = 3  # days from Monday
Days = npt.NDArray[np.int64]


def day_of(micros: pa.Array) -> pa.Array:
    """Return the days of times."""
    return _mapped(micros, lambda found: found // _DAY_US)


def _mapped(values: pa.Array, part: Callable[[Days], npt.NDArray[Any]]) -> pa.Array:
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    mask = pc.is_null(values).to_numpy(zero_copy_only=False)
    return pa.array(part(numbers).astype(np.int32), pa.int32(), mask=mask)


def _since(days: Days, unit: str) -> Days:
    found: Days = days.astype("M8[D]").astype(f"M8[{unit}]").astype(np.int64)
    return found


def _year(days: Days) -> Days:
    return _since(days, "Y") + 1970


def _month(days: Days) -> Days:
    return _since(days, "M") % 12 + 1


def _quarter(days: Days) -> Days:
    return _since(days, "M") % 12 // 3 + 1


def _day_of_month(days: Days) -> Days:
    return days - _first(days, "M") + 1


def _day_of_year(days: Days) -> Days:
    return days - _first(days, "Y") + 1


def _first(days: Days, unit: str) -> Days:
    """Return the first day of each one's month or year."""
    found: Days = days.astype("M8[D]").astype(f"M8[{unit}]").astype("M8[D]").astype(np.int64)
    return found


def _week_day(days: Days) -> Days:
    """Return days from Monday; 1970 began on a Thursday."""
    return (days + _THURSDAY) % 7


def _day_of_week(days: Days) -> Days:
    """Return 1 for Sunday to 7."""
    return (_week_day(days) + 1) % 7 + 1


def _week_of_year(days: Days) -> Days:
    """Return the week by ISO 8601: the year that has a week's Thursday counts it."""
    return (_day_of_year(days - _week_day(days) + _THURSDAY) - 1) // 7 + 1


def _of_clock(size: int, count: int) -> Callable[[Days], Days]:
    return lambda micros: micros // size % count


_PARTS: Final[Mapping[str, Callable[[Days], Days]]] = MappingProxyType(
    {
        "year": _year,
        "quarter": _quarter,
        "month": _month,
        "day_of_month": _day_of_month,
        "day_of_year": _day_of_year,
        "day_of_week": _day_of_week,
        "week_of_year": _week_of_year,
        "hour": _of_clock(3_600_000_000, 24),
        "minute": _of_clock(60_000_000, 60),
        "second": _of_clock(1_000_000, 60),
    }
)
DATE_PARTS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = MappingProxyType(
    {name: partial(_mapped, part=part) for name, part in _PARTS.items()}
)
