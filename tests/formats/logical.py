"""Values as JSON says them, and the Arrow values that parts store for them: one at a time, slowly.

The JSON form is for people and for readers written in any language:

    numbers      numbers; floats also "NaN", "Infinity", "-Infinity"
    numeric      text; "NaN", "Infinity", "-Infinity" where there is no precision
    date, timestamps, intervals of one part    days, microseconds, months: a number
    time         [seconds, nanoseconds]
    interval     [months, days, microseconds]
    bytes        hexadecimal text
    aclitem      [grantee, grantor, mode], roles of mz_aclitem as text: s1, g1, u1, p
    array        {"dims": [[lower bound, length], ...], "vals": [...]}
    map          [[key, value], ...]
    record       [value, ...]
    range        [lower, upper, lower inclusive, upper inclusive, empty]
"""

import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from strata.model.types import ColumnType, Kind

ROLES: Final = {"s": 100, "g": 200, "u": 300, "p": 400}
NAMED_FLOATS: Final = ("NaN", "Infinity", "-Infinity")


def stored(value: Any, column_type: ColumnType) -> Any:
    """Return what `pa.array` makes the stored value from."""
    if value is None:
        return None
    kind = column_type.kind
    if kind is Kind.NUMERIC and column_type.precision is not None:
        return Decimal(value)
    if kind is Kind.LIST:
        return [stored(item, _element(column_type)) for item in value]
    if kind in (Kind.ARRAY, Kind.INT2VECTOR):
        dims = [{"lower_bound": low, "length": length} for low, length in value["dims"]]
        return {"dims": dims, "vals": [stored(v, _element(column_type)) for v in value["vals"]]}
    if kind is Kind.MAP:
        return [(key, stored(item, _element(column_type))) for key, item in value]
    if kind is Kind.RECORD:
        pairs = zip(column_type.fields, value, strict=True)
        return {field.name: stored(item, field.type) for field, item in pairs}
    if kind is Kind.RANGE:
        names = ("lower", "upper", "lower_inclusive", "upper_inclusive", "empty")
        ends = [stored(end, _element(column_type)) for end in value[:2]]
        return dict(zip(names, [*ends, *value[2:]], strict=True))
    return _SIMPLE.get(kind, lambda same: same)(value)


def _element(column_type: ColumnType) -> ColumnType:
    assert column_type.element is not None
    return column_type.element


def packed(text: str) -> dict[str, Any]:
    """Return a numeric without precision: its nearest float64 and its packed digits."""
    if text in NAMED_FLOATS:
        flag = {"NaN": 0x20, "Infinity": 0x40, "-Infinity": 0xC0}[text]
        binary = struct.pack("<I", 1) + bytes(30) + bytes([flag]) + bytes(5)
        return {"approx": float(text), "binary": binary}
    sign, digits, exponent = Decimal(text).as_tuple()
    number = int("".join(map(str, digits)))
    while number and number % 10 == 0:
        number, exponent = number // 10, int(exponent) + 1
    exponent = exponent if number else 0
    units = [number // 1000**i % 1000 for i in range(13)]
    flag = 0x80 if sign and number else 0
    head = struct.pack("<Ii13H", len(str(number)), exponent, *units)
    return {"approx": float(text) + 0.0, "binary": head + bytes([flag]) + bytes(5)}


def _role(text: str) -> bytes:
    return struct.pack(">IQ", ROLES[text[0]], int(text[1:] or 0))


_SIMPLE: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.FLOAT32: float,
    Kind.FLOAT64: float,
    Kind.NUMERIC: packed,
    Kind.TIME: lambda v: struct.pack(">II", *v),
    Kind.INTERVAL: lambda v: struct.pack(">IIQ", v[0] + 2**31, v[1] + 2**31, v[2] + 2**63),
    Kind.BYTES: bytes.fromhex,
    Kind.UUID: lambda v: uuid.UUID(v).bytes,
    Kind.ACLITEM: lambda v: struct.pack(">IIQ", *v),
    Kind.MZ_ACLITEM: lambda v: _role(v[0]) + _role(v[1]) + struct.pack(">Q", v[2]),
}


def type_json(column_type: ColumnType) -> dict[str, Any]:
    """Return a type as JSON."""
    found: dict[str, Any] = {"kind": str(column_type.kind)}
    for name in ("precision", "scale", "length"):
        if (value := getattr(column_type, name)) is not None:
            found[name] = value
    if column_type.element is not None:
        found["element"] = type_json(column_type.element)
    if column_type.kind is Kind.RECORD:
        found["fields"] = [{"name": f.name, "type": type_json(f.type)} for f in column_type.fields]
    return found


def of_arrow(value: pa.Scalar, column_type: ColumnType) -> Any:
    """Return a stored value of the first release's types as JSON."""
    kind = column_type.kind
    if not value.is_valid:
        return None
    if kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return value.value
    plain = value.as_py()
    if kind is Kind.BYTES:
        return plain.hex()
    if kind is Kind.NUMERIC:
        return format(plain, "f")
    if isinstance(plain, float) and not math.isfinite(plain):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(plain)]
    return plain
