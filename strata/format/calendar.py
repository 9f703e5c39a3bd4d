"""Days since 1970 as year and day of the year, and back, in the proleptic Gregorian calendar.

Years before 1 count on downwards: 0, -1, and so on.
"""

from typing import Final

import numpy as np

from strata.format.words import Bools, Ints

DAY_US: Final = 86_400_000_000
DAYS_TO_1970: Final = 719_162  # days from 0001-01-01 to 1970-01-01
DAYS_400: Final = 146_097  # days in 400, 100 and 4 years
DAYS_100: Final = 36_524
DAYS_4: Final = 1_461


def year_and_ordinal(days: Ints) -> tuple[Ints, Ints]:
    """Return the year and the day in it, from 1, of days since 1970-01-01."""
    rest = days + DAYS_TO_1970
    cycles = rest // DAYS_400
    rest -= cycles * DAYS_400
    hundreds = np.minimum(rest // DAYS_100, 3)  # the cycle's last day is not a fifth century
    rest -= hundreds * DAYS_100
    fours = rest // DAYS_4
    rest -= fours * DAYS_4
    ones = np.minimum(rest // 365, 3)
    year = cycles * 400 + hundreds * 100 + fours * 4 + ones + 1
    return year, rest - ones * 365 + 1


def days_of(year: Ints, ordinal: Ints) -> Ints:
    """Return days since 1970-01-01 of a year and a day in it; see `has_day` for which exist."""
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400
    return before * 365 + leaps + ordinal - 1 - DAYS_TO_1970


def has_day(year: Ints, ordinal: Ints) -> Bools:
    """Return whether the year has that day."""
    answer: Bools = (ordinal >= 1) & (ordinal <= 366)
    last = np.flatnonzero(ordinal == 366)
    of = year[last]
    answer[last] = (of % 4 == 0) & ((of % 100 != 0) | (of % 400 == 0))
    return answer


_YEARS: Final = np.arange(1 << 14, dtype=np.int64)
YEAR_STARTS: Final = days_of(_YEARS, np.zeros_like(_YEARS))  # of year i, the day before its first
YEAR_DAYS: Final = days_of(_YEARS + 1, np.zeros_like(_YEARS)) - YEAR_STARTS
