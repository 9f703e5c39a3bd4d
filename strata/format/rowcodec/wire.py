"""The wire format of protobuf, read patiently: one message at a time, every rule followed.

The work is linear in the message's bytes; no length field alone causes an allocation.
Source: the encoding page of protobuf's documentation.
"""

from collections.abc import Iterator

Field = tuple[int, int, "int | bytes"]  # number, wire type, value


class MalformedError(Exception):
    """The reason why bytes cannot be read; the caller adds row and column and raises `Corrupt`."""


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message in order.

    Raises: MalformedError for bytes that no protobuf reader would accept.
    """
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0 or number >= 1 << 29:
            raise MalformedError("field number out of range")
        if wire == 0:
            value, at = varint(data, at)
            yield number, wire, value
            continue
        if wire == 2:
            size, at = varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise MalformedError(f"unknown wire type {wire}")
        if size > len(data) - at:
            raise MalformedError("a field is longer than the row")
        piece = data[at : at + size]
        yield number, wire, piece if wire == 2 else int.from_bytes(piece, "little")
        at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise MalformedError("the row ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:
                raise MalformedError("a number is longer than 64 bits")
            return value, at
    raise MalformedError("a number has more than 10 bytes")


def parts(data: bytes) -> dict[int, int | bytes]:
    """Return the fields of a message by number: the last number of each, or messages merged.

    Messages are merged by concatenating their bytes. Works only for fields that are messages or
    numbers, not for texts.
    """
    found: dict[int, int | bytes] = {}
    for number, _, value in fields(data):
        before = found.get(number)
        both = isinstance(before, bytes) and isinstance(value, bytes)
        found[number] = before + value if both else value  # type: ignore[operator]
    return found


def message(value: int | bytes) -> bytes:
    """Return the bytes of a field that must hold bytes."""
    if not isinstance(value, bytes):
        raise MalformedError("a number where bytes belong")
    return value


def number(value: int | bytes) -> int:
    """Return the unsigned number of a field that must hold a number."""
    if not isinstance(value, int):
        raise MalformedError("bytes where a number belongs")
    return value


def signed(value: int | bytes, bits: int) -> int:
    """Return a signed number that fits."""
    plain = number(value)
    return in_range(plain - (1 << 64) if plain >> 63 else plain, bits)


def unsigned(value: int | bytes, bits: int) -> int:
    """Return an unsigned number that fits."""
    plain = number(value)
    if plain >> bits:
        raise MalformedError(f"{plain} does not fit {bits} bits")
    return plain


def in_range(value: int, bits: int) -> int:
    """Return a signed number if it fits."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise MalformedError(f"{value} does not fit {bits} bits")
    return value
