"""Kernels that read dates and timestamps straight from their datums.

Columns of messages, `odd` and tags are as in `row_read`. A date is a message of a year and a day of
the year, from 1. A timestamp is a message of a date and a time, which has seconds and nanoseconds.
Omitted fields are 0.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int32s, Ints
from strata.kernels.jit import compiled, inlined
from strata.kernels.row_fields import content, framed, is_null, number_field, sized, word_at

LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1
DAY_US: Final = 86_400_000_000
INT32: Final = np.uint64(2**31)  # a 32-bit number plus this, modulo 2**64, is below 2**32
# The first bytes of a date with a two-byte year: tag, year (highest bits only), tag of the day.
USUAL: Final = np.uint64(0x10008008)
USUAL_BITS: Final = np.uint64(0xFF8080FF)


@inlined
def _join_days(year: np.int64, day: np.int64) -> tuple[np.int64, bool]:
    """Return days since 1970-01-01, and whether the year has that day."""
    before = year - 1
    good = 1 <= day <= 365
    if day == 366:
        good = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    leaps = (before >> 2) - before // 100 + before // 400
    return before * 365 + leaps + day - 719_163, bool(good)


@inlined
def _date(data: Bytes, at: int, stop: int) -> tuple[np.int64, bool]:
    """Return days since 1970-01-01 of the date in [at, stop), and whether it fills that exactly."""
    word = word_at(data, at) if 0 <= at < stop else np.uint64(0)
    years = word >> np.uint64(16) & np.uint64(0x7F)
    low, high = word >> np.uint64(32) & np.uint64(0xFF), word >> np.uint64(40) & np.uint64(0xFF)
    if word & USUAL_BITS == USUAL and years:
        year = np.int64(years << np.uint64(7) | (word >> np.uint64(8) & np.uint64(0x7F)))
        if stop - at == 5 and low < np.uint64(128):
            return _join_days(year, np.int64(low))
        if stop - at == 6 and low >= np.uint64(128) and np.uint64(0) < high < np.uint64(128):
            return _join_days(year, np.int64(high << np.uint64(7) | (low & np.uint64(0x7F))))
    _, wide, at = number_field(data, at, stop, 0x08)
    if at < 0 or wide + INT32 >= np.uint64(2) * INT32:
        return np.int64(0), False
    _, day, at = number_field(data, at, stop, 0x10)
    if at != stop or day > np.uint64(366):
        return np.int64(0), False
    return _join_days(np.int64(wide), np.int64(day))


@inlined
def _micros(days: np.int64, seconds: np.int64, nanos: np.int64) -> tuple[np.int64, bool]:
    """Return microseconds since 1970, and whether they are whole and fit."""
    whole = nanos // 1000
    late = seconds * 1_000_000 + whole
    if days < 0:  # count from the day's end, so that no step overflows
        days, late = days + 1, late - DAY_US
    if abs(days) > 106_751_991 or whole * 1000 != nanos:
        return np.int64(0), False
    start = days * DAY_US
    far = start < LOWEST - late if days < 0 or late < 0 else start > HIGHEST - late
    return (np.int64(0), False) if far else (start + late, True)


@inlined
def _timestamp(data: Bytes, at: int, stop: int) -> tuple[np.int64, bool]:
    """Return microseconds since 1970 of the timestamp in [at, stop), and whether it fills that.

    `at` -1: there is none.
    """
    begin, end = framed(data, at, stop, 0x0A)
    days, good = _date(data, begin, end) if begin >= 0 else (np.int64(0), False)
    begin, end = framed(data, end, stop, 0x12)
    if not good or end != stop:
        return np.int64(0), False
    _, seconds, begin = number_field(data, begin, stop, 0x08)
    if begin < 0 or seconds >= np.uint64(86_400):
        return np.int64(0), False
    _, nanos, begin = number_field(data, begin, stop, 0x10)
    if begin != stop or nanos >= np.uint64(2_000_000_000):
        return np.int64(0), False
    return _micros(days, np.int64(seconds), np.int64(nanos))


@inlined
def _message(data: Bytes, start: int, stop: int, tag: int, head: int) -> int:
    """Return where the message of a datum begins; -1: it does not fill the datum."""
    at = content(word_at(data, start), start, stop, tag, head)
    begin, end = sized(data, at, stop if at >= 0 else -1)
    return begin if end == stop else -1


@compiled
def read_dates(
    data: Bytes, starts: Ints, stops: Ints, tag: int, head: int, odd: Bools
) -> tuple[Int32s, Bools]:
    """Return days since 1970-01-01, and which are not null; dates that do not exist are odd."""
    dates = np.zeros(len(starts), np.int32)
    valid = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        start, stop = starts[i], stops[i]
        if start < 0 or is_null(word_at(data, start), start, stop):
            continue
        begin = _message(data, start, stop, tag, head)
        days, good = _date(data, begin, stop) if begin >= 0 else (np.int64(0), False)
        dates[i] = days
        if not good or dates[i] != days:
            odd[i] = True
            continue
        valid[i] = True
    return dates, valid


@compiled
def read_timestamps(
    data: Bytes, starts: Ints, stops: Ints, tag: int, head: int, odd: Bools
) -> tuple[Ints, Bools]:
    """Return microseconds since 1970, and which are not null; finer or too far times are odd."""
    micros = np.zeros(len(starts), np.int64)
    valid = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        start, stop = starts[i], stops[i]
        if start < 0 or is_null(word_at(data, start), start, stop):
            continue
        begin = _message(data, start, stop, tag, head)
        value, good = _timestamp(data, begin, stop)
        if not good:
            odd[i] = True
            continue
        micros[i] = value
        valid[i] = True
    return micros, valid
