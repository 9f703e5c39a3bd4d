"""Intervals: their texts as PostgreSQL, ISO 8601 and Spark write them, and their parts as numbers.

A span is months, days and microseconds. A fraction of a day counts in microseconds; a fraction of a
month is invalid.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Final

from strata.ingest.twin.times import fraction
from strata.ingest.twin.unreadable import Undecided, Unreadable
from strata.model.types import ColumnType, Kind

Span = tuple[int, int, int]
Parts = tuple[Fraction | int, Fraction | int, Fraction | int]
ZERO: Final = Fraction(0)
INT32: Final = 2**31
INT64: Final = 2**63
MICROS: Final = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
MONTHS: Final = {"month": 1, "year": 12, "decade": 120, "century": 1200, "millennium": 12_000}
DAYS: Final = {"day": 1, "week": 7}
SHORT: Final = {
    "y": "year", "yr": "year", "mon": "month", "w": "week", "d": "day", "h": "hour", "hr": "hour",
    "m": "minute", "min": "minute", "s": "second", "sec": "second", "ms": "millisecond",
    "msec": "millisecond", "us": "microsecond", "usec": "microsecond", "centuries": "century",
    "millennia": "millennium", "mils": "millennium", "c": "century", "cent": "century",
    "dec": "decade",
}  # fmt: skip
PART: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]+)|\.)?[ \t\n\r\f\v]*([a-z]+)")
CLOCK: Final = re.compile(r"([+-]?)([0-9]+):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?")
YEARS: Final = re.compile(r"([+-]?)([0-9]+)-([0-9]{1,2})")
ISO: Final = re.compile(r"([+-]?)([0-9]+)(?:[.,]([0-9]*))?([YMWDHS])")
SPARK: Final = re.compile(
    r"interval\s*(-?)\s*'([^']*)'\s*(year|month|day|hour|minute|second)s?"
    r"(?:\s+to\s+(year|month|day|hour|minute|second)s?)?",
    re.IGNORECASE | re.ASCII,
)

BLANKS: Final = " \t\n\r\f\v"


def span_from_text(text: str) -> Span:
    """Return the span that a text says. Raises: Unreadable."""
    found = SPARK.fullmatch(text)
    if found is not None:
        return _spark(*found.groups())
    body = text.lower()
    if body[:1] in ("p", "-", "+") and body.lstrip("+-").startswith("p"):
        return _iso(text)
    return _checked(_words(body))


def _spark(sign: str, body: str, unit: str, to: str | None) -> Span:
    body, unit = body.strip(), unit.lower()
    span: Parts
    if to is None:
        span = _words(f"{body} {unit}")
    elif unit == "year":
        span = _years(body)
    else:
        span = _clock_of_units(body, unit, to.lower())
    months, days, micros = span
    return _checked((-months, -days, -micros) if sign else span)


def _clock_of_units(body: str, unit: str, to: str) -> Span:
    """Return the span of a Spark literal as `-1 02:00:00` DAY TO SECOND: one sign for all."""
    units = ["day", "hour", "minute", "second"]
    wanted = units[units.index(unit) : units.index(to) + 1] if unit in units else []
    numbers = re.fullmatch(r"([+-]?)([0-9]+(?:[ :][0-9]+)*)(?:\.([0-9]+))?", body)
    parts = re.split("[ :]", numbers[2]) if numbers else []
    if numbers is None or len(parts) != len(wanted) or (numbers[3] and to != "second"):
        raise Unreadable("not an interval")
    found = dict(zip(wanted, map(int, parts), strict=True))
    micros = sum(n * MICROS[name] for name, n in found.items() if name != "day")
    micros += fraction(numbers[3] or "", 6)
    sign = -1 if numbers[1] == "-" else 1
    return 0, sign * found.get("day", 0), sign * micros


def _words(text: str) -> Parts:
    """Return the span of PostgreSQL's own words and of SQL's standard form."""
    body = text.strip().removeprefix("@").strip()
    ago = body.endswith("ago")
    body = body.removesuffix("ago").strip() if ago else body
    total: list[Fraction | int] = [0, 0, 0]
    rest, said = body, set[str]()
    if not rest:
        raise Unreadable("not an interval")
    while rest:
        span, behind = _next(rest)
        units = _units(rest[: len(rest) - len(behind)])
        if units & said:
            raise Unreadable("a unit of an interval comes twice")
        rest, said = behind, said | units
        total = [a + b for a, b in zip(total, span, strict=True)]
        rest = rest.lstrip(BLANKS)
    if ago:
        total = [-n for n in total]
    return total[0], total[1], total[2]


def _next(rest: str) -> tuple[Parts, str]:
    for form, read in ((CLOCK, _clock), (YEARS, _year_month), (PART, _part)):
        found = form.match(rest)
        if found is not None and rest[found.end() :][:1] in ("", *BLANKS, "+", "-", *"0123456789"):
            return read(*found.groups()), rest[found.end() :]
    bare = re.match(
        r"([+-]?)([0-9]+)(?=[ \t\n\r\f\v]+[+-]?[0-9]+:)", rest
    )  # days in front of a time of day
    if bare is None:
        raise Unreadable("not an interval")
    if bare[1] == "-" and rest[bare.end() :].lstrip()[:1] not in ("+", "-"):
        raise Undecided("whether the sign of the days is that of the clock, too")
    return (0, _whole(bare[1], bare[2]), 0), rest[bare.end() :]


def _units(piece: str) -> set[str]:
    """Return the units that a piece of a text is about; a part of a second is of finer units."""
    finer = {"millisecond", "microsecond"} if re.search(r"\.0*[1-9]", piece) else set[str]()
    if ":" in piece:
        return {"hour", "minute", "second", *finer}
    if (found := PART.fullmatch(piece)) is not None:
        unit = _unit(found[4])
        return {unit, *finer} if unit == "second" else {unit}
    return {"year", "month"} if YEARS.fullmatch(piece) else {"day"}


def _clock(sign: str, hours: str, minutes: str, seconds: str | None, part: str | None) -> Span:
    if int(minutes) > 59 or int(seconds or "0") > 59:
        raise Unreadable("not a time of day in an interval")
    micros = (_whole("", hours) * 60 + int(minutes)) * 60 * 10**6
    micros += int(seconds or "0") * 10**6 + fraction(part or "", 6)
    return 0, 0, -micros if sign == "-" else micros


def _years(body: str) -> Span:
    found = YEARS.fullmatch(body)
    if found is None:
        raise Unreadable("not years and months")
    return _year_month(*found.groups())


def _year_month(sign: str, years: str, months: str) -> Span:
    if int(months) > 11:
        raise Unreadable("not a month of a year")
    total = _whole("", years) * 12 + int(months)
    return -total if sign == "-" else total, 0, 0


def _unit(word: str) -> str:
    return SHORT.get(word) or SHORT.get(word.removesuffix("s"), word.removesuffix("s"))


def _part(sign: str, whole: str, behind: str | None, word: str) -> Parts:
    unit = _unit(word)
    if not whole + (behind or ""):
        raise Unreadable("not an interval")
    if len(whole) > 30 or len(behind or "") > 30:
        raise Unreadable("out of range")
    number = Fraction(f"{sign}{whole or '0'}.{behind or '0'}")
    if unit in MICROS:
        return ZERO, ZERO, number * MICROS[unit]
    if unit in MONTHS:
        return number * MONTHS[unit], ZERO, ZERO
    if unit in DAYS:  # PostgreSQL makes hours of a part of a day, number by number
        days = number * DAYS[unit]
        return ZERO, Fraction(int(days)), (days - int(days)) * 86_400 * 10**6
    raise Unreadable("no unit of an interval")


def _whole(sign: str, digits: str) -> int:
    if len(digits) > 30:
        raise Unreadable("out of range")
    return -int(digits) if sign == "-" else int(digits)


def _iso(text: str) -> Span:
    body = text.upper()
    turned = body.startswith("-")
    day_part, _, clock_part = body.lstrip("+-")[1:].partition("T")
    if not day_part + clock_part or body.endswith("T"):
        raise Unreadable("not an interval")
    total: list[Fraction | int] = [0, 0, 0]
    units = {"Y": "year", "M": "month", "W": "week", "D": "day"}
    clock_units = {"H": "hour", "M": "minute", "S": "second"}
    for part, names in ((day_part, units), (clock_part, clock_units)):
        for sign, whole, behind, letter in _iso_parts(part):
            if letter not in names:
                raise Unreadable("no unit of an interval")
            span = _part(sign, whole, behind, names[letter])
            total = [a + b for a, b in zip(total, span, strict=True)]
    months, days, micros = (-n for n in total) if turned else total
    return _checked((months, days, micros))


def _iso_parts(part: str) -> Iterator[tuple[str, str, str | None, str]]:
    at = 0
    while at < len(part):
        found = ISO.match(part, at)
        if found is None:
            raise Unreadable("not an interval")
        sign, whole, behind, letter = found.groups()
        yield sign, whole, behind, letter
        at = found.end()


def _checked(span: Parts) -> Span:
    """Return a span of whole parts within their limits. Raises: Unreadable."""
    if any(part % 1 for part in span):
        raise Unreadable("parts of a month, or of a microsecond")
    months, days, micros = map(int, span)
    if not (-INT32 <= months < INT32 and -INT32 <= days < INT32 and -INT64 <= micros < INT64):
        raise Unreadable("out of range")
    return months, days, micros


def span_as(span: Span, column_type: ColumnType) -> object:
    """Return a span in the form of one of the three types of interval. Raises: Unreadable."""
    months, days, micros = _checked(span)
    if column_type.kind is Kind.INTERVAL:
        return {"months": months, "days": days, "micros": micros}
    if column_type.kind is Kind.YEAR_MONTH:
        if days or micros:
            raise Unreadable("days in an interval of years and months")
        return months
    if months:
        raise Unreadable("months in an interval of days and seconds")
    total = days * 86_400 * 10**6 + micros
    if not -INT64 <= total < INT64:
        raise Unreadable("out of range")
    return timedelta(microseconds=total)


def span_of_parts(parts: Mapping[str, int], column_type: ColumnType) -> object:
    """Return the span of an object of months, days, micros: 0 where missing. Raises: Unreadable."""
    names = ("months", "days", "micros")
    if set(parts) - set(names):
        raise Undecided("an interval has months, days, micros")
    return span_as(
        (parts.get("months", 0), parts.get("days", 0), parts.get("micros", 0)), column_type
    )
