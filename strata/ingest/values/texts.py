"""Converts texts of times, uuids, intervals and rights to the form in which readers see them.

Each function takes strings and returns what `strata.format.values.view.from_view` takes; an invalid
text becomes null. Types that few columns have (intervals, rights) are read one distinct text at a
time; times and uuids are read a column at a time.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation, localcontext
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.model.types import Kind

Value = Mapping[str, Any]
Reader = Callable[[pa.Array, pa.DataType], pa.Array]

TIME: Final = r"^(?P<h>[01]?\d|2[0-3]):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d|60)(?:[.](?P<f>\d{1,9}))?)?$"
UUID: Final = (
    r"(?i)^(?:urn:uuid:)?(?P<a>[0-9a-f]{8})-?(?P<b>[0-9a-f]{4})-?(?P<c>[0-9a-f]{4})"
    r"-?(?P<d>[0-9a-f]{4})-?(?P<e>[0-9a-f]{12})$"
)

BRACED: Final = r"^\{([0-9a-fA-F-]*)\}$"

MONTHS: Final[Mapping[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 12),
        **dict.fromkeys(("mon", "mons", "month", "months"), 1),
    }
)
DAYS: Final[Mapping[str, int]] = MappingProxyType(
    {**dict.fromkeys(("d", "day", "days"), 1), **dict.fromkeys(("w", "week", "weeks"), 7)}
)
MICROS: Final[Mapping[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600_000_000),
        **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000_000),
        **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
        **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1_000),
        **dict.fromkeys(("us", "usec", "usecs", "microsecond", "microseconds"), 1),
    }
)
DAY: Final = 86_400_000_000  # microseconds
_NUMBER: Final = r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))"
_SIXTY: Final = r"[0-5]?\d"
_CLOCK: Final = rf"(\d+):({_SIXTY})(?::({_SIXTY}(?:\.\d+)?))?(?![\d:.])"
_TOKEN: Final = re.compile(
    rf"\s*(?:([+-]?){_CLOCK}|([+-]?)(\d+)-(0?\d|1[01])(?!\d)|{_NUMBER}\s*([a-z]+))"
    r"(?=\s|[+-]|\d|$)",
    re.ASCII,
)
_DAY_AND_CLOCK: Final = re.compile(
    rf"\s*([+-]?)(\d+)\s+(\d+:{_SIXTY}(?::{_SIXTY}(?:\.\d+)?)?)(?![\d:.])", re.ASCII
)
_ISO_NUMBER: Final = r"([+-]?\d+(?:\.\d*)?)"
_ISO: Final = re.compile(
    rf"([+-]?)p(?:{_ISO_NUMBER}y)?(?:{_ISO_NUMBER}m)?(?:{_ISO_NUMBER}w)?(?:{_ISO_NUMBER}d)?"
    rf"(?:t(?:{_ISO_NUMBER}h)?(?:{_ISO_NUMBER}m)?(?:{_ISO_NUMBER}s)?)?",
    re.ASCII,
)
LONGEST: Final = 1000  # characters of an interval; its numbers are added up without rounding
EXACT: Final = Context(prec=2 * LONGEST)
_ISO_UNITS: Final = ("year", "mon", "week", "day", "hour", "minute", "second")
_SPARK: Final = re.compile(
    r"interval\s+'(?:(\s*[+-]?\d+ \d+:\d\d?:\d\d?(?:\.\d+)?\s*)'\s+day to second"
    r"|(\s*[+-]?\d+-\d+\s*)'\s+year to month"
    r"|([^']*)'\s+((?:year|month|day|hour|minute|second)s?))",
    re.ASCII,
)

# The rights of a PostgreSQL ACL item by their letters.
RIGHTS: Final[Mapping[str, int]] = MappingProxyType(
    {letter: 1 << bit for bit, letter in enumerate("arwdDxtXUCTc")}
)
# Those of Materialize: for objects as in PostgreSQL, for the whole system R, B, N and P.
MZ_RIGHTS: Final[Mapping[str, int]] = MappingProxyType(
    {letter: RIGHTS[letter] for letter in "arwdUC"}
    | {letter: 1 << bit for bit, letter in enumerate("RBNP", 29)}
)
_ACL: Final = re.compile(r"([A-Za-z0-9]*)=([A-Za-z]*)/([A-Za-z0-9]+)")
_ROLE: Final = re.compile(r"[sgu]\d+|p", re.ASCII)


def time_texts(texts: pa.Array) -> pa.Array:
    """Return `HH:MM[:SS[.f]]` as `HH:MM:SS.nnnnnnnnn`; second 60 is a leap second.

    >>> time_texts(pa.array([" 9:05", "23:59:60.5", "24:00"])).to_pylist()
    ['09:05:00.000000000', '23:59:60.500000000', None]
    """
    found = pc.extract_regex(pc.utf8_trim_whitespace(texts), TIME)
    hour, minute, second, fraction = (pc.struct_field(found, i) for i in range(4))
    whole = pc.binary_join_element_wise(
        pc.utf8_lpad(hour, 2, "0"), minute, pc.utf8_lpad(second, 2, "0"), ":"
    )
    return pc.binary_join_element_wise(whole, pc.utf8_rpad(fraction, 9, "0"), ".")


def uuid_texts(texts: pa.Array) -> pa.Array:
    """Return uuids in lower case with hyphens; they come in any case, with or without hyphens."""
    plain = pc.utf8_trim_whitespace(texts)
    braced = pc.replace_substring_regex(plain, BRACED, r"\1")
    found = pc.extract_regex(braced, UUID)
    groups = [pc.struct_field(found, i) for i in range(5)]
    return pc.utf8_lower(pc.binary_join_element_wise(*groups, "-"))


def distinct(texts: pa.Array, read: Callable[[str], Value | int], kind: pa.DataType) -> pa.Array:
    """Return the values that `read` finds, reading each distinct text once; null if it fails."""
    encoded = texts.dictionary_encode()
    values = [
        pa.scalar(None if text is None else _read_or_none(text, read, kind), kind)
        for text in encoded.dictionary.to_pylist()
    ]
    return pa.array(values, kind).take(encoded.indices)


def _read_or_none(
    text: str, read: Callable[[str], Value | int], kind: pa.DataType
) -> Value | int | None:
    """Return what `read` finds; None if it fails or if `kind` does not hold the value."""
    try:
        with localcontext(EXACT):
            found = read(text.strip())
        pa.scalar(found, kind)
    except (ValueError, InvalidOperation, OverflowError, pa.ArrowException):
        return None
    return found


def parse_interval(text: str) -> Value:
    """Return months, days and microseconds of an interval as PostgreSQL or Spark writes it.

    Raises: ValueError for a text that is not an interval, not exact to the microsecond or too long.

    >>> parse_interval("1 mon -2 days 03:04:05.5")
    {'months': 1, 'days': -2, 'micros': 11045500000}
    >>> parse_interval("P1Y2M3DT4H") == parse_interval("1-2 3 4:00:00")
    True
    """
    if len(text) > LONGEST:
        raise ValueError("too long for an interval")
    body, sign = text.lower(), 1
    quoted = _SPARK.fullmatch(body)
    if quoted:
        body = quoted[1] or quoted[2] or f"{quoted[3]} {quoted[4]}"
    if body.endswith(" ago"):
        body, sign = body[:-4], -1
    iso = _ISO.fullmatch(body)
    pairs = _iso_pairs(iso) if iso else _token_pairs(body.removeprefix("@"))
    if not pairs or (iso is None and _is_said_twice(pairs)):
        raise ValueError(text)
    months = days = micros = Decimal(0)
    for number, unit in pairs:
        if unit in MONTHS:
            months += number * MONTHS[unit]
        elif unit in DAYS:
            whole = number * DAYS[unit]
            days += int(whole)
            micros += (whole - int(whole)) * DAY
        elif unit in MICROS:
            micros += number * MICROS[unit]
        else:
            raise ValueError(text)
    found = {"months": sign * months, "days": sign * days, "micros": sign * micros}
    return {name: _whole(value, 64 if name == "micros" else 32) for name, value in found.items()}


def _whole(value: Decimal, bits: int) -> int:
    number = int(value)
    if number != value or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(value)
    return number


def _is_said_twice(pairs: list[tuple[Decimal, str]]) -> bool:
    """Return whether a unit comes twice, which PostgreSQL refuses: `10:00+02:00` is no interval.

    A part of a second counts as milli- and microseconds, too.
    """
    said: list[tuple[str, int]] = []
    for number, unit in pairs:
        for name, sizes in (("months", MONTHS), ("days", DAYS), ("micros", MICROS)):
            said += [(name, sizes[unit])] if unit in sizes else []
        if MICROS.get(unit) == MICROS["second"] and number % 1:
            said += [("micros", MICROS["millisecond"]), ("micros", MICROS["microsecond"])]
    return len(said) != len(set(said))


def _iso_pairs(found: re.Match[str]) -> list[tuple[Decimal, str]]:
    sign = -1 if found[1] == "-" else 1
    numbers = zip(found.groups()[1:], _ISO_UNITS, strict=True)
    return [(sign * Decimal(n), unit) for n, unit in numbers if n is not None]


def _token_pairs(text: str) -> list[tuple[Decimal, str]]:
    """Return numbers and units of `1 mon 2 days 03:04:05`, `1-2` (years) and `3 04:05` (days)."""
    pairs: list[tuple[Decimal, str]] = []
    position = 0
    while text[position:].strip():
        bare = _DAY_AND_CLOCK.match(text, position)
        if bare:
            pairs.append((Decimal(bare[1] + bare[2]), "day"))
            # A sign before the days also applies to the clock after them.
            text, position = f"{bare[1]}{bare[3]}{text[bare.end() :]}", 0
            continue
        found = _TOKEN.match(text, position)
        if not found:
            raise ValueError(text)
        position = found.end()
        clock, hours, minutes, seconds, minus, years, months, number, unit = found.groups()
        if hours is not None:
            parts = ((hours, "hour"), (minutes, "minute"), (seconds or "0", "second"))
            pairs += [(Decimal(clock + n), u) for n, u in parts]
        elif years is not None:
            pairs += [(Decimal(minus + years), "year"), (Decimal(minus + months), "mon")]
        else:
            pairs.append((Decimal(number), unit))
    return pairs


def parse_aclitem(text: str) -> Value:
    """Return an ACL item, `grantee=rights/grantor` with roles by number; no grantee: public, 0.

    >>> parse_aclitem("1=ar/2")
    {'grantee': 1, 'grantor': 2, 'mode': Decimal('3')}
    """
    grantee, grantor, mode = _acl(text, RIGHTS)
    return {"grantee": int(grantee or "0"), "grantor": int(grantor), "mode": mode}


def parse_mz_aclitem(text: str) -> Value:
    """Return an ACL item with roles such as s1, g1, u1 and p, or nothing, for public."""
    grantee, grantor, mode = _acl(text, MZ_RIGHTS)
    if not (_ROLE.fullmatch(grantee or "p") and _ROLE.fullmatch(grantor)):
        raise ValueError(text)
    return {"grantee": grantee or "p", "grantor": grantor, "mode": mode}


def _acl(text: str, rights: Mapping[str, int]) -> tuple[str, str, Decimal]:
    found = _ACL.fullmatch(text)
    if not found or not rights.keys() >= set(found[2]):
        raise ValueError(text)
    return found[1], found[3], Decimal(sum(rights[letter] for letter in set(found[2])))


def parse_day_time(text: str) -> int:
    """Return the microseconds of an interval without months."""
    found = parse_interval(text)
    if found["months"]:
        raise ValueError("months have no fixed length")
    return int(found["days"] * DAY + found["micros"])


def parse_year_month(text: str) -> int:
    """Return the months of an interval of whole months."""
    found = parse_interval(text)
    if found["days"] or found["micros"]:
        raise ValueError("not whole months")
    return int(found["months"])


def _each(read: Callable[[str], Value | int]) -> Reader:
    return lambda texts, kind: distinct(texts, read, kind)


# How the texts of a type are read: from texts and the type in which readers see the values.
READERS: Final[Mapping[Kind, Reader]] = MappingProxyType(
    {
        Kind.TIME: lambda texts, _: time_texts(texts),
        Kind.UUID: lambda texts, _: uuid_texts(texts),
        Kind.INTERVAL: _each(parse_interval),
        Kind.DAY_TIME: _each(parse_day_time),
        Kind.YEAR_MONTH: _each(parse_year_month),
        Kind.ACLITEM: _each(parse_aclitem),
        Kind.MZ_ACLITEM: _each(parse_mz_aclitem),
    }
)
