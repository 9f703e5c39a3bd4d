"""Thrift's compact protocol, as far as Parquet's footers use it: any struct, read and written.

Fields are kept by their numbers, known or not. So what a footer says beyond what we know of it
stays in it. Source: the specification of the compact protocol, and Parquet's `parquet.thrift`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import pack, unpack_from
from typing import Any, Final, TypeAlias

from strata.errors import Corrupt

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
STRUCT: Final = 12

_LONG: Final = 15  # in the head of a list: its length follows; in that of a field: most steps
DEEPEST: Final = 64  # structs and lists inside each other; Parquet's have about ten


@dataclass(slots=True)
class ThriftList:
    """A list, and the kind of its items."""

    kind: int
    items: list[Any]


ThriftStruct: TypeAlias = dict[int, tuple[int, Any]]  # by the number of a field: kind and value


def read_struct(data: bytes) -> ThriftStruct:
    """Return the struct that some bytes begin with.

    Raises: Corrupt for bytes that are none.
    """
    try:
        return _Reader(data).struct(0)
    except (IndexError, ValueError, KeyError) as error:
        raise Corrupt("a footer is no struct of Thrift", reason=str(error)) from error


def write_struct(struct: ThriftStruct) -> bytes:
    """Return the bytes of a struct.

    >>> write_struct({1: (I32, 1), 4: (BINARY, b"ab")}).hex()
    '15023802616200'
    """
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


class _Reader:
    """Reads values from a position on."""

    def __init__(self, data: bytes) -> None:
        """Begin with the first byte."""
        self._data, self._at = data, 0
        self._numbers: dict[int, Callable[[int], Any]] = {
            TRUE: lambda _: self._byte() == TRUE,  # of a list; that of a field is in its head
            FALSE: lambda _: self._byte() == TRUE,
            BYTE: lambda _: self._byte(),
            I16: lambda _: self._signed(),
            I32: lambda _: self._signed(),
            I64: lambda _: self._signed(),
            DOUBLE: lambda _: self._double(),
            BINARY: lambda _: self._bytes(),
            LIST: self._list,
            SET: self._list,
            STRUCT: self.struct,
        }

    def struct(self, depth: int) -> ThriftStruct:
        """Read a struct."""
        found: ThriftStruct = {}
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._signed()
            value = kind == TRUE if kind in {TRUE, FALSE} else self._value(kind, depth + 1)
            found[number] = kind, value
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("values lie too deep inside each other")
        return self._numbers[kind](depth)

    def _list(self, depth: int) -> ThriftList:
        head = self._byte()
        kind, length = head & 15, head >> 4
        if length == _LONG:
            length = self._unsigned()
        if length > len(self._data) - self._at:  # each item has a byte or more
            raise ValueError("a list is longer than the rest")
        return ThriftList(kind, [self._value(kind, depth + 1) for _ in range(length)])

    def _byte(self) -> int:
        found = self._data[self._at]
        self._at += 1
        return found

    def _unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)

    def _double(self) -> float:
        if self._at + 8 > len(self._data):
            raise IndexError("the bytes end inside a number")
        found: float = unpack_from("<d", self._data, self._at)[0]
        self._at += 8
        return found

    def _bytes(self) -> bytes:
        length = self._unsigned()
        if self._at + length > len(self._data):
            raise IndexError("the bytes end inside a text")
        self._at += length
        return bytes(self._data[self._at - length : self._at])


def _put_struct(out: bytearray, struct: ThriftStruct) -> None:
    before = 0
    for number in sorted(struct):
        kind, value = struct[number]
        if kind in {TRUE, FALSE}:
            kind = TRUE if value else FALSE
        step = number - before
        if 0 < step <= _LONG:
            out.append(step << 4 | kind)
        else:
            out.append(kind)
            _put_signed(out, number)
        if kind not in {TRUE, FALSE}:
            _put(out, kind, value)
        before = number
    out.append(0)


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind == STRUCT:
        _put_struct(out, value)
    elif kind in {LIST, SET}:
        _put_list(out, value)
    elif kind == BINARY:
        _put_unsigned(out, len(value))
        out += value
    elif kind == DOUBLE:
        out += pack("<d", value)
    elif kind == BYTE:
        out.append(value)
    elif kind in {TRUE, FALSE}:
        out.append(TRUE if value else FALSE)
    else:
        _put_signed(out, value)


def _put_list(out: bytearray, value: ThriftList) -> None:
    length = len(value.items)
    if length < _LONG:
        out.append(length << 4 | value.kind)
    else:
        out.append(_LONG << 4 | value.kind)
        _put_unsigned(out, length)
    for item in value.items:
        _put(out, value.kind, item)


def _put_signed(out: bytearray, value: int) -> None:
    _put_unsigned(out, (value << 1) ^ (value >> 63))


def _put_unsigned(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
