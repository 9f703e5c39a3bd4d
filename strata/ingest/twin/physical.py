"""Decodes stored columns to the canonical forms, as docs/reference/format.md describes them.

A value that a part may not hold (a coefficient with zeros at its end, keys out of order, a second
beyond the end of the day) becomes an `Unreadable` among the values, which equals no value.
"""

import json
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from strata.ingest.twin import shapes
from strata.ingest.twin.exact import INTEGERS, NAN
from strata.ingest.twin.jsons import canonical, parse_json, same_spelling
from strata.ingest.twin.times import clock_text, day, moment
from strata.ingest.twin.unreadable import Unreadable
from strata.model.types import ColumnType, Kind

WIDTHS: Final = {
    Kind.TIME: 8,
    Kind.INTERVAL: 16,
    Kind.UUID: 16,
    Kind.ACLITEM: 16,
    Kind.MZ_ACLITEM: 32,
}
ROLES: Final = {100: "s", 200: "g", 300: "u", 400: "p"}
NEGATIVE, INFINITE, NONE = 0x80, 0x40, 0x20
# Kinds whose stored values are their own canonical forms. A jsonb that equals a canonical text has
# the one spelling, and a char that equals one has no blanks at its end.
PLAIN: Final = frozenset(
    {Kind.BOOL, *INTEGERS, Kind.STRING, Kind.VARCHAR, Kind.CHAR, Kind.BYTES, Kind.JSONB}
)
NUMBER: Final = re.compile(r"-?[0-9][0-9.eE+-]*")


def stored(column: pa.Array | pa.ChunkedArray, column_type: ColumnType) -> list[Any]:
    """Return a stored column in canonical forms.

    Shape: an array of the type's Arrow type; None for null, an `Unreadable` for invalid values.
    """
    found = []
    for scalar in column:
        try:
            found.append(_value(scalar, column_type))
        except Unreadable as error:
            found.append(error)
    return found


def holds(column: pa.Array, column_type: ColumnType, values: Sequence[Any]) -> bool:
    """Return whether a stored column surely has these canonical forms.

    Errs: is also false for types whose stored values must be looked at one by one.
    """
    kind = column_type.kind
    if kind in PLAIN:
        found = column.to_pylist()
    elif kind is Kind.DATE:
        found = [None if n is None else day(n) for n in column.cast(pa.int32()).to_pylist()]
    elif kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        micros = column.cast(pa.int64()).to_pylist()
        found = [None if n is None else _moment(n, kind) for n in micros]
    else:
        return False
    return found == list(values) and list(map(type, found)) == list(map(type, values))


def _value(scalar: Any, column_type: ColumnType) -> Any:
    if not scalar.is_valid:
        return None
    kind, element = column_type.kind, column_type.element
    if kind in _NESTED:
        return _NESTED[kind](scalar, column_type)
    if kind is Kind.DATE:
        return day(scalar.value)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return moment(scalar.value, kind)
    if kind is Kind.DAY_TIME:
        return timedelta(microseconds=scalar.value)
    assert element is None
    return leaf_of(scalar.as_py(), column_type)


def leaf_of(value: Any, column_type: ColumnType) -> Any:
    """Return the form of a stored value that does not nest. Raises: Unreadable."""
    return _LEAVES[column_type.kind](value, column_type)


def _float(value: float, _: ColumnType) -> float | str:
    if value != value:  # noqa: PLR0124  NaN
        return NAN
    if value == 0 and str(value).startswith("-"):
        raise Unreadable("minus zero is stored")
    return value


def _numeric(value: Any, column_type: ColumnType) -> Decimal | str:
    if column_type.precision is not None:
        return value + 0 if not value else Decimal(value)
    binary, approx = value["binary"], value["approx"]
    digits, exponent, *units = struct.unpack_from("<Ii13H", binary)
    flag, number = binary[34], sum(unit * 1000**n for n, unit in enumerate(units))
    if any(binary[35:]) or any(unit > 999 for unit in units) or digits != len(str(number)):
        raise Unreadable("a numeric of other bytes")
    if number == 0 and (exponent or (flag & NEGATIVE and not flag & INFINITE)):
        raise Unreadable("a zero of other bytes")
    if number and (number % 10 == 0 or flag & (INFINITE | NONE)):
        raise Unreadable("a numeric that is not in its one form")
    if flag & NONE:
        found: Decimal | str = NAN
    elif flag & INFINITE:
        found = Decimal("-Infinity" if flag & NEGATIVE else "Infinity")
    else:
        coefficient = tuple(map(int, str(number)))
        found = Decimal((int(bool(flag & NEGATIVE)), coefficient, exponent))
    if repr(float(found) + 0.0) != repr(approx):
        raise Unreadable("approx is not the nearest float64")
    return found


def _time(value: bytes, _: ColumnType) -> str:
    seconds, nanos = struct.unpack(">II", value)
    if seconds >= 86_400 or nanos >= 10**9 * (2 if seconds % 60 == 59 else 1):
        raise Unreadable("no such time of day")
    return clock_text(seconds, nanos)


def _interval(value: bytes, _: ColumnType) -> dict[str, int]:
    months, days, micros = struct.unpack(">IIQ", value)
    return {"months": months - 2**31, "days": days - 2**31, "micros": micros - 2**63}


def _aclitem(value: bytes, _: ColumnType) -> dict[str, int]:
    return dict(zip(("grantee", "grantor", "mode"), struct.unpack(">IIQ", value), strict=True))


def _mz_aclitem(value: bytes, _: ColumnType) -> dict[str, Any]:
    tag, grantee, other, grantor, mode = struct.unpack(">IQIQQ", value)
    roles = []
    for letter, number in ((tag, grantee), (other, grantor)):
        if letter not in ROLES or (letter == 400 and number):
            raise Unreadable("no such role")
        roles.append("p" if letter == 400 else f"{ROLES[letter]}{number}")
    return {"grantee": roles[0], "grantor": roles[1], "mode": mode}


def _char(value: str, _: ColumnType) -> str:
    if value.endswith(" "):
        raise Unreadable("blanks at the end of a char")
    return value


def _jsonb(value: str, _: ColumnType) -> str:
    wanted = canonical(parse_json(value))
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', value)
    if re.search(r"\s", outside) or not all(map(same_spelling, NUMBER.findall(outside))):
        raise Unreadable("JSON that is not in its one spelling")
    if not _sorted(value):
        raise Unreadable("keys of JSON out of order")
    return wanted


def _sorted(value: str) -> bool:
    ordered = True

    def pairs(found: list[tuple[str, Any]]) -> None:
        nonlocal ordered
        names = [name for name, _ in found]
        ordered = ordered and names == sorted(set(names))

    json.loads(value, object_pairs_hook=pairs, parse_int=str, parse_float=str)
    return ordered


def _list(scalar: Any, column_type: ColumnType) -> list[Any]:
    element = shapes.element_of(column_type)
    return [_value(item, element) for item in scalar.values]


def _array(scalar: Any, column_type: ColumnType) -> dict[str, Any]:
    dims = [(dim["lower_bound"], dim["length"]) for dim in scalar["dims"].as_py()]
    values = [_value(item, shapes.element_of(column_type)) for item in scalar["vals"].values]
    return shapes.array_of(values, dims, column_type, lambda value, _: value)


def _map(scalar: Any, column_type: ColumnType) -> dict[str, Any]:
    entries = scalar.values
    keys = [entry["key"].as_py() for entry in entries]
    if keys != sorted(set(keys), key=str.encode):
        raise Unreadable("keys of a map out of order")
    element = shapes.element_of(column_type)
    return {key: _value(entry["value"], element) for key, entry in zip(keys, entries, strict=True)}


def _record(scalar: Any, column_type: ColumnType) -> dict[str, Any]:
    return {field.name: _value(scalar[n], field.type) for n, field in enumerate(column_type.fields)}


def _range(scalar: Any, column_type: ColumnType) -> dict[str, Any]:
    element = shapes.element_of(column_type)
    found = {end: _value(scalar[end], element) for end in ("lower", "upper")}
    found |= {flag: scalar[flag].as_py() for flag in shapes.FLAGS}
    low_in, high_in, empty = (found[flag] for flag in shapes.FLAGS)
    if empty and found != shapes.EMPTY:
        raise Unreadable("an empty range with ends")
    if (found["lower"] is None and low_in) or (found["upper"] is None and high_in):
        raise Unreadable("an unbounded end that is in the range")
    discrete = element.kind in INTEGERS or element.kind is Kind.DATE
    if discrete and (high_in or (found["lower"] is not None and not low_in)):
        raise Unreadable("a range of integers is [lower, upper)")
    return found


_moment: Final = lru_cache(maxsize=4096)(moment)
_SAME: Final[Callable[[Any, ColumnType], Any]] = lambda value, _: value  # noqa: E731
_LEAVES: Final[dict[Kind, Callable[[Any, ColumnType], Any]]] = {
    **dict.fromkeys((Kind.BOOL, *INTEGERS, Kind.STRING, Kind.VARCHAR, Kind.BYTES), _SAME),
    Kind.FLOAT32: _float,
    Kind.FLOAT64: _float,
    Kind.NUMERIC: _numeric,
    Kind.TIME: _time,
    Kind.INTERVAL: _interval,
    Kind.ACLITEM: _aclitem,
    Kind.MZ_ACLITEM: _mz_aclitem,
    Kind.CHAR: _char,
    Kind.JSONB: _jsonb,
    Kind.UUID: lambda value, _: str(uuid.UUID(bytes=value)),
}
_NESTED: Final[dict[Kind, Callable[[Any, ColumnType], Any]]] = {
    Kind.LIST: _list,
    Kind.ARRAY: _array,
    Kind.INT2VECTOR: _array,
    Kind.MAP: _map,
    Kind.RECORD: _record,
    Kind.RANGE: _range,
}
