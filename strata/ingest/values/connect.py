"""Converts values that Kafka Connect and Debezium encode in JSON to plain JSON values.

If an event has a schema, it says what a field means: days since 1970, micro- or milliseconds, a
decimal as base64 of its unscaled bytes. Without a schema, Debezium's default encodings apply: an
integer in a date column is days, in a time or timestamp column microseconds, bytes are base64, a
string in a jsonb column is the text of a JSON value. Integers in an interval column are refused,
because they do not separate months from days.

A value that does not fit its encoding becomes `Broken`, which no type accepts: its text might have
another meaning, as the base64 of a decimal may look like a number.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from strata.ingest.values.exact_json import NumberText
from strata.ingest.values.literals import Broken, Text
from strata.model.schema import Column
from strata.model.types import ColumnType, Kind

Convert = Callable[[Any], Any]

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  local or UTC, as the column says
DAY_ZERO: Final = date(1970, 1, 1)
SECOND: Final = 1_000_000_000  # nanoseconds
MINUTE: Final = 60 * SECOND
DAY: Final = 1440 * MINUTE
MICRO, MILLI = 1_000, 1_000_000


def plain_values(
    values: list[Any],
    column: Column,
    schemas: Sequence[dict[str, Any] | None],
    *,
    encoded: bool = True,
) -> list[Any]:
    """Return the values of one column as JSON would have them, each with the schema of its row.

    `encoded`: without a schema Debezium's default encodings apply; otherwise values are plain JSON.
    Errs: a value that does not fit its encoding is `Broken`. Without a schema a value that is not
    encoded at all (a text in a date column) is unchanged, and is judged like any other value.
    """
    by_type = _by_type(column.type)
    fallback = by_type if encoded else None
    if fallback is None and all(schema is None for schema in schemas):
        return values
    made: dict[str, Convert | None] = {}
    result: list[Any] = []
    for value, schema in zip(values, schemas, strict=True):
        if value is None:
            result.append(None)
            continue
        convert = fallback
        if schema is not None and column.name in schema:
            field = schema[column.name]
            known = repr(field)
            if known not in made:
                made[known] = _of_field(field, by_type, column.type)
            convert = made[known]
        result.append(value if convert is None else _tried(convert, value))
    return result


def _tried(convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except (ValueError, OverflowError, TypeError, ArithmeticError, Base64Error, KeyError):
        return Broken(value)


def _by_type(kind: ColumnType) -> Convert | None:
    """Return a function that decodes a value without a schema; None: it is plain."""
    if kind.kind in (Kind.ARRAY, Kind.LIST) and kind.element is not None:
        return _each(_by_type(kind.element))
    if kind.kind is Kind.MAP and kind.element is not None:
        return _every_value(_by_type(kind.element))
    if kind.kind is Kind.RECORD:
        return _parts({field.name: _by_type(field.type) for field in kind.fields})
    return _BY_KIND.get(kind.kind)


def _each(convert: Convert | None) -> Convert | None:
    """Return a function that converts the items of a list."""
    if convert is None:
        return None

    def items(value: Any) -> Any:
        if type(value) is not list:
            return value
        return [None if item is None else convert(item) for item in value]

    return items


def _every_value(convert: Convert | None) -> Convert | None:
    """Return a function that converts the values of an object."""
    if convert is None:
        return None

    def values(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {key: None if part is None else convert(part) for key, part in value.items()}

    return values


def _parts(converts: Mapping[str, Convert | None]) -> Convert | None:
    """Return a function that converts the fields of an object."""
    known = {name: convert for name, convert in converts.items() if convert is not None}
    if not known:
        return None

    def parts(value: Any) -> Any:
        if type(value) is not dict:
            return value
        found = {n: known[n](part) for n, part in value.items() if n in known and part is not None}
        return {**value, **found}

    return parts


def _of_field(field: Any, fallback: Convert | None, kind: ColumnType) -> Convert | None:
    """Return the result of `_by_schema`; for an invalid schema, what breaks every value."""
    try:
        return _by_schema(field, fallback, kind)
    except (AttributeError, TypeError, ValueError):
        return Broken


def _by_schema(field: dict[str, Any], fallback: Convert | None, kind: ColumnType) -> Convert | None:
    name = field.get("name")
    if field.get("type") == "array" and kind.element is not None:
        element = kind.element
        return _each(_by_schema(field.get("items") or {}, _by_type(element), element))
    if name == "org.apache.kafka.connect.data.Decimal":
        scale = int(_scale(field))
        return lambda value: _decimal(value, scale) if type(value) is str else value
    if name in _COUNTS:
        return _counted(None if fallback is _json else _COUNTS[name])
    if fallback is _json:  # the text of a json value is JSON, that of a text is not
        return _json if name == "io.debezium.data.Json" else None
    if name in _BY_NAME:
        return _BY_NAME[name]
    if field.get("type") == "struct" and kind.kind is Kind.RECORD:
        of_fields = {part.get("field"): part for part in field.get("fields") or ()}
        return _parts(
            {
                part.name: _by_schema(
                    of_fields.get(part.name) or {}, _by_type(part.type), part.type
                )
                for part in kind.fields
            }
        )
    if field.get("type") == "map" and kind.kind is Kind.MAP and kind.element is not None:
        element = kind.element
        return _every_value(_by_schema(field.get("values") or {}, _by_type(element), element))
    if field.get("type") == "bytes":
        return _bytes
    if field.get("type") == "string" and kind.kind is Kind.BYTES:
        return Broken  # hexadecimal or base64: it is unknown which
    return None


def _scale(field: dict[str, Any]) -> Any:
    return (field.get("parameters") or {}).get("scale", 0)


def _decimal(text: str, scale: int) -> NumberText:
    """Return a decimal with all its digits, of any number."""
    data = b64decode(text, validate=True)
    if not data:
        raise ValueError("a decimal without bytes")
    return NumberText(f"{int.from_bytes(data, 'big', signed=True)}E{-scale}")


def _variable_decimal(value: Any) -> NumberText:
    return _decimal(value["value"], int(value["scale"]))


def _numeric(value: Any) -> Any:
    return _variable_decimal(value) if isinstance(value, dict) else value


def as_integer(value: Any) -> int | None:
    """Return an integer; None for any other value."""
    if type(value) is int:
        return value
    return int(value) if type(value) is NumberText else None


def _days(value: Any) -> Any:
    days = as_integer(value)
    return value if days is None else (DAY_ZERO + timedelta(days=days)).isoformat()


def _moment(unit: int) -> Convert:
    """Return a function from a count of `unit` nanoseconds since 1970 to a timestamp."""

    def convert(value: Any) -> Any:
        count = as_integer(value)
        if count is None:
            return value
        return (EPOCH + timedelta(microseconds=_exactly(count * unit, 1000))).isoformat()

    return convert


def _time(unit: int) -> Convert:
    """Return a function from a count of `unit` nanoseconds since midnight to a time of day."""

    def convert(value: Any) -> Any:
        count = as_integer(value)
        if count is None:
            return value
        nanos = count * unit
        if not 0 <= nanos < DAY:
            raise ValueError("not within a day")
        minutes, rest = divmod(nanos, MINUTE)
        seconds, part = divmod(rest, SECOND)
        return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{part:09}"

    return convert


def _counted(convert: Convert | None) -> Convert:
    """Return a function that accepts nothing but counts, as the schema does, and converts them."""

    def count(value: Any) -> Any:
        if as_integer(value) is None:
            return Broken(value)
        return value if convert is None else convert(value)

    return count


def _exactly(number: int, unit: int) -> int:
    """Return how many times `unit` divides a number. Raises: ValueError if there is a remainder.

    A timestamp is stored in microseconds.
    """
    count, rest = divmod(number, unit)
    if rest:
        raise ValueError("finer than what is stored")
    return count


def _json(value: Any) -> Any:
    return Text(value) if type(value) is str else value


def _bytes(value: Any) -> Any:
    return b64decode(value, validate=True) if type(value) is str else value


_DEBEZIUM: Final = "io.debezium.time."
_CONNECT: Final = "org.apache.kafka.connect.data."
_COUNTS: Final[dict[str, Convert]] = {
    f"{_DEBEZIUM}Date": _days,
    f"{_CONNECT}Date": _days,
    f"{_DEBEZIUM}Timestamp": _moment(MILLI),
    f"{_CONNECT}Timestamp": _moment(MILLI),
    f"{_DEBEZIUM}MicroTimestamp": _moment(MICRO),
    f"{_DEBEZIUM}NanoTimestamp": _moment(1),
    f"{_DEBEZIUM}Time": _time(MILLI),
    f"{_CONNECT}Time": _time(MILLI),
    f"{_DEBEZIUM}MicroTime": _time(MICRO),
    f"{_DEBEZIUM}NanoTime": _time(1),
}
_BY_NAME: Final[dict[str, Convert]] = {
    "io.debezium.data.VariableScaleDecimal": _variable_decimal,
}
_BY_KIND: Final[dict[Kind, Convert]] = {
    Kind.DATE: _days,
    Kind.TIMESTAMP: _moment(MICRO),
    Kind.TIMESTAMPTZ: _moment(MICRO),
    Kind.TIME: _time(MICRO),
    Kind.NUMERIC: _numeric,
    Kind.BYTES: _bytes,
    Kind.JSONB: _json,
}
