"""JSON values as values of a column type: what a default in a declaration says.

| type | JSON |
|---|---|
| bool, jsonb | itself; any value |
| integers, intervals year to month (months) and day to second (microseconds) | number |
| floats | number, or text for NaN and Infinity |
| numeric | number or text |
| date, time, timestamp, timestamptz | ISO 8601 text; timestamptz in UTC where it says no offset |
| string, char, varchar, uuid | text |
| bytes | base64 text |
| interval, aclitem, mz_aclitem | object, as Spark shows them; parts of an interval default to 0 |
| list | list |
| map, record | object; a field that is not given is null |
| array, int2vector | list (of one dimension), or object of `dims` and `vals` |
| range | object of `lower`, `upper`, `lower_inclusive` (true), `upper_inclusive`, `empty` (false) |

Inside another value, null is null.
"""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from strata.format.values.canonical import canonical, canonical_text
from strata.format.values.view import from_view, view_type
from strata.model.types import ColumnType, Kind


def stored_value(value: object, column_type: ColumnType) -> pa.Array:
    """Return a JSON value as it is stored, in an array of one.

    Raises: InvalidRequest, ValueError, TypeError, ArithmeticError or ArrowException for what is
    no value of the type.
    """
    seen = pa.array([_seen(value, column_type)], view_type(column_type))
    return canonical(from_view(seen, column_type), column_type)


def _seen(value: Any, column_type: ColumnType) -> Any:
    """Return a JSON value as Python has the column's view."""
    if value is None:
        return None
    if column_type.kind in _NESTED:
        return _NESTED[column_type.kind](value, column_type)
    if column_type.kind is Kind.NUMERIC and column_type.precision is None:
        return {"approx": None, "text": str(_decimal(value))}
    return _SCALARS[column_type.kind](value)


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"not a {kind.__name__}")
        return value

    return check


_text: Final = _exactly(str)
_integer: Final = _exactly(int)


def _json_text(value: Any) -> str:
    text = canonical_text(json.dumps(value).encode())
    if text is None:
        raise ValueError("not JSON")
    return text.decode()


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value, validate=True)


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _float(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("a boolean is no number")
    return float(value)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise TypeError("a boolean is no number")
    return Decimal(str(value))


def _parts(value: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's entries, those not given as in `defaults`."""
    if not isinstance(value, dict):
        raise TypeError("not an object")
    if unknown := value.keys() - defaults.keys():
        raise ValueError(f"there is no {', '.join(sorted(unknown))}")
    return {**defaults, **value}


def _interval(value: Any) -> dict[str, Any]:
    return {k: _integer(v) for k, v in _parts(value, {"months": 0, "days": 0, "micros": 0}).items()}


def _acl(role: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    def read(value: Any) -> dict[str, Any]:
        parts = _parts(value, {"grantee": None, "grantor": None, "mode": 0})
        mode = Decimal(_integer(parts["mode"]))
        return {"grantee": role(parts["grantee"]), "grantor": role(parts["grantor"]), "mode": mode}

    return read


def _list(value: Any, column_type: ColumnType) -> list[Any]:
    assert column_type.element is not None
    if not isinstance(value, list):
        raise TypeError("not a list")
    return [_seen(item, column_type.element) for item in value]


def _map(value: Any, column_type: ColumnType) -> list[tuple[str, Any]]:
    assert column_type.element is not None
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return [(key, _seen(item, column_type.element)) for key, item in value.items()]


def _record(value: Any, column_type: ColumnType) -> dict[str, Any]:
    types = {field.name: field.type for field in column_type.fields}
    parts = _parts(value, dict.fromkeys(types))
    return {name: _seen(item, types[name]) for name, item in parts.items()}


def _array(value: Any, column_type: ColumnType) -> dict[str, Any]:
    if isinstance(value, list):
        length = len(value)
        value = {"dims": [{"lower_bound": 1, "length": length}] if length else [], "vals": value}
    parts = _parts(value, {"dims": [], "vals": []})
    dims = [_parts(dim, {"lower_bound": 1, "length": None}) for dim in parts["dims"]]
    return {"dims": dims, "vals": _list(parts["vals"], column_type)}


def _range(value: Any, column_type: ColumnType) -> dict[str, Any]:
    assert column_type.element is not None
    flags = {"lower_inclusive": True, "upper_inclusive": False, "empty": False}
    parts = _parts(value, {"lower": None, "upper": None, **flags})
    ends = {end: _seen(parts[end], column_type.element) for end in ("lower", "upper")}
    return ends | {flag: _exactly(bool)(parts[flag]) for flag in flags}


_NESTED: Final[Mapping[Kind, Callable[[Any, ColumnType], Any]]] = {
    Kind.LIST: _list,
    Kind.MAP: _map,
    Kind.RECORD: _record,
    Kind.ARRAY: _array,
    Kind.INT2VECTOR: _array,
    Kind.RANGE: _range,
}
_SCALARS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.BOOL: _exactly(bool),
    Kind.INT16: _integer,
    Kind.INT32: _integer,
    Kind.INT64: _integer,
    Kind.UINT8: _integer,
    Kind.UINT16: _integer,
    Kind.UINT32: _integer,
    Kind.OID: _integer,
    Kind.UINT64: lambda value: Decimal(_integer(value)),
    Kind.MZ_TIMESTAMP: lambda value: Decimal(_integer(value)),
    Kind.FLOAT32: _float,
    Kind.FLOAT64: _float,
    Kind.NUMERIC: _decimal,
    Kind.DATE: date.fromisoformat,
    Kind.TIME: _text,
    Kind.TIMESTAMP: datetime.fromisoformat,
    Kind.TIMESTAMPTZ: _moment,
    Kind.INTERVAL: _interval,
    Kind.DAY_TIME: _integer,
    Kind.YEAR_MONTH: _integer,
    Kind.STRING: _text,
    Kind.CHAR: _text,
    Kind.VARCHAR: _text,
    Kind.BYTES: _bytes,
    Kind.JSONB: _json_text,
    Kind.UUID: _text,
    Kind.ACLITEM: _acl(_integer),
    Kind.MZ_ACLITEM: _acl(_text),
}
