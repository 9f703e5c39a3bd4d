"""Values of Debezium's events: as their schema says, or as the documents say without one.

Values come parsed by `jsons.parse_json_line`, a schema is the field's part of the event's own.
"""

import base64
import binascii
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from strata.ingest.twin import shapes
from strata.ingest.twin.exact import Exact, number_of
from strata.ingest.twin.jsons import Number, Pairs
from strata.ingest.twin.objects import NUMBERS, from_json
from strata.ingest.twin.texts import from_text
from strata.ingest.twin.times import DAY_NANOS, date_of_days, moment_of_nanos, time_of_nanos
from strata.ingest.twin.unreadable import Undecided, Unreadable
from strata.model.types import ColumnType, Kind

Schema = Mapping[str, Any]
MOMENTS: Final = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
DATES: Final = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
TICKS: Final = {  # nanoseconds since midnight, or since 1970
    "io.debezium.time.Time": 10**6,
    "io.debezium.time.MicroTime": 10**3,
    "io.debezium.time.NanoTime": 1,
    "org.apache.kafka.connect.data.Time": 10**6,
    "io.debezium.time.Timestamp": 10**6,
    "io.debezium.time.MicroTimestamp": 10**3,
    "io.debezium.time.NanoTimestamp": 1,
    "org.apache.kafka.connect.data.Timestamp": 10**6,
}
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
OBJECTS: Final = (("struct", Kind.RECORD), ("map", Kind.MAP))
JSON: Final = "io.debezium.data.Json"
VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
TEXTS: Final = (
    None,
    "io.debezium.time.ZonedTimestamp",
    "io.debezium.time.ZonedTime",
    "io.debezium.time.Interval",
    "io.debezium.data.Json",
    "io.debezium.data.Uuid",
    "io.debezium.data.Enum",
    "io.debezium.data.EnumSet",
    "io.debezium.data.Xml",
    "io.debezium.data.Ltree",
)


def from_connect(value: Any, schema: Schema | None, column_type: ColumnType) -> Any:
    """Return the canonical form of an event's value; null is None. Raises: Unreadable."""
    if value is None:
        return None
    if schema is None:
        return _plain(value, column_type)
    name = schema.get("name")
    if name in (VARIABLE, DECIMAL):
        return _scaled(value, schema, column_type)
    if name in DATES:
        return _days(integer(value), column_type)
    if name in TICKS:
        return _ticks(integer(value) * TICKS[name], str(name), column_type)
    if schema.get("type") == "array":
        return _items(value, schema.get("items"), column_type)
    if (schema.get("type"), column_type.kind) in OBJECTS:
        return _object(value, schema, column_type)
    if schema.get("type") == "bytes" and name is None:
        return _bytes(value, column_type)
    if name not in TEXTS or (schema.get("type") == "string" and not isinstance(value, str)):
        raise Undecided(f"nothing is said of {name}, or the schema does not allow the value")
    is_text = column_type.kind is Kind.JSONB and name != JSON  # and no document
    return from_json(value, column_type) if is_text else _named(value, column_type)


def integer(value: Any) -> int:
    """Return the integer that a number of JSON is. Raises: Unreadable."""
    if not isinstance(value, Number | int) or isinstance(value, bool):
        raise Unreadable("not an integer")
    return Exact.of(value.text if isinstance(value, Number) else str(value)).integer()


def _text_or_number(value: Any) -> Any:
    return Number(value) if isinstance(value, str) else value


def _plain(value: Any, column_type: ColumnType) -> Any:
    """Return a value without a schema: integers are days, or microseconds; bytes are base64."""
    kind = column_type.kind
    if isinstance(value, list) and kind in (Kind.LIST, Kind.ARRAY):
        return _items(value, None, column_type)
    if isinstance(value, Mapping) and kind in (Kind.RECORD, Kind.MAP):
        return _object(value, None, column_type)
    if kind is Kind.NUMERIC and isinstance(value, Mapping):
        return _variable(value, column_type)
    if kind is Kind.BYTES:
        return _bytes(value, column_type)
    if isinstance(value, Number | int) and not isinstance(value, bool):
        if kind is Kind.DATE:
            return date_of_days(integer(value))
        if kind is Kind.TIME:
            return time_of_nanos(integer(value) * 1000)
        if kind in MOMENTS:
            return moment_of_nanos(integer(value) * 1000, kind)
    return _named(value, column_type)


def _named(value: Any, column_type: ColumnType) -> Any:
    """Return a value that is what JSON says it is; documents of `jsonb` come as text."""
    if column_type.kind is Kind.JSONB and isinstance(value, str):
        return from_text(value, column_type)
    return from_json(value, column_type)


def _days(days: int, column_type: ColumnType) -> Any:
    if column_type.kind is Kind.DATE:
        return date_of_days(days)
    if column_type.kind in MOMENTS:
        return moment_of_nanos(days * DAY_NANOS, column_type.kind)
    raise Undecided("a date in a column of another type")


def _ticks(nanos: int, name: str, column_type: ColumnType) -> Any:
    of_day = name.endswith("Time")
    if of_day and column_type.kind is Kind.TIME:
        return time_of_nanos(nanos)
    if not of_day and column_type.kind in MOMENTS:
        return moment_of_nanos(nanos, column_type.kind)
    raise Undecided("a time in a column of another type")


def _unpacked(value: Any) -> bytes:
    if not isinstance(value, str):
        raise Unreadable("bytes come as base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unreadable("not base64") from error


def _bytes(value: Any, column_type: ColumnType) -> bytes:
    if column_type.kind is not Kind.BYTES:
        raise Undecided("bytes in a column of another type")
    return _unpacked(value)


def _decimal(value: Any, scale: int, column_type: ColumnType) -> object:
    if column_type.kind not in NUMBERS:
        raise Undecided("a decimal in a column of another type")
    unscaled = int.from_bytes(_unpacked(value), "big", signed=True)
    digits = str(Decimal(unscaled))  # of any length, unlike str(int)
    return number_of(Exact.of(f"{digits}e{-scale}"), column_type)


def _scaled(value: Any, schema: Schema, column_type: ColumnType) -> object:
    if schema.get("name") == VARIABLE:
        return _variable(value, column_type)
    scale = (schema.get("parameters") or {}).get("scale", "0")
    return _decimal(value, integer(_text_or_number(scale)), column_type)


def _variable(value: Any, column_type: ColumnType) -> object:
    if not isinstance(value, Mapping) or value.get("scale") is None or value.get("value") is None:
        raise Unreadable("a decimal has scale and value")
    return _decimal(value["value"], integer(value["scale"]), column_type)


def _items(value: Any, items: Schema | None, column_type: ColumnType) -> object:
    if not isinstance(value, list):
        raise Unreadable("not a list")
    if column_type.kind is Kind.JSONB:
        return from_json(value, column_type)

    def part(item: Any, element: ColumnType) -> Any:
        return from_connect(item, items, element)

    if column_type.kind is Kind.LIST:
        return shapes.list_of(value, column_type, part)
    if column_type.kind not in (Kind.ARRAY, Kind.INT2VECTOR):
        raise Unreadable("a list is no value of the type")
    if any(isinstance(item, list) for item in value):
        raise Undecided("lists inside of lists")
    dims = [(shapes.first_bound(column_type), len(value))] if value else []
    return shapes.array_of(value, dims, column_type, part)


def _object(value: Any, schema: Schema | None, column_type: ColumnType) -> object:
    """Return a record or a map, each part as its own schema says; no `schema`: there is none."""
    if not isinstance(value, Mapping):
        return _named(value, column_type)
    twice = isinstance(value, Pairs) and value.twice
    if column_type.kind is Kind.MAP:
        if twice:
            raise Unreadable("a map has a key twice")
        values = None if schema is None else schema.get("values") or {}

        def part(item: Any, element: ColumnType) -> Any:
            return from_connect(item, values, element)

        return shapes.map_of(list(value.items()), column_type, part)
    if twice:
        raise Undecided("a field of a record comes twice")
    shapes.check_names(value, column_type)
    fields = [] if schema is None else schema.get("fields") or []
    known = {field.get("field"): field for field in fields}
    found = {}
    for field in column_type.fields:
        own = None if schema is None else known.get(field.name, {})
        found[field.name] = from_connect(value.get(field.name), own, field.type)
    return found
