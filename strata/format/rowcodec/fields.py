"""How each type stands in a datum of the row codec: its tag, and the numbers inside its message.

Field numbers are those of the table in `strata.format.encodings`. Shared by encoder and decoder,
so that they cannot differ.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from strata.errors import InvalidRequest
from strata.format.encodings import encoding
from strata.model.types import MAX_DEPTH, ColumnType, Kind

VARINT, FIXED64, SIZED, FIXED32 = 0, 1, 2, 5  # wire types of protobuf
DATUM: Final = 0x0A  # frame of a datum in a row, of an entry in a map
VALUE: Final = 0x12  # frame of the value in a map's entry, of an array's dimension
LOWER: Final = 0x12  # frame of a range's lower end
UPPER: Final = 0x22

NULL, FALSE, TRUE = 1, 2, 3
INFINITY, MINUS_INFINITY, NAN = 6, 7, 8  # of `other`

INTS: Final[dict[Kind, np.dtype[Any]]] = {  # how they lie in Arrow's buffers
    Kind.INT16: np.dtype("<i2"),
    Kind.INT32: np.dtype("<i4"),
    Kind.INT64: np.dtype("<i8"),
    Kind.UINT8: np.dtype("<u1"),
    Kind.UINT16: np.dtype("<u2"),
    Kind.UINT32: np.dtype("<u4"),
    Kind.UINT64: np.dtype("<u8"),
    Kind.OID: np.dtype("<u4"),
    Kind.MZ_TIMESTAMP: np.dtype("<u8"),
}
FLOATS: Final[dict[Kind, np.dtype[Any]]] = {
    Kind.FLOAT32: np.dtype("<u4"),
    Kind.FLOAT64: np.dtype("<u8"),
}
UTF8: Final = frozenset({Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.JSONB})
TEXTS: Final = UTF8 | {Kind.BYTES}
TIMESTAMPS: Final = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
INTERVALS: Final = frozenset({Kind.INTERVAL, Kind.DAY_TIME, Kind.YEAR_MONTH})
ARRAYS: Final = frozenset({Kind.ARRAY, Kind.INT2VECTOR})

# Values of fixed bytes, as stored: big-endian, so that they sort.
TIME_BYTES: Final = np.dtype([("secs", ">u4"), ("nanos", ">u4")])
INTERVAL_BYTES: Final = np.dtype([("months", ">u4"), ("days", ">u4"), ("micros", ">u8")])
ACL_BYTES: Final = np.dtype([("grantee", ">u4"), ("grantor", ">u4"), ("mode", ">u8")])
MZ_ACL_BYTES: Final = np.dtype(
    [("grantee_role", ">u4"), ("grantee", ">u8"), ("grantor_role", ">u4"), ("grantor", ">u8"),
     ("mode", ">u8")]
)  # fmt: skip
ROLES: Final = {100: 0x08, 200: 0x20, 300: 0x10, 400: 0x1A}  # stored role tag to that of its field
PUBLIC: Final = 0x1A  # an empty message: the length 0 follows, like a number
SIGN32: Final = np.uint32(1 << 31)
SIGN64: Final = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class NumberMessage:
    """A message of numbers, some of them inside messages of their own.

    Shape: `fields` (n, 2): tag and group, see `strata.kernels.row_write.put_number_messages`;
    `within` (n, 2): what a number may be, see `strata.kernels.row_read.read_varints`.
    """

    fields: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    heads: np.ndarray[tuple[int], np.dtype[np.int64]]
    within: np.ndarray[tuple[int, int], np.dtype[np.uint64]]


def signed(bits: int) -> tuple[int, int]:
    """Return `within` of signed numbers."""
    return 1 << bits - 1, (1 << bits) - 1 if bits < 64 else 2**64 - 1


def unsigned(bits: int) -> tuple[int, int]:
    """Return `within` of unsigned numbers."""
    return 0, (1 << bits) - 1


def words(numbers: tuple[int, int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return two numbers as the array that kernels take."""
    return np.array(numbers, np.uint64)


def _numbers(
    *fields: tuple[int, int, tuple[int, int]], heads: tuple[int, ...] = (0,)
) -> NumberMessage:
    return NumberMessage(
        np.array([field[:2] for field in fields], np.int64),
        np.array(heads, np.int64),
        np.array([field[2] for field in fields], np.uint64),
    )


ANY: Final = unsigned(64)
_YEAR: Final = (0x08, 0, signed(32))
_DAY: Final = (0x10, 0, (0, 366))
SECONDS: Final = (0, 86_399)
NANOS: Final = (0, 1_999_999_999)  # above a second: a leap second
_DATE_TIME: Final = _numbers(_YEAR, _DAY, (8, 1, SECONDS), (16, 1, NANOS), heads=(0x0A, 0x12))
_INTERVAL: Final = _numbers((0x08, 0, signed(32)), (0x10, 0, signed(32)), (0x18, 0, ANY))
DIMENSION: Final = _numbers((0x08, 0, ANY), (0x10, 0, unsigned(63)))
NUMBERS: Final = {
    Kind.DATE: _numbers(_YEAR, _DAY),
    Kind.TIME: _numbers((0x08, 0, SECONDS), (0x10, 0, NANOS)),
    Kind.TIMESTAMP: _DATE_TIME,
    Kind.TIMESTAMPTZ: _DATE_TIME,
    Kind.INTERVAL: _INTERVAL,
    Kind.DAY_TIME: _INTERVAL,
    Kind.YEAR_MONTH: _INTERVAL,
    Kind.ACLITEM: _numbers(
        (0x08, 0, unsigned(32)), (0x10, 0, unsigned(32)), (0x08, 1, ANY), heads=(0, 0x1A)
    ),
    Kind.MZ_ACLITEM: _numbers((0, 0, ANY), (0, 1, ANY), (0x08, 2, ANY), heads=(0x0A, 0x12, 0x1A)),
}


def wire_type(kind: Kind) -> int:
    """Return the wire type of the field that holds a kind."""
    if kind in INTS or kind is Kind.BOOL:
        return VARINT
    if kind in FLOATS:
        return FIXED32 if kind is Kind.FLOAT32 else FIXED64
    return SIZED


def tag_of(column_type: ColumnType) -> tuple[int, int]:
    """Return the tag bytes of a type's field, the first one lowest, and how many they are."""
    tag = encoding(column_type).number << 3 | wire_type(column_type.kind)
    return (tag, 1) if tag < 128 else (tag & 127 | 128 | tag >> 7 << 8, 2)


def check_depth(column_type: ColumnType, depth: int = 0) -> None:
    """Raise InvalidRequest for a type nested deeper than protobuf libraries read."""
    if depth > MAX_DEPTH:
        raise InvalidRequest("a type is nested too deeply", deepest=MAX_DEPTH)
    for field in column_type.fields:
        check_depth(field.type, depth + 1)
    if column_type.element is not None:
        check_depth(column_type.element, depth + 1)
