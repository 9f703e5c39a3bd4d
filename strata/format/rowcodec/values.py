"""The contents of single messages as physical values: dates, times, decimals, acl items.

`scalar` finds the messages and calls these functions, which all raise MalformedError.
"""

import struct
from typing import Final

import numpy as np

from strata.format.rowcodec.wire import (
    MalformedError,
    fields,
    in_range,
    message,
    number,
    parts,
    signed,
)
from strata.format.types.rights import PUBLIC, ROLES
from strata.format.types.row import ROLE, ROLE_SUFFIX, Layout, NumberField
from strata.format.types.times import NANOS, SECONDS
from strata.format.values.packed import INFINITY, MAX_DIGITS, NAN, NEGATIVE
from strata.model.types import ColumnType

DAY_US: Final = 86_400_000_000
DAYS_TO_1970: Final = 719_162  # from 0001-01-01
PLUS: Final = (0xA, 0xC, 0xE, 0xF)  # sign nibbles of packed decimals; encoders write C and D
MINUS: Final = (0xB, 0xD)
ROLE_FIELDS: Final = {tag >> 3: role for role, (_, tag) in ROLES.items()}


def block(data: bytes, width: int) -> bytes:
    """Return bytes of one width."""
    if len(data) != width:
        raise MalformedError(f"{len(data)} bytes instead of {width}")
    return data


def date(data: bytes) -> int:
    """Return days since 1970-01-01 of a year and the day in it."""
    return in_range(_days(data), 32)


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


def timestamp(data: bytes) -> int:
    """Return microseconds since 1970 of a date and a time."""
    found = parts(data)
    days = _days(message(found.get(1, b"")))
    seconds, nanos = _clock(message(found.get(2, b"")))
    if nanos % 1000:
        raise MalformedError(f"{nanos} ns is finer than a microsecond")
    return in_range(days * DAY_US + seconds * 1_000_000 + nanos // 1000, 64)


def numbers(data: bytes, layout: Layout) -> int | bytes:
    """Return the stored bytes of a message of numbers, or the one number of a simpler kind."""
    found = parts(data)
    record = np.zeros((), layout.width)
    only = 0
    for item in layout.numbers.numbers:
        head = int(layout.numbers.heads[item.group])
        inner = message(found.get(head >> 3, b"")) if head else data
        if item.tag == ROLE:
            record[item.name + ROLE_SUFFIX], value = _role(inner)
        else:
            value = _within(number(parts(inner).get(item.tag >> 3, 0)), item)
        if not layout.only:
            record[item.name] = value ^ (1 << 8 * item.width - 1 if item.is_signed else 0)
        elif item.name == layout.only:
            only = value - (1 << 8 * item.width if value >> 8 * item.width - 1 else 0)
        elif value:
            raise MalformedError(f"{value} {item.name} do not fit the type")
    return only if layout.only else record.tobytes()


def _within(value: int, item: NumberField) -> int:
    """Return the low bits of a number after a check of its range."""
    more, most = item.within
    if (value + more) % 2**64 > most:
        raise MalformedError(f"{item.name} out of range: {value}")
    return value & ((1 << 8 * item.width) - 1)


def _role(data: bytes) -> tuple[int, int]:
    """Return the stored tag and the id of a role; the last of several counts."""
    role: tuple[int, int] | None = None
    for field, _, value in fields(data):
        if ROLE_FIELDS.get(field) == PUBLIC:
            message(value)
            role = PUBLIC, 0
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


def numeric(data: bytes) -> bytes:
    """Return the 40 bytes of a number without a precision."""
    digits, scale, negative = _digits(data)
    return _unbounded(digits, -scale, negative=negative)


def decimal(data: bytes, column_type: ColumnType) -> int:
    """Return the unscaled integer of a number with a precision."""
    digits, scale, negative = _digits(data)
    unscaled = _at_scale(digits, (column_type.scale or 0) - scale, column_type)
    return -unscaled if negative else unscaled


def _digits(data: bytes) -> tuple[str, int, bool]:
    """Return the digits of a packed decimal, its scale, and whether it is negative."""
    bcd, scale = b"", 0
    for field, _, value in fields(data):
        if field == 1:
            bcd = message(value)
        elif field == 2:
            scale = signed(value, 32)
    digits, sign = bcd.hex()[:-1], bcd[-1] & 15 if bcd else 0
    if not digits.isdecimal() or sign not in PLUS + MINUS:
        raise MalformedError("not a packed decimal")
    return digits.lstrip("0") or "0", scale, sign in MINUS


def _unbounded(digits: str, exponent: int, *, negative: bool) -> bytes:
    if digits == "0":
        return _packed(0, 0, 0)
    short = digits.rstrip("0")
    exponent += len(digits) - len(short)
    if len(short) > MAX_DIGITS:
        raise MalformedError(f"a number of {len(short)} digits")
    return _packed(int(short), in_range(exponent, 32), NEGATIVE if negative else 0)


def _at_scale(digits: str, more: int, column_type: ColumnType) -> int:
    """Return the unscaled integer of digits with `more` places appended, or removed if negative."""
    if len(digits) > 80 or abs(more) > 80:
        raise MalformedError("the number is too long")
    unscaled, rest = divmod(int(digits) * 10 ** max(more, 0), 10 ** max(-more, 0))
    if rest or unscaled >= 10 ** (column_type.precision or 38):
        raise MalformedError(f"the number does not fit {column_type}")
    return int(unscaled)
