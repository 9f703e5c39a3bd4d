"""Values as Kafka Connect and Debezium encode them in JSON, made into what JSON sources give.

A schema, where events carry one, says what a field means: days since 1970, micro- or milliseconds,
a decimal as base64 of its unscaled bytes. Without a schema Debezium's default encodings count:
an integer in a date column is days, in a time or timestamp column microseconds, bytes are
base64, a string in a jsonb column is the text of a JSON value.
Integers in an interval column are refused: months and days cannot be told from them.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from strata.ingest.literals import Number, Text
from strata.model.schema import Column
from strata.model.types import ColumnType, Kind

Convert = Callable[[Any], Any]

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  local or UTC, as the column says
DAY_ZERO: Final = date(1970, 1, 1)


def plain_values(
    values: list[Any], column: Column, schemas: Sequence[dict[str, Any] | None]
) -> list[Any]:
    """Return the values of one column as JSON would have them, each with the schema of its row.

    Errs: what does not fit its encoding stays as it is, and is judged as any other value.
    """
    fallback = _by_type(column.type)
    if fallback is None and all(schema is None for schema in schemas):
        return values
    made: dict[tuple[object, ...], Convert | None] = {}
    result: list[Any] = []
    for value, schema in zip(values, schemas, strict=True):
        if value is None:
            result.append(None)
            continue
        convert = fallback
        if schema is not None and column.name in schema:
            field = schema[column.name]
            items = field.get("items") or {}
            known = tuple((f.get("name"), f.get("type"), _scale(f)) for f in (field, items))
            if known not in made:
                made[known] = _by_schema(field, fallback, column.type)
            convert = made[known]
        result.append(value if convert is None else _tried(convert, value))
    return result


def _tried(convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except (ValueError, OverflowError, TypeError, ArithmeticError, Base64Error, KeyError):
        return value


def _by_type(kind: ColumnType) -> Convert | None:
    """Return what makes a value without a schema plain; None: it is."""
    if kind.kind in (Kind.ARRAY, Kind.LIST) and kind.element is not None:
        return _each(_by_type(kind.element))
    return _BY_KIND.get(kind.kind)


def _each(convert: Convert | None) -> Convert | None:
    """Return what converts the items of a list."""
    if convert is None:
        return None

    def items(value: Any) -> Any:
        if type(value) is not list:
            return value
        return [None if item is None else convert(item) for item in value]

    return items


def _by_schema(field: dict[str, Any], fallback: Convert | None, kind: ColumnType) -> Convert | None:
    name = field.get("name")
    if field.get("type") == "array" and kind.element is not None:
        element = kind.element
        return _each(_by_schema(field.get("items") or {}, _by_type(element), element))
    if fallback is _json:  # text of a database's json is JSON, that of its text is not
        return _json if name == "io.debezium.data.Json" else None
    if name == "org.apache.kafka.connect.data.Decimal":
        scale = int(_scale(field))
        return lambda value: _decimal(value, scale) if type(value) is str else value
    if name in _BY_NAME:
        return _BY_NAME[name]
    if field.get("type") == "bytes":
        return _bytes
    return fallback if name is None else None


def _scale(field: dict[str, Any]) -> Any:
    return (field.get("parameters") or {}).get("scale", 0)


def _decimal(text: str, scale: int) -> Number:
    unscaled = int.from_bytes(b64decode(text, validate=True), "big", signed=True)
    return Number(format(Decimal(unscaled).scaleb(-scale), "f"))


def _variable_decimal(value: Any) -> Any:
    return _decimal(value["value"], int(value["scale"])) if isinstance(value, dict) else value


def whole(value: Any) -> int | None:
    """Return an integer; None for what is none."""
    if type(value) is int:
        return value
    return int(value) if type(value) is Number else None


def _days(value: Any) -> Any:
    days = whole(value)
    return value if days is None else (DAY_ZERO + timedelta(days=days)).isoformat()


def _moment(unit: int, divide: int = 1) -> Convert:
    def convert(value: Any) -> Any:
        count = whole(value)
        if count is None:
            return value
        return (EPOCH + timedelta(microseconds=count * unit // divide)).isoformat()

    return convert


def _time(unit: int, divide: int = 1) -> Convert:
    def convert(value: Any) -> Any:
        count = whole(value)
        if count is None:
            return value
        return (EPOCH + timedelta(microseconds=count * unit // divide)).time().isoformat()

    return convert


def _json(value: Any) -> Any:
    return Text(value) if type(value) is str else value


def _bytes(value: Any) -> Any:
    return b64decode(value, validate=True) if type(value) is str else value


_DEBEZIUM: Final = "io.debezium.time."
_CONNECT: Final = "org.apache.kafka.connect.data."
_BY_NAME: Final[dict[str, Convert | None]] = {
    f"{_DEBEZIUM}Date": _days,
    f"{_CONNECT}Date": _days,
    f"{_DEBEZIUM}Timestamp": _moment(1000),
    f"{_CONNECT}Timestamp": _moment(1000),
    f"{_DEBEZIUM}MicroTimestamp": _moment(1),
    f"{_DEBEZIUM}NanoTimestamp": _moment(1, 1000),
    f"{_DEBEZIUM}Time": _time(1000),
    f"{_CONNECT}Time": _time(1000),
    f"{_DEBEZIUM}MicroTime": _time(1),
    f"{_DEBEZIUM}NanoTime": _time(1, 1000),
    "io.debezium.data.VariableScaleDecimal": _variable_decimal,
}
_BY_KIND: Final[dict[Kind, Convert]] = {
    Kind.DATE: _days,
    Kind.TIMESTAMP: _moment(1),
    Kind.TIMESTAMPTZ: _moment(1),
    Kind.TIME: _time(1),
    Kind.NUMERIC: _variable_decimal,
    Kind.BYTES: _bytes,
    Kind.JSONB: _json,
}
