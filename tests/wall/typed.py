"""Hostile values as typed files have them: for each type some Arrow types, for each their edges.

Days, times and durations are the integers that are stored, so that they may lie beyond Python's.
"""

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa

from strata.model.types import ColumnType, Kind, parse_type
from tests.wall import leaves

LIMITS: Final = {
    pa.int8(): 8,
    pa.int16(): 16,
    pa.int32(): 32,
    pa.int64(): 64,
    pa.uint8(): -8,
    pa.uint16(): -16,
    pa.uint32(): -32,
    pa.uint64(): -64,
}
WHOLE: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64())
DECIMALS: Final = (
    pa.decimal128(10, 2),
    pa.decimal128(38, 0),
    pa.decimal128(38, 10),
    pa.decimal128(38, 38),
    pa.decimal256(76, 0),
    pa.decimal256(76, 38),
    pa.decimal128(5, 0),
    pa.decimal128(20, 2),
)
FLOATS: Final = (pa.float32(), pa.float64(), pa.float64())
TEXT: Final = (pa.string(), pa.large_string())
MOMENTS: Final = (
    pa.timestamp("us"),
    pa.timestamp("ms"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "UTC"),
    pa.timestamp("us", "Europe/Berlin"),
    pa.timestamp("ms", "UTC"),
)
CLOCKS: Final = (pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
BINARY: Final = (pa.binary(), pa.large_binary())
SPAN: Final = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("micros", pa.int64())])
ACL: Final = pa.struct([("grantee", pa.int64()), ("grantor", pa.int64()), ("mode", pa.uint64())])
MZ_ACL: Final = pa.struct(
    [("grantee", pa.string()), ("grantor", pa.string()), ("mode", pa.int64())]
)
NUMBER: Final = pa.struct([("approx", pa.float64()), ("text", pa.string())])
DIMS: Final = pa.list_(pa.struct([("lower_bound", pa.int64()), ("length", pa.int64())]))
NUMERIC: Final = (*WHOLE, *DECIMALS, *FLOATS, *TEXT)
OF: Final[dict[Kind, tuple[Any, ...]]] = {
    **dict.fromkeys(leaves.INTEGERS, (*NUMERIC, pa.bool_(), pa.timestamp("us"))),
    Kind.FLOAT32: NUMERIC, Kind.FLOAT64: NUMERIC, Kind.NUMERIC: (*NUMERIC, NUMBER),
    Kind.BOOL: (pa.bool_(), pa.string(), pa.int8()),
    Kind.DATE: (pa.date32(), pa.date32(), pa.date64(), pa.string(), pa.timestamp("us"), pa.int32()),
    Kind.TIME: (*CLOCKS, pa.string(), pa.int64()),
    Kind.TIMESTAMP: (*MOMENTS, pa.date32(), pa.string(), pa.int64()),
    Kind.TIMESTAMPTZ: (*MOMENTS, pa.date32(), pa.string(), pa.int64()),
    Kind.INTERVAL: (SPAN, pa.string(), pa.duration("us")),
    Kind.DAY_TIME: (pa.duration("us"), pa.duration("ns"), pa.int64(), pa.string(),
                    pa.duration("s")),
    Kind.YEAR_MONTH: (pa.int32(), pa.int64(), pa.string()),
    **dict.fromkeys((Kind.STRING, Kind.CHAR, Kind.VARCHAR), (*TEXT, pa.int64())),
    Kind.BYTES: (*BINARY, pa.string(), pa.binary(4)),
    Kind.JSONB: (
        pa.string(), pa.struct([("b", pa.int64()), ("a", pa.list_(pa.float64()))]),
        pa.map_(pa.string(), pa.string()), pa.list_(pa.int64()), pa.int64(), pa.float64(),
    ),
    Kind.UUID: (pa.string(), pa.binary(16)),
    Kind.ACLITEM: (pa.string(), ACL), Kind.MZ_ACLITEM: (pa.string(), MZ_ACL),
}  # fmt: skip
EDGES64: Final = (
    0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 1.005, 2.675, 1e15, 1e16, 1e22, 1e23, 2.0**31, 2.0**53,
    2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, 1e38, 1e39, 3.4028235677973366e38, 1e-45, 7e-46,
    5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, 16777217.0, 123456.789,
    32767.0, 32768.0, -32768.5, 99999999.99, 99999999.995, 0.30000000000000004,
)  # fmt: skip
PAYLOADS: Final = tuple(
    struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    for bits in (0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF)
)
DAY: Final = 86_400
FIRST, LAST = -62_135_596_800, 253_402_300_799  # seconds of the years 1 and 9999
PER: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def arrow_types(column_type: ColumnType) -> list[tuple[Any, ...]]:
    """Return Arrow types to write a column of a type as, each once."""
    kind = column_type.kind
    if kind in OF:
        return list(dict.fromkeys(OF[kind]))
    if kind is Kind.RECORD:
        inner = [arrow_types(field.type) for field in column_type.fields]
        names = [field.name for field in column_type.fields]
        rounds = max(map(len, inner))
        return [
            pa.struct(
                [(name, some[n % len(some)]) for name, some in zip(names, inner, strict=True)]
            )
            for n in range(rounds)
        ]
    element = parse_type("int16") if column_type.element is None else column_type.element
    found: list[Any] = [pa.string()]
    for one in arrow_types(element)[:8] if element.kind in OF else arrow_types(element):
        if kind is Kind.MAP:
            found.append(pa.map_(pa.string(), one))
        elif kind is Kind.RANGE:
            flags = [(f, pa.bool_()) for f in ("lower_inclusive", "upper_inclusive", "empty")]
            found.append(pa.struct([("lower", one), ("upper", one), *flags]))
        else:
            found.append(pa.list_(one))
    if kind in (Kind.ARRAY, Kind.INT2VECTOR):
        found.append(pa.struct([("dims", DIMS), ("vals", found[1])]))
    return found


def same_family(column_type: ColumnType, arrow_type: pa.DataType) -> bool:
    """Tell whether the documents promise to take the values of an Arrow type that fit."""
    kind = column_type.kind
    if kind in leaves.INTEGERS:
        return bool(
            pa.types.is_integer(arrow_type)
            or pa.types.is_decimal(arrow_type)
            or pa.types.is_float64(arrow_type)
        )
    if kind is Kind.NUMERIC:
        return bool(pa.types.is_integer(arrow_type) or pa.types.is_decimal(arrow_type))
    if kind in (Kind.FLOAT32, Kind.FLOAT64):
        return bool(pa.types.is_float64(arrow_type) and kind is Kind.FLOAT64)
    own = {
        Kind.BOOL: pa.types.is_boolean,
        Kind.DATE: pa.types.is_date32,
        Kind.TIME: pa.types.is_time,
        Kind.TIMESTAMP: pa.types.is_timestamp,
        Kind.TIMESTAMPTZ: pa.types.is_timestamp,
        Kind.DAY_TIME: pa.types.is_duration,
        Kind.YEAR_MONTH: pa.types.is_int32,
        Kind.BYTES: pa.types.is_binary,
        Kind.STRING: pa.types.is_string,
        Kind.VARCHAR: pa.types.is_string,
        Kind.CHAR: pa.types.is_string,
    }
    return kind in own and bool(own[kind](arrow_type))


def value(draw: Random, arrow_type: pa.DataType, column_type: ColumnType) -> Any:
    """Return a hostile value of an Arrow type, for a column of a type."""
    if draw.random() < 0.03:
        return None
    for belongs, made in _FAMILIES:
        if belongs(arrow_type):
            return made(draw, arrow_type, column_type)
    raise AssertionError(arrow_type)


def _text(draw: Random, _: pa.DataType, column_type: ColumnType) -> str:
    from tests.wall import fragments

    if column_type.kind in OF:
        found = leaves.text(draw, column_type)
    else:
        found, _well = fragments.nested_text(draw, column_type)
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else found


def _integer(draw: Random, arrow_type: pa.DataType, _: ColumnType) -> int:
    bits = LIMITS[arrow_type]
    low, high = (0, 2**-bits - 1) if bits < 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if draw.random() < 0.2:
        return draw.randint(low, high)
    edge = draw.choice((0, low, high, *(s * 2**b for b in leaves.BITS for s in (1, -1)), 10, 100))
    return min(max(edge + draw.randint(-2, 2), low), high)


def _decimal(draw: Random, arrow_type: pa.DataType, _: ColumnType) -> Decimal:
    digits = draw.choice(
        (1, arrow_type.precision, arrow_type.precision - 1, draw.randint(1, arrow_type.precision))
    )
    number = draw.choice((10**digits - 1, 10 ** (digits - 1), draw.randrange(10**digits), 0))
    if draw.random() < 0.3:  # few digits behind the point
        number = number // 10**arrow_type.scale * 10**arrow_type.scale
    sign = draw.randrange(2)
    return Decimal((sign, tuple(map(int, str(number))), -arrow_type.scale))


def _float(draw: Random, arrow_type: pa.DataType, _: ColumnType) -> float:
    luck = draw.random()
    if luck < 0.6:
        found = draw.choice(EDGES64)
    elif luck < 0.7:
        found = draw.choice(PAYLOADS)
    elif luck < 0.85:
        found = float(draw.randint(-(10**6), 10**6)) / draw.choice((1, 10, 100, 1000, 8))
    else:
        found = struct.unpack("<d", draw.randbytes(8))[0]
    if arrow_type == pa.float32() and math.isfinite(found):
        try:
            return struct.unpack("<f", struct.pack("<f", found))[0]
        except OverflowError:
            return math.inf
    return found


def _ticks(draw: Random, unit: str) -> int:
    second = draw.choice(
        (0, -1, DAY, FIRST, FIRST - 1, LAST, LAST + 1, draw.randint(FIRST, LAST), 2**31, -(2**33))
    )
    part = draw.choice((0, 0, 1, -1, PER[unit] - 1, draw.randrange(PER[unit]), PER[unit] // 10**3))
    whole = draw.choice((second * PER[unit] + part,) * 9 + (2**63 - 1,))
    return min(max(whole, -(2**63) + 1), 2**63 - 1)


def _moment(draw: Random, arrow_type: pa.DataType, _: ColumnType) -> int:
    return _ticks(draw, arrow_type.unit)


def _date(draw: Random, arrow_type: pa.DataType, _: ColumnType) -> int:
    days = draw.choice(
        (
            0,
            -1,
            FIRST // DAY,
            FIRST // DAY - 1,
            LAST // DAY,
            LAST // DAY + 1,
            2**31 - 1,
            -(2**31),
            draw.randint(FIRST // DAY, LAST // DAY),
        )
    )
    return days * DAY * 1000 if arrow_type == pa.date64() else days


def _clock(draw: Random, arrow_type: pa.DataType, _: ColumnType) -> int:
    day = DAY * PER[arrow_type.unit]
    return draw.choice((0, 1, day - 1, day, day + 1, -1, draw.randrange(day), day // 2))


def _duration(draw: Random, arrow_type: pa.DataType, _: ColumnType) -> int:
    edges = (0, 1, -1, 1000, 1001, 2**63 - 1, -(2**63) + 1, DAY * PER[arrow_type.unit])
    return draw.choice(edges)


def _binary(draw: Random, arrow_type: pa.DataType, _: ColumnType) -> bytes:
    if pa.types.is_fixed_size_binary(arrow_type):
        return draw.randbytes(arrow_type.byte_width)
    return draw.choice((b"", b"\x00", b"\xff" * 9, b"abc", draw.randbytes(draw.randrange(20))))


def _list(draw: Random, arrow_type: pa.DataType, column_type: ColumnType) -> list[Any]:
    element = column_type if column_type.element is None else column_type.element
    count = draw.choice((0, 1, 1, 2, 3))
    return [value(draw, arrow_type.value_type, element) for _ in range(count)]


def _map(draw: Random, arrow_type: pa.DataType, column_type: ColumnType) -> list[Any]:
    element = column_type if column_type.element is None else column_type.element
    keys = [
        draw.choice(("a", "b", "", "é", "\x00", "😀", "\uffff")) for _ in range(draw.randrange(4))
    ]
    return [(key, value(draw, arrow_type.item_type, element)) for key in keys]


def _struct(draw: Random, arrow_type: pa.DataType, column_type: ColumnType) -> dict[str, Any]:
    types = {field.name: field.type for field in column_type.fields}
    inner = column_type if column_type.element is None else column_type.element
    found = {}
    for field in arrow_type:
        if field.name == "dims":
            found["dims"] = [{"lower_bound": draw.choice((0, 1, -5, 2**63 - 1)), "length": 1}]
        elif arrow_type in (SPAN, ACL, MZ_ACL, NUMBER):
            found[field.name] = _part(draw, field)
        elif field.name == "vals":
            found["vals"] = value(draw, field.type, column_type)
        elif field.name in ("lower_inclusive", "upper_inclusive", "empty"):
            found[field.name] = draw.choice((True, False, False, None))
        else:
            found[field.name] = value(draw, field.type, types.get(field.name, inner))
    return found


def _part(draw: Random, field: pa.Field) -> Any:
    if field.name == "text":
        return draw.choice((leaves.number(draw), None))
    if pa.types.is_string(field.type):
        return draw.choice(("u1", "p", "s2", "x", "", None, "u18446744073709551616"))
    return value(draw, field.type, ColumnType(Kind.INT64))


_FAMILIES: Final[tuple[tuple[Callable[[Any], bool], Callable[..., Any]], ...]] = (
    (lambda t: t in TEXT, _text),
    (lambda t: t in LIMITS, _integer),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_floating, _float),
    (pa.types.is_boolean, lambda draw, *_: draw.random() < 0.5),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_date, _date),
    (pa.types.is_time, _clock),
    (pa.types.is_duration, _duration),
    (lambda t: t in BINARY or pa.types.is_fixed_size_binary(t), _binary),
    (pa.types.is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
)
