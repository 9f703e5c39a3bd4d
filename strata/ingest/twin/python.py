"""Typed values from Parquet, ORC, Avro and DataFrames, as Python objects.

Each item of `to_pylist()` comes with its Arrow type. Days, times and durations may also be the
stored integers (days, or ticks of the type's unit), because Python's own types have less range.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, time, timedelta
from typing import Any, Final

import pyarrow as pa

from strata.ingest.twin import shapes
from strata.ingest.twin.access import access_of
from strata.ingest.twin.exact import (
    INTEGERS,
    Exact,
    as_integer,
    number_from_text,
    number_of,
    number_of_float,
)
from strata.ingest.twin.jsons import Number, canonical
from strata.ingest.twin.moments import TICKS, iso_text
from strata.ingest.twin.objects import INT32, INT64, UINT64
from strata.ingest.twin.physical import WIDTHS, leaf_of
from strata.ingest.twin.spans import span_as, span_of_parts
from strata.ingest.twin.texts import from_text
from strata.ingest.twin.times import (
    DAY_NANOS,
    EPOCH,
    EPOCH_DAY,
    date_of_days,
    moment_of_nanos,
    time_of_nanos,
)
from strata.ingest.twin.unreadable import Undecided, Unreadable
from strata.model.types import ColumnType, Kind

TWELVE: Final = pa.binary(12)  # Parquet's INTERVAL, and Avro's duration
SPANS: Final = (Kind.DAY_TIME, Kind.INTERVAL, Kind.YEAR_MONTH)
TEXT: Final = ColumnType(Kind.STRING)
MICRO: Final = timedelta(microseconds=1)
DIM: Final = pa.struct([("lower_bound", pa.int64()), ("length", pa.int64())])


def from_python(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> Any:
    """Return the canonical form of a typed value; null is None. Raises: Unreadable."""
    if value is None:
        return None
    arrow_type = _inner_type(arrow_type)
    kind = column_type.kind
    if _is_text(arrow_type):
        return from_text(value, column_type)
    if kind is Kind.JSONB and not _is_bytes(arrow_type):
        return canonical(_plain(value, arrow_type))
    if arrow_type == TWELVE and kind in SPANS:
        return _twelve(value, column_type)
    if _is_bytes(arrow_type):
        return _bytes(value, arrow_type, column_type)
    for belongs, read in _FAMILIES:
        if belongs(arrow_type):
            return read(value, arrow_type, column_type)
    raise Undecided(f"nothing is said of {arrow_type}")


def _inner_type(kind: Any) -> pa.DataType:
    """Return the type of values: an extension, a dictionary and runs only store them otherwise."""
    while True:
        if isinstance(kind, pa.Bool8Type):
            return pa.bool_()
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def _twelve(value: bytes, column_type: ColumnType) -> object:
    months, days, millis = (int.from_bytes(value[n : n + 4], "little") for n in (0, 4, 8))
    return span_as((months, days, millis * 1000), column_type)


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(arrow_type)
        or pa.types.is_large_string(arrow_type)
        or pa.types.is_string_view(arrow_type)
    )


def _is_bytes(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(arrow_type)
        or pa.types.is_large_binary(arrow_type)
        or pa.types.is_binary_view(arrow_type)
        or pa.types.is_fixed_size_binary(arrow_type)
    )


def _is_list(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(arrow_type)
        or pa.types.is_large_list(arrow_type)
        or pa.types.is_fixed_size_list(arrow_type)
        or pa.types.is_list_view(arrow_type)
        or pa.types.is_large_list_view(arrow_type)
    )


def _bytes(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> Any:
    kind = column_type.kind
    if kind is Kind.BYTES:
        return bytes(value)
    if not isinstance(value, bytes):  # a UUID of an extension type
        return from_text(str(value), column_type)
    if not pa.types.is_fixed_size_binary(arrow_type):
        return from_text(value, column_type)
    if kind is Kind.UUID and len(value) == WIDTHS[kind]:
        return leaf_of(value, column_type)
    raise Unreadable("bytes of a fixed size are no value of the type")


def _bool(value: Any, _: pa.DataType, column_type: ColumnType) -> bool:
    if column_type.kind is not Kind.BOOL:
        raise Unreadable("true and false are no value of the type")
    return bool(value)


def _integer(value: Any, _: pa.DataType, column_type: ColumnType) -> object:
    kind = column_type.kind
    if kind is Kind.DAY_TIME:
        return span_as((0, 0, as_integer(Exact.of(str(value)), INT64)), column_type)
    if kind in INTEGERS or kind in (Kind.FLOAT32, Kind.FLOAT64, Kind.NUMERIC):
        return number_of(Exact.of(str(value)), column_type)
    raise Unreadable("an integer is no value of the type")


def _decimal(value: Any, _: pa.DataType, column_type: ColumnType) -> object:
    if column_type.kind not in {*INTEGERS, Kind.FLOAT32, Kind.FLOAT64, Kind.NUMERIC}:
        raise Unreadable("a decimal is no value of the type")
    return number_of(Exact.of_decimal(value), column_type)


def _float(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> object:
    if column_type.kind not in {*INTEGERS, Kind.FLOAT32, Kind.FLOAT64, Kind.NUMERIC}:
        raise Unreadable("a float is no value of the type")
    width = {16: "e", 32: "f", 64: "d"}[arrow_type.bit_width]
    return number_of_float(float(value), column_type, width)


def _date(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> object:
    if isinstance(value, int):
        days, rest = divmod(value, 86_400_000) if arrow_type == pa.date64() else (value, 0)
    else:
        days, rest = (date(value.year, value.month, value.day) - EPOCH_DAY).days, 0
    if rest:
        raise Undecided("a date with a time of day")
    if column_type.kind is Kind.DATE:
        return date_of_days(days)
    if column_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return moment_of_nanos(days * DAY_NANOS, column_type.kind)
    raise Unreadable("a date is no value of the type")


def _timestamp(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> object:
    if isinstance(value, int):
        nanos = value * TICKS[arrow_type.unit]
    else:
        there = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        nanos = (there - EPOCH) // MICRO * 1000 + getattr(there, "nanosecond", 0)
    if column_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return moment_of_nanos(nanos, column_type.kind)
    if column_type.kind is Kind.DATE:
        if nanos % DAY_NANOS:
            raise Unreadable("a timestamp that is no day")
        return date_of_days(nanos // DAY_NANOS)
    raise Unreadable("a timestamp is no value of the type")


def _time(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> str:
    if column_type.kind is not Kind.TIME:
        raise Unreadable("a time of day is no value of the type")
    if isinstance(value, time):
        since = timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
        return time_of_nanos(since // MICRO * 1000)
    return time_of_nanos(value * TICKS[arrow_type.unit])


def _duration(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> object:
    if column_type.kind not in (Kind.DAY_TIME, Kind.INTERVAL):
        raise Unreadable("a duration is no value of the type")
    nanos = value * TICKS[arrow_type.unit] if isinstance(value, int) else value // MICRO * 1000
    if nanos % 1000:
        raise Unreadable("parts of a microsecond")
    return span_as((0, 0, nanos // 1000), column_type)


def _month_day_nano(value: Any, _: pa.DataType, column_type: ColumnType) -> object:
    months, days, nanos = value
    if column_type.kind not in (Kind.DAY_TIME, Kind.INTERVAL, Kind.YEAR_MONTH):
        raise Unreadable("an interval is no value of the type")
    if nanos % 1000:
        raise Unreadable("parts of a microsecond")
    return span_as((months, days, nanos // 1000), column_type)


def _list(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> object:
    inner, kind = arrow_type.value_type, column_type.kind

    def part(item: Any, element: ColumnType) -> Any:
        return from_python(item, inner, element)

    if kind is Kind.LIST:
        return shapes.list_of(value, column_type, part)
    if kind not in (Kind.ARRAY, Kind.INT2VECTOR):
        raise Unreadable("a list is no value of the type")
    if _is_list(inner) and shapes.element_of(column_type).kind is not Kind.LIST:
        raise Undecided("lists of lists as an array of several dimensions")
    dims = [(shapes.first_bound(column_type), len(value))] if value else []
    return shapes.array_of(value, dims, column_type, part)


def _map(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> object:
    if column_type.kind is not Kind.MAP:
        raise Unreadable("a map is no value of the type")
    pairs = value.items() if isinstance(value, Mapping) else value
    texts = [(from_python(key, arrow_type.key_type, TEXT), item) for key, item in pairs]
    return shapes.map_of(
        texts, column_type, lambda item, element: from_python(item, arrow_type.item_type, element)
    )


def _struct(value: Any, arrow_type: pa.DataType, column_type: ColumnType) -> object:
    kind = column_type.kind
    types = {field.name: field.type for field in arrow_type}
    if kind is Kind.RECORD:
        shapes.check_names(types, column_type)
        parts = {
            field.name: from_python(value[field.name], types[field.name], field.type)
            for field in column_type.fields
            if field.name in types
        }
        return shapes.record_of(parts, column_type, lambda part, _: part)
    if kind is Kind.RANGE:
        element = shapes.element_of(column_type)
        ends = {
            end: from_python(value[end], types[end], element)
            for end in ("lower", "upper")
            if end in types
        }
        return shapes.range_of({**value, **ends}, column_type, lambda part, _: part)
    if kind in (Kind.ARRAY, Kind.INT2VECTOR):
        return _shaped(value, types, column_type)
    if kind in (Kind.INTERVAL, Kind.ACLITEM, Kind.MZ_ACLITEM, Kind.NUMERIC):
        return _object(value, types, column_type)
    raise Unreadable("a struct is no value of the type")


def _shaped(value: Any, types: Mapping[str, Any], column_type: ColumnType) -> object:
    if value.get("dims") is None or value.get("vals") is None:
        raise Unreadable("an array has dims and vals")
    if any(dim is None or None in dim.values() for dim in value["dims"]):
        raise Unreadable("a dimension has lower_bound and length")
    dims = [(dim["lower_bound"], dim["length"]) for dim in value["dims"]]
    inner = types["vals"].value_type
    return shapes.array_of(
        value["vals"], dims, column_type, lambda item, t: from_python(item, inner, t)
    )


def _object(value: Any, types: Mapping[str, Any], column_type: ColumnType) -> object:
    kind = column_type.kind
    if kind is Kind.NUMERIC:
        if value.get("text") is not None:
            return number_from_text(value["text"].strip(), column_type)
        if value.get("binary") is not None:
            return leaf_of(value, column_type)
        raise Undecided("a number without its text")
    fields = (
        ("months", "days", "micros") if kind is Kind.INTERVAL else ("grantee", "grantor", "mode")
    )
    if not types.keys() <= {*fields}:
        raise Unreadable("a struct with other fields")
    wanted = {"months": INT32, "days": INT32, "micros": INT64, "mode": UINT64}
    if kind is Kind.ACLITEM:
        wanted |= dict.fromkeys(("grantee", "grantor"), ColumnType(Kind.UINT32))
    parts = {
        name: from_python(part, types[name], wanted[name]) if name in wanted else part
        for name, part in value.items()
        if part is not None
    }
    return (
        span_of_parts(parts, column_type)
        if kind is Kind.INTERVAL
        else access_of(parts, column_type)
    )


def _plain(value: Any, arrow_type: pa.DataType) -> Any:
    """Return a nested value as JSON has it. Raises: Unreadable where JSON has no such value."""
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if value is None:
        return None
    if _is_list(arrow_type):
        return [_plain(item, arrow_type.value_type) for item in value]
    if pa.types.is_struct(arrow_type):
        if len({field.name for field in arrow_type}) < arrow_type.num_fields:
            raise Unreadable("a field that stands twice")
        return {field.name: _plain(value[field.name], field.type) for field in arrow_type}
    if pa.types.is_map(arrow_type) and _is_text(arrow_type.key_type):
        pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
        if len({key for key, _ in pairs}) < len(pairs):
            raise Unreadable("a map that has a key twice as JSON")
        return {key: _plain(item, arrow_type.item_type) for key, item in pairs}
    return _plain_leaf(value, arrow_type)


def _plain_leaf(value: Any, arrow_type: pa.DataType) -> Any:
    if pa.types.is_temporal(arrow_type) and not pa.types.is_interval(arrow_type):
        return iso_text(value, arrow_type)
    if pa.types.is_boolean(arrow_type):
        return bool(value)
    if pa.types.is_integer(arrow_type) or _is_text(arrow_type):
        return value
    if pa.types.is_decimal(arrow_type):
        return Number(f"{value:f}")
    if not pa.types.is_floating(arrow_type):
        raise Undecided(f"{arrow_type} as JSON")
    if value != value or abs(value) == float("inf"):  # noqa: PLR0124  NaN
        raise Unreadable("not a number of JSON")
    return float(value)


_FAMILIES: Final[tuple[tuple[Callable[[Any], bool], Callable[..., Any]], ...]] = (
    (pa.types.is_boolean, _bool),
    (pa.types.is_integer, _integer),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_floating, _float),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_time, _time),
    (pa.types.is_duration, _duration),
    (pa.types.is_interval, _month_day_nano),
    (_is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
)
