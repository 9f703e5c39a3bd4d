"""Values that come as text: a CSV field, a text in JSON or Parquet, an item of a literal.

White space around a value is ignored, except in texts. Nested types come as JSON or as
PostgreSQL's literals.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from strata.ingest.twin import literals, shapes
from strata.ingest.twin.access import access_from_text
from strata.ingest.twin.exact import INTEGERS, Exact, as_integer, number_from_text
from strata.ingest.twin.jsons import Pairs, canonical, check_text, parse_json
from strata.ingest.twin.spans import span_as, span_from_text
from strata.ingest.twin.times import date_from_text, moment_from_text, time_from_text
from strata.ingest.twin.unreadable import Unreadable
from strata.model.types import NESTED, ColumnType, Kind

BOOLS: Final = {"true": True, "false": False, "1": True, "0": False, "t": True, "f": False}
INTEGER: Final = re.compile("[+-]?[0-9]+")
HEX: Final = re.compile("(?:[0-9a-f]{4}-?){8}")
OBJECTS: Final = frozenset({Kind.INTERVAL, Kind.ACLITEM, Kind.MZ_ACLITEM})
SPANS: Final = frozenset({Kind.INTERVAL, Kind.DAY_TIME, Kind.YEAR_MONTH})
Reader = Callable[[str, ColumnType], Any]


def from_text(text: str | bytes, column_type: ColumnType) -> Any:
    """Return the canonical form of a text. Raises: Unreadable."""
    kind = column_type.kind
    if kind is Kind.BYTES:
        return _bytes(text if isinstance(text, bytes) else check_text(text).encode())
    try:
        body = text.decode("utf-8") if isinstance(text, bytes) else check_text(text)
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8") from error
    if kind in _TEXTS:
        return _TEXTS[kind](body, column_type)
    body = body.strip()
    if kind in NESTED or (kind in OBJECTS and body.startswith("{")):
        return _nested(body, column_type)
    return _SCALARS[kind](body, column_type)


def _bytes(data: bytes) -> bytes:
    """Return what PostgreSQL's hexadecimal text means, and any other text as it is."""
    digits = data.removeprefix(b"\\x")
    if len(digits) == len(data) or len(digits) % 2 or digits.strip(b"0123456789abcdefABCDEF"):
        return data
    return bytes(int(digits[n : n + 2], 16) for n in range(0, len(digits), 2))


def within_length(text: str, column_type: ColumnType) -> str:
    """Return a text that fits into string, varchar(n) or char(n). Raises: Unreadable."""
    kept = check_text(text).rstrip(" ") if column_type.kind is Kind.CHAR else check_text(text)
    if column_type.length is not None and len(kept) > column_type.length:
        raise Unreadable(f"more than {column_type.length} characters")
    return kept


def _bool(text: str, _: ColumnType) -> bool:
    if text.lower() not in BOOLS:
        raise Unreadable("not a boolean")
    return BOOLS[text.lower()]


def _integer(text: str, column_type: ColumnType) -> int:
    if INTEGER.fullmatch(text) is None:
        raise Unreadable("not an integer")
    return as_integer(Exact.of(text), column_type)


def _uuid(text: str, _: ColumnType) -> str:
    body = text.lower().removeprefix("urn:uuid:")
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1]
    if body.endswith("-") or HEX.fullmatch(body) is None:
        raise Unreadable("not a UUID")
    plain = body.replace("-", "")
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def _span(text: str, column_type: ColumnType) -> object:
    return span_as(span_from_text(text), column_type)


def _jsonb(text: str, _: ColumnType) -> str:
    return canonical(parse_json(text))


def _nested(text: str, column_type: ColumnType) -> Any:
    """Return a value from JSON, else from a literal of PostgreSQL."""
    from strata.ingest.twin.objects import from_json  # texts hold objects, and objects texts

    try:
        value = parse_json(text)
    except Unreadable:
        return _literal(text, column_type)
    lists = column_type.kind in (Kind.LIST, Kind.ARRAY, Kind.INT2VECTOR)
    if isinstance(value, list) and lists:
        return from_json(value, column_type)
    if isinstance(value, Pairs) and (value or not lists):
        return from_json(value, column_type)
    return _literal(text, column_type)


def _literal(text: str, column_type: ColumnType) -> Any:
    kind = column_type.kind
    if kind not in _LITERALS:
        raise Unreadable("not JSON")
    return _LITERALS[kind](text, column_type)


def _list(text: str, column_type: ColumnType) -> list[Any]:
    return shapes.list_of([v for v, _ in literals.array_items(text)], column_type, from_text)


def _array(text: str, column_type: ColumnType) -> dict[str, Any]:
    bounds, body = literals.array_bounds(text)
    if column_type.kind is Kind.INT2VECTOR and not body.startswith("{"):
        items: list[Any] = [(part, False) for part in body.split()]
    else:
        items = literals.array_items(body)
    own = shapes.element_of(column_type).kind in (Kind.LIST, Kind.MAP, Kind.JSONB, Kind.UUID)
    values, lengths = shapes.flattened(_opened(items, own), lambda item: isinstance(item, list))
    if not bounds:
        dims = [(shapes.first_bound(column_type), length) for length in lengths]
    else:
        dims = [(low, high - low + 1) for low, high in bounds]
        if [length for _, length in dims] != lengths:
            raise Unreadable("the bounds of an array are not those of its values")
    return shapes.array_of([value[0] for value in values], dims, column_type, from_text)


def _opened(items: list[Any], own: bool) -> list[Any]:
    """Return items with nested braces as lists, unless braces are the element's `own`."""
    return [
        _opened(literals.array_items(body), own)
        if body is not None and body.startswith("{") and not quoted and not own
        else (body, quoted)
        for body, quoted in items
    ]


def _map(text: str, column_type: ColumnType) -> dict[str, Any]:
    return shapes.map_of(literals.hstore_pairs(text), column_type, from_text)


def _record(text: str, column_type: ColumnType) -> dict[str, Any]:
    if not column_type.fields:
        if text != "()":
            raise Unreadable("not a row without fields")
        return {}
    values = literals.row_items(text)
    if len(values) != len(column_type.fields):
        raise Unreadable("a row has all fields in order")
    names = [field.name for field in column_type.fields]
    return shapes.record_of(dict(zip(names, values, strict=True)), column_type, from_text)


def _range(text: str, column_type: ColumnType) -> dict[str, Any]:
    ends = literals.range_ends(text)
    if ends is None:
        return dict(shapes.EMPTY)
    low_in, low, high, high_in = ends
    parts = {"lower": low, "upper": high, "lower_inclusive": low_in, "upper_inclusive": high_in}
    return shapes.range_of(parts, column_type, from_text)


_TEXTS: Final[dict[Kind, Reader]] = dict.fromkeys(
    (Kind.STRING, Kind.VARCHAR, Kind.CHAR), within_length
)
_SCALARS: Final[dict[Kind, Reader]] = {
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys((Kind.FLOAT32, Kind.FLOAT64, Kind.NUMERIC), number_from_text),
    **dict.fromkeys(SPANS, _span),
    **dict.fromkeys((Kind.ACLITEM, Kind.MZ_ACLITEM), access_from_text),
    Kind.BOOL: _bool,
    Kind.DATE: lambda text, _: date_from_text(text),
    Kind.TIME: lambda text, _: time_from_text(text),
    Kind.TIMESTAMP: lambda text, column_type: moment_from_text(text, column_type.kind),
    Kind.TIMESTAMPTZ: lambda text, column_type: moment_from_text(text, column_type.kind),
    Kind.UUID: _uuid,
    Kind.JSONB: _jsonb,
}
_LITERALS: Final[dict[Kind, Reader]] = {
    Kind.LIST: _list,
    Kind.ARRAY: _array,
    Kind.INT2VECTOR: _array,
    Kind.MAP: _map,
    Kind.RECORD: _record,
    Kind.RANGE: _range,
}
