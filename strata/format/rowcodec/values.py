"""The contents of single messages as physical values: dates, times, decimals, acl items.

For `scalar`, which finds the messages. Everything raises MalformedError.
"""

import struct
from typing import Final

from strata.format.rowcodec.fields import NANOS, ROLES, SECONDS
from strata.format.rowcodec.wire import (
    MalformedError,
    checked,
    fields,
    message,
    number,
    parts,
    signed,
    unsigned,
)
from strata.format.values.packed import INFINITY, MAX_DIGITS, NAN, NEGATIVE
from strata.model.types import ColumnType, Kind

DAY_US: Final = 86_400_000_000
DAYS_TO_1970: Final = 719_162  # from 0001-01-01
PLUS: Final = (0xA, 0xC, 0xE, 0xF)  # sign nibbles of packed decimals; written are C and D
MINUS: Final = (0xB, 0xD)
ROLE_FIELDS: Final = {tag >> 3: role for role, tag in ROLES.items()}
PUBLIC_FIELD: Final = 3  # a message without content


def uuid(data: bytes) -> bytes:
    """Return the 16 bytes of a uuid."""
    if len(data) != 16:
        raise MalformedError(f"a uuid of {len(data)} bytes")
    return data


def date(data: bytes) -> int:
    """Return days since 1970-01-01 of a year and the day in it."""
    return checked(_days(data), 32)


def _days(data: bytes) -> int:
    numbers = parts(data)
    year, ordinal = signed(numbers.get(1, 0), 32), number(numbers.get(2, 0))
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= ordinal <= 365 + leap:
        raise MalformedError(f"year {year} has no day {ordinal}")
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + ordinal - 1 - DAYS_TO_1970


def _clock(data: bytes) -> tuple[int, int]:
    """Return seconds and nanoseconds of a time of day."""
    numbers = parts(data)
    seconds, nanos = number(numbers.get(1, 0)), number(numbers.get(2, 0))
    if seconds > SECONDS[1] or nanos > NANOS[1]:
        raise MalformedError(f"no time of day: {seconds} s {nanos} ns")
    return seconds, nanos


def time(data: bytes) -> bytes:
    """Return the stored bytes of a time of day."""
    return struct.pack(">II", *_clock(data))


def timestamp(data: bytes) -> int:
    """Return microseconds since 1970 of a date and a time."""
    found = parts(data)
    days = _days(message(found.get(1, b"")))
    seconds, nanos = _clock(message(found.get(2, b"")))
    if nanos % 1000:
        raise MalformedError(f"{nanos} ns is finer than a microsecond")
    return checked(days * DAY_US + seconds * 1_000_000 + nanos // 1000, 64)


def interval(data: bytes, kind: Kind) -> int | bytes:
    """Return the stored bytes of an interval, or the one number of the simpler kinds."""
    numbers = parts(data)
    months, days = (signed(numbers.get(i, 0), 32) for i in (1, 2))
    micros = signed(numbers.get(3, 0), 64)
    if kind is Kind.INTERVAL:
        return struct.pack(">IIQ", months + 2**31, days + 2**31, micros + 2**63)
    if days or (months if kind is Kind.DAY_TIME else micros):
        raise MalformedError(f"{months} months, {days} days, {micros} µs do not fit {kind}")
    return micros if kind is Kind.DAY_TIME else months


def aclitem(data: bytes) -> bytes:
    """Return the stored bytes of an acl item."""
    found = parts(data)
    roles = [unsigned(found.get(i, 0), 32) for i in (1, 2)]
    return struct.pack(">IIQ", *roles, _mode(found.get(3, b"")))


def mz_aclitem(data: bytes) -> bytes:
    """Return the stored bytes of an acl item with kinds of roles."""
    found = parts(data)
    roles = [_role(message(found.get(i, b""))) for i in (1, 2)]
    return struct.pack(">IQIQQ", *roles[0], *roles[1], _mode(found.get(3, b"")))


def _mode(value: int | bytes) -> int:
    return number(parts(message(value)).get(1, 0))


def _role(data: bytes) -> tuple[int, int]:
    """Return the stored tag and the id of a role; of several the last counts."""
    role: tuple[int, int] | None = None
    for field, _, value in fields(data):
        if field == PUBLIC_FIELD:
            message(value)
            role = ROLE_FIELDS[field], 0
        elif field in ROLE_FIELDS:
            role = ROLE_FIELDS[field], number(value)
    if role is None:
        raise MalformedError("an acl item names a role of an unknown kind")
    return role


def special(*, negative: bool, nan: bool) -> bytes:
    """Return the stored bytes of an infinity or NaN."""
    return _packed(0, 0, NAN if nan else INFINITY | (NEGATIVE if negative else 0))


def _packed(coefficient: int, exponent: int, flags: int) -> bytes:
    """Return the 40 bytes of a canonical number, see `strata.format.values.packed`."""
    units = [coefficient // 1000**i % 1000 for i in range(13)]
    head = struct.pack("<Ii13H", len(str(coefficient)), exponent, *units)
    return head + bytes([flags]) + bytes(5)


def numeric(data: bytes, column_type: ColumnType) -> int | bytes:
    """Return a number as it is stored: the unscaled integer, or 40 bytes without a precision."""
    bcd, scale = b"", 0
    for field, _, value in fields(data):
        if field == 1:
            bcd = message(value)
        elif field == 2:
            scale = signed(value, 32)
    digits, sign = bcd.hex()[:-1], bcd[-1] & 15 if bcd else 0
    if not digits.isdecimal() or sign not in PLUS + MINUS:
        raise MalformedError("not a packed decimal")
    digits = digits.lstrip("0") or "0"
    if column_type.precision is None:
        return _unbounded(digits, -scale, negative=sign in MINUS)
    unscaled = _at_scale(digits, (column_type.scale or 0) - scale, column_type)
    return -unscaled if sign in MINUS else unscaled


def _unbounded(digits: str, exponent: int, *, negative: bool) -> bytes:
    if digits == "0":
        return _packed(0, 0, 0)
    short = digits.rstrip("0")
    exponent += len(digits) - len(short)
    if len(short) > MAX_DIGITS:
        raise MalformedError(f"a number of {len(short)} digits")
    return _packed(int(short), checked(exponent, 32), NEGATIVE if negative else 0)


def _at_scale(digits: str, more: int, column_type: ColumnType) -> int:
    """Return the unscaled integer of digits with `more` places behind them, or fewer."""
    if len(digits) > 80 or abs(more) > 80:
        raise MalformedError("the number is too long")
    unscaled, rest = divmod(int(digits) * 10 ** max(more, 0), 10 ** max(-more, 0))
    if rest or unscaled >= 10 ** (column_type.precision or 38):
        raise MalformedError(f"the number does not fit {column_type}")
    return int(unscaled)
