"""Texts of days, times of day and timestamps of typed files, as JSON has them."""

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from strata.ingest.twin.times import DAY_NANOS, EPOCH
from strata.ingest.twin.unreadable import Undecided, Unreadable

TICKS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # nanoseconds
OFFSET: Final = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")


def iso_text(value: Any, kind: pa.DataType) -> str:
    """Return the ISO text of a time. Raises: Unreadable for one that has none; Undecided."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if not isinstance(value, int):
        raise Undecided("a time as Python has it may have lost some of its places")
    if pa.types.is_duration(kind):
        raise Unreadable("a duration as JSON")
    if pa.types.is_date(kind):
        nanos = value * (DAY_NANOS if kind == pa.date32() else 10**6)
        if nanos % DAY_NANOS:
            raise Unreadable("a day with a time")
        return _wall(nanos)[:10]
    if pa.types.is_time(kind):
        nanos = value * TICKS[kind.unit]
        if not 0 <= nanos < DAY_NANOS:
            raise Unreadable("a time outside of a day")
        return _wall(nanos)[11:]
    nanos = value * TICKS[kind.unit]
    if kind.tz is None:
        return _wall(nanos)
    try:
        there = (EPOCH + timedelta(seconds=nanos // 10**9)).replace(tzinfo=UTC)
        offset = there.astimezone(_zone(kind.tz)).utcoffset() or timedelta()
    except OverflowError as error:
        raise Unreadable("no such year") from error
    shift = round(offset.total_seconds())
    hours, rest = divmod(abs(shift), 3600)
    minutes, seconds = divmod(rest, 60)
    behind = f":{seconds:02}" if seconds else ""
    sign = "-" if shift < 0 else "+"
    return f"{_wall(nanos + shift * 10**9)}{sign}{hours:02}:{minutes:02}{behind}"


def _wall(nanos: int) -> str:
    """Return what a clock shows some nanoseconds after 1970."""
    try:
        whole = (EPOCH + timedelta(seconds=nanos // 10**9)).isoformat()
    except OverflowError as error:
        raise Unreadable("no such year") from error
    rest = f"{nanos % 10**9:09}"
    if rest == "000000000":
        return whole
    return f"{whole}.{rest.removesuffix('000')}"


def _zone(name: str) -> tzinfo:
    found = OFFSET.fullmatch(name)
    if found is not None:
        sign = -1 if found[1] == "-" else 1
        return timezone(sign * timedelta(hours=int(found[2]), minutes=int(found[3])))
    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:
        raise Undecided("a zone that is not known here") from error
