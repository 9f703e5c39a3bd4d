"""Dates, times and timestamps: their texts, and numbers of days or smaller units."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from strata.ingest.twin.unreadable import Undecided, Unreadable
from strata.model.types import Kind

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  a naive time
EPOCH_DAY: Final = date(1970, 1, 1)
DAY_NANOS: Final = 86_400 * 10**9
DAY_MICROS: Final = 86_400 * 10**6
FIRST_DAY: Final = date.min.toordinal() - EPOCH_DAY.toordinal()
LAST_DAY: Final = date.max.toordinal() - EPOCH_DAY.toordinal()

DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?")
MOMENT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt ]([0-9]{2}(?::[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)?))?"
    r"(?: ?([Zz]|(?<= )UTC|[+-][0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2})?)?))?"
)


def date_from_text(text: str) -> date:
    """Return the day that a text says. Raises: Unreadable."""
    found = DATE.fullmatch(text)
    if found is None:
        raise Unreadable("not a date")
    if found[1] == "0000":  # Python has no such year; with an offset the moment may be in the next
        raise Undecided("the year 0")
    try:
        return date(*map(int, found.groups()))
    except ValueError as error:
        raise Unreadable(f"not a date: {error}") from error


def time_from_text(text: str) -> str:
    """Return the time of day that a text says. Raises: Unreadable."""
    found = CLOCK.fullmatch(text)
    if found is None:
        raise Unreadable("not a time")
    hour, minute, second = (int(part or "0") for part in found.groups()[:3])
    nanos = fraction(found[4] or "", 9)
    if hour > 23 or minute > 59 or second > 60:
        raise Unreadable("no such time of day")
    return f"{hour:02}:{minute:02}:{second:02}.{nanos:09}"


def fraction(digits: str, places: int) -> int:
    """Return the digits behind a point in units of 10^-places. Raises: Unreadable beyond."""
    kept = digits.rstrip("0")
    if len(kept) > places:
        raise Unreadable(f"more than {places} digits of a second")
    return int(kept.ljust(places, "0") or "0")


def moment_from_text(text: str, kind: Kind) -> datetime:
    """Return the timestamp or timestamptz that a text says. Raises: Unreadable."""
    found = MOMENT.fullmatch(text)
    if found is None:
        raise Unreadable("not a timestamp")
    day, clock, zone = found.groups()
    if zone and (kind is Kind.TIMESTAMP or clock is None):
        raise Unreadable("an offset in a timestamp without a zone")
    micros = (date_from_text(day) - EPOCH_DAY).days * DAY_MICROS + _clock_micros(clock)
    return _within(micros - _offset_micros(zone), kind)


def _clock_micros(clock: str | None) -> int:
    if clock is None:
        return 0
    whole, _, behind = clock.partition(".")
    hour, minute, second = [*map(int, whole.split(":")), 0, 0][:3]
    if hour > 23 or minute > 59 or second > 59:
        raise Unreadable("no such time of day")
    return (hour * 3600 + minute * 60 + second) * 10**6 + fraction(behind, 6)


def _offset_micros(zone: str | None) -> int:
    if zone is None or zone in {"Z", "z", "UTC"}:
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = (int(digits[n : n + 2]) for n in (0, 2, 4))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise Unreadable("no such offset")
    micros = (hours * 3600 + minutes * 60 + seconds) * 10**6
    return -micros if zone[0] == "-" else micros


def _within(micros: int, kind: Kind) -> datetime:
    found = moment(micros, kind)
    if isinstance(found, int):
        raise Unreadable("outside of the years 0001 to 9999")
    return found


def date_of_days(days: int) -> date:
    """Return a day since 1970. Raises: Unreadable outside of the years 0001 to 9999."""
    found = day(days)
    if isinstance(found, int):
        raise Unreadable("outside of the years 0001 to 9999")
    return found


def moment_of_nanos(nanos: int, kind: Kind) -> datetime:
    """Return a time since 1970. Raises: Unreadable for parts of microseconds, and far times."""
    micros, rest = divmod(nanos, 1000)
    if rest:
        raise Unreadable("parts of a microsecond")
    return _within(micros, kind)


def time_of_nanos(nanos: int) -> str:
    """Return a time of day. Raises: Unreadable outside of a day."""
    if not 0 <= nanos < DAY_NANOS:
        raise Unreadable("outside of a day")
    return clock_text(nanos // 10**9, nanos % 10**9)


def clock_text(seconds: int, nanos: int) -> str:
    """Return a time of day as text; nanoseconds from a billion on are a leap second."""
    leap, nanos = divmod(nanos, 10**9)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second + leap:02}.{nanos:09}"


def day(days: int) -> date | int:
    """Return the canonical form of days since 1970."""
    if not FIRST_DAY <= days <= LAST_DAY:
        return days
    return EPOCH_DAY + timedelta(days=days)


def moment(micros: int, kind: Kind) -> datetime | int:
    """Return the canonical form of microseconds since 1970."""
    if not FIRST_DAY * DAY_MICROS <= micros < (LAST_DAY + 1) * DAY_MICROS:
        return micros
    found = EPOCH + timedelta(microseconds=micros)
    return found if kind is Kind.TIMESTAMP else found.replace(tzinfo=UTC)
