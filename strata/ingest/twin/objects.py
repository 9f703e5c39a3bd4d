"""Values that come as JSON: parsed by `jsons.parse_json`, numbers exact."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from strata.ingest.twin import shapes
from strata.ingest.twin.access import access_of
from strata.ingest.twin.exact import INTEGERS, Exact, number_of, number_of_float
from strata.ingest.twin.jsons import Number, Pairs, canonical
from strata.ingest.twin.spans import span_of_parts
from strata.ingest.twin.texts import SPANS, from_text
from strata.ingest.twin.unreadable import Undecided, Unreadable
from strata.model.types import ColumnType, Kind

NUMBERS: Final = frozenset(
    {*INTEGERS, Kind.FLOAT32, Kind.FLOAT64, Kind.NUMERIC} - {Kind.YEAR_MONTH}
)
INT32: Final = ColumnType(Kind.INT32)
INT64: Final = ColumnType(Kind.INT64)
UINT64: Final = ColumnType(Kind.UINT64)
DIM: Final = {"lower_bound", "length"}


def from_json(value: Any, column_type: ColumnType) -> Any:
    """Return the canonical form of a JSON value; null is None. Raises: Unreadable."""
    kind = column_type.kind
    if value is None:
        return None
    if kind is Kind.JSONB:
        return canonical(value)
    if isinstance(value, str):
        return from_text(value, column_type)
    if isinstance(value, bool):
        if kind is Kind.BOOL:
            return value
        raise Unreadable("true and false are no value of the type")
    if isinstance(value, Number | int | float):
        return _number(value, column_type)
    if kind in _NESTED:
        return _NESTED[kind](value, column_type)
    if isinstance(value, dict) and kind in SPANS:
        return _span(value, column_type)
    if isinstance(value, dict) and kind in (Kind.ACLITEM, Kind.MZ_ACLITEM):
        return _access(value, column_type)
    raise Unreadable("a list or an object is no value of the type")


def _number(value: Number | int | float, column_type: ColumnType) -> object:
    if column_type.kind is Kind.YEAR_MONTH:
        raise Undecided("months as a number of JSON")
    if column_type.kind not in NUMBERS:
        raise Unreadable("a number is no value of the type")
    if isinstance(value, float):
        return number_of_float(value, column_type)
    text = value.text if isinstance(value, Number) else str(value)
    return number_of(Exact.of(text), column_type)


def _integer(value: Any, column_type: ColumnType) -> int:
    found = from_json(value, column_type)
    assert isinstance(found, int)
    return found


def _span(value: Mapping[str, Any], column_type: ColumnType) -> object:
    if column_type.kind is not Kind.INTERVAL:
        raise Undecided("an object as an interval of one unit")
    types = {"months": INT32, "days": INT32, "micros": INT64}
    if not value.keys() <= types.keys():
        raise Unreadable("an interval has months, days and micros, no other field")
    parts = {name: _integer(part, types[name]) for name, part in value.items() if part is not None}
    return span_of_parts(parts, column_type)


def _access(value: Mapping[str, Any], column_type: ColumnType) -> object:
    if value.get("mode") is None:
        raise Unreadable("an access right has a mode")
    if not value.keys() <= {"grantee", "grantor", "mode"}:
        raise Unreadable("an access right has grantee, grantor and mode, no other field")
    parts = {**value, "mode": _integer(value["mode"], UINT64)}
    if column_type.kind is Kind.ACLITEM:
        for name in ("grantee", "grantor"):
            if value.get(name) is not None:
                parts[name] = _integer(value[name], ColumnType(Kind.UINT32))
    return access_of(parts, column_type)


def _list(value: Any, column_type: ColumnType) -> object:
    if not isinstance(value, list):
        raise Unreadable("not a list")
    return shapes.list_of(value, column_type, from_json)


def _array(value: Any, column_type: ColumnType) -> object:
    if isinstance(value, list):
        own = shapes.element_of(column_type).kind in (Kind.LIST, Kind.ARRAY)
        if shapes.element_of(column_type).kind is Kind.JSONB and _lists(value):
            raise Undecided("lists as dimensions, or as JSON")
        values, lengths = shapes.flattened(value, lambda v: isinstance(v, list) and not own)
        dims = [(shapes.first_bound(column_type), length) for length in lengths]
        return shapes.array_of(values, dims, column_type, from_json)
    if not (isinstance(value, dict) and isinstance(value.get("dims"), list)):
        raise Unreadable("not an array")
    if not isinstance(value.get("vals"), list):
        raise Unreadable("an array has vals")
    dims = []
    for dim in value["dims"]:
        if not isinstance(dim, dict) or any(dim.get(name) is None for name in DIM):
            raise Unreadable("a dimension has lower_bound and length")
        dims.append((_integer(dim["lower_bound"], INT64), _integer(dim["length"], INT64)))
    return shapes.array_of(value["vals"], dims, column_type, from_json)


def _lists(value: list[Any]) -> bool:
    return any(isinstance(item, list) for item in value)


def _map(value: Any, column_type: ColumnType) -> object:
    if not isinstance(value, dict):
        raise Unreadable("not an object")
    if isinstance(value, Pairs) and value.twice:
        raise Unreadable("a map has a key twice")
    return shapes.map_of(list(value.items()), column_type, from_json)


def _record(value: Any, column_type: ColumnType) -> object:
    if not isinstance(value, dict):
        raise Unreadable("not an object")
    if isinstance(value, Pairs) and value.twice & {field.name for field in column_type.fields}:
        raise Undecided("a field of a record comes twice")
    return shapes.record_of(value, column_type, from_json)


def _range(value: Any, column_type: ColumnType) -> object:
    if not isinstance(value, dict):
        raise Unreadable("not an object")
    for name in shapes.FLAGS:
        if not isinstance(value.get(name), bool | None):
            raise Unreadable("a flag of a range is true or false")
    return shapes.range_of(value, column_type, from_json)


_NESTED: Final[dict[Kind, Callable[[Any, ColumnType], object]]] = {
    Kind.LIST: _list,
    Kind.ARRAY: _array,
    Kind.INT2VECTOR: _array,
    Kind.MAP: _map,
    Kind.RECORD: _record,
    Kind.RANGE: _range,
}
