"""Read one row of the row codec at a time: the patient half of the decoder.

`rowcodec_decode` reads whole columns of rows that look as this version writes them. A row that
looks different (unknown fields, fields in another order, numbers longer than needed, damage) comes
here, where every rule of the protobuf wire format is followed, and where what cannot be read is
named. The work is linear in the row's bytes; nothing is allocated on the word of a length field.

Values are physical: days for a date, microseconds for a timestamp, the unscaled integer for a
numeric. Source: docs/format.md, "Row codec"; notes on the wire format of protobuf.
"""

from collections.abc import Sequence
from typing import Final

from strata.errors import Corrupt
from strata.format.calendar import DAY_US, DAYS_TO_1970
from strata.model.types import ColumnType, Kind

NULL: Final = 1
FALSE: Final = 2
TRUE: Final = 3
OTHER: Final = 1  # field number of the enum of values without content
FIELDS: Final = {
    Kind.INT16: 2,
    Kind.INT32: 3,
    Kind.INT64: 4,
    Kind.FLOAT32: 5,
    Kind.FLOAT64: 6,
    Kind.BYTES: 7,
    Kind.STRING: 8,
    Kind.JSONB: 8,
    Kind.DATE: 16,
    Kind.TIMESTAMP: 18,
    Kind.TIMESTAMPTZ: 19,
    Kind.NUMERIC: 24,
}
ONEOF: Final = frozenset({*range(1, 9), *range(16, 28)})  # numbers of the datum's one-of
INTS: Final = (Kind.INT16, Kind.INT32, Kind.INT64)
FLOATS: Final = (Kind.FLOAT32, Kind.FLOAT64)
BITS: Final = {Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64, Kind.DATE: 32}
POSITIVE: Final = (0xA, 0xC, 0xE, 0xF)  # sign nibbles of packed decimals; written are C and D
NEGATIVE: Final = (0xB, 0xD)

Field = tuple[int, int, "int | bytes"]  # number, wire type, value


class _MalformedError(Exception):
    """Why a row cannot be read; becomes `Corrupt` with row and column."""


def decode_row(data: bytes, types: Sequence[ColumnType]) -> list[int | bytes | None]:
    """Return the physical values of one encoded row; None is null.

    Floats are returned as their bits, text as its bytes.
    Raises: Corrupt, with the position of the column where there is one.
    """
    try:
        datums = [value for number, _, value in _fields(data) if number == 1]
    except _MalformedError as error:
        raise Corrupt("a row cannot be decoded", reason=str(error)) from error
    if len(datums) != len(types):
        raise Corrupt("a row has the wrong number of values", found=len(datums), wanted=len(types))
    values: list[int | bytes | None] = []
    for position, (datum, column_type) in enumerate(zip(datums, types, strict=True)):
        try:
            values.append(_datum(datum, column_type))
        except _MalformedError as error:
            raise Corrupt(
                "a value cannot be decoded",
                column=position, type=str(column_type), reason=str(error),
            ) from error  # fmt: skip
    return values


def _datum(datum: int | bytes, column_type: ColumnType) -> int | bytes | None:
    """Return the value of one datum message; of several one-of fields the last counts."""
    found: Field | None = None
    for item in _fields(_message(datum)):
        if item[0] in ONEOF:
            found = item
    if found is None:
        raise _MalformedError("the datum is empty or of an unknown kind")
    number, _, value = found
    kind = column_type.kind
    if number == OTHER:
        return _other(value, kind)
    if number != FIELDS.get(kind):
        raise _MalformedError(f"field {number} does not hold a {kind}")
    if kind in FLOATS:
        return _fixed(value, found[1], 5 if kind is Kind.FLOAT32 else 1)
    if kind in INTS:
        return _signed(value, BITS[kind])
    return _content(_message(value), column_type)


def _content(data: bytes, column_type: ColumnType) -> int | bytes:
    """Return the value of a datum that is a message or a text."""
    kind = column_type.kind
    if kind is Kind.DATE:
        return _checked(_date(data), BITS[kind])
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return _timestamp(data)
    if kind is Kind.NUMERIC:
        return _numeric(data, column_type)
    if kind is not Kind.BYTES:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise _MalformedError("the text is not UTF-8") from error
    return data


def _other(value: int | bytes, kind: Kind) -> int | None:
    if value == NULL:
        return None
    if kind is Kind.BOOL and value in (FALSE, TRUE):
        return int(value == TRUE)
    raise _MalformedError(f"special value {value!r} does not fit a {kind}")


def _fixed(value: int | bytes, wire: int, wanted: int) -> int:
    if wire != wanted or not isinstance(value, int):
        raise _MalformedError(f"wire type {wire} instead of {wanted}")
    return value


def _date(data: bytes) -> int:
    """Return days since 1970-01-01 of a year and the day in it."""
    numbers = _numbers(data)
    year, ordinal = _signed(numbers.get(1, 0), 32), numbers.get(2, 0)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= ordinal <= 365 + leap:
        raise _MalformedError(f"year {year} has no day {ordinal}")
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + ordinal - 1 - DAYS_TO_1970


def _timestamp(data: bytes) -> int:
    """Return microseconds since 1970 of a date and a time."""
    parts = {number: value for number, _, value in _fields(data)}
    days = _date(_message(parts.get(1, b"")))
    numbers = _numbers(_message(parts.get(2, b"")))
    seconds, nanos = numbers.get(1, 0), numbers.get(2, 0)
    if seconds >= 86_400 or nanos >= 2_000_000_000:
        raise _MalformedError(f"no time of day: {seconds} s {nanos} ns")
    if nanos % 1000:
        raise _MalformedError(f"{nanos} ns is finer than a microsecond")
    return _checked(days * DAY_US + seconds * 1_000_000 + nanos // 1000, 64)


def _numeric(data: bytes, column_type: ColumnType) -> int:
    """Return the unscaled integer, at the column's scale, of a packed decimal."""
    parts = {number: value for number, _, value in _fields(data)}
    bcd, scale = _message(parts.get(1, b"")), _signed(parts.get(2, 0), 32)
    wanted, precision = column_type.scale or 0, column_type.precision or 38
    digits, sign = bcd.hex()[:-1], bcd[-1] & 15 if bcd else 0
    if not digits.isdecimal() or sign not in POSITIVE + NEGATIVE:
        raise _MalformedError("not a packed decimal")
    if len(digits) > 80 or abs(wanted - scale) > 80:
        raise _MalformedError("the number is too long")
    unscaled: int
    unscaled, rest = divmod(
        int(digits) * 10 ** max(wanted - scale, 0), 10 ** max(scale - wanted, 0)
    )
    if rest or unscaled >= 10**precision:
        raise _MalformedError(f"the number does not fit {column_type}")
    return -unscaled if sign in NEGATIVE else unscaled


def _numbers(data: bytes) -> dict[int, int]:
    """Return the varint fields of a message of plain unsigned numbers."""
    numbers: dict[int, int] = {}
    for number, _, value in _fields(data):
        if number in (1, 2):
            if not isinstance(value, int):
                raise _MalformedError(f"field {number} is not a number")
            numbers[number] = value
    return numbers


def _message(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise _MalformedError("a number where bytes belong")
    return value


def _signed(value: int | bytes, bits: int) -> int:
    if not isinstance(value, int):
        raise _MalformedError("bytes where a number belongs")
    return _checked(value - (1 << 64) if value >> 63 else value, bits)


def _checked(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _MalformedError(f"{value} does not fit {bits} bits")
    return value


def _fields(data: bytes) -> list[Field]:
    """Return the fields of a message in order.

    Raises: _MalformedError for what no protobuf reader would accept.
    """
    fields: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0 or number >= 1 << 29:
            raise _MalformedError("field number out of range")
        value: int | bytes
        if wire == 0:
            value, at = _varint(data, at)
        else:
            if wire == 2:
                size, at = _varint(data, at)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
            else:
                raise _MalformedError(f"unknown wire type {wire}")
            if size > len(data) - at:
                raise _MalformedError("a field is longer than the row")
            piece = data[at : at + size]
            value = piece if wire == 2 else int.from_bytes(piece, "little")
            at += size
        fields.append((number, wire, value))
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _MalformedError("the row ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:
                raise _MalformedError("a number is longer than 64 bits")
            return value, at
    raise _MalformedError("a number has more than 10 bytes")
