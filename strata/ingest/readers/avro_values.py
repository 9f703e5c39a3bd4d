"""Converts Avro values to Arrow, without fastavro's own conversion of logical types.

fastavro (1.12) rounds a decimal that has more digits than its schema says, and stops reading at a
time beyond Python's range. So the logical types are removed from the schema in the file's header
before the records are read, and this module applies them, one value at a time. A schema may name a
type instead of repeating it; so it is written out first, and each use has its logical types.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS

from strata.ingest.readers.source import Raw
from strata.ingest.values.exact_json import NumberText
from strata.ingest.values.literals import Broken
from strata.ingest.values.shown import FAILS

MOST_DIGITS, WIDE_DIGITS = 38, 76  # of Arrow's decimals
DURATION: Final = pa.binary(12)  # months, days and milliseconds
SCHEMA: Final = "avro.schema"
META: Final = {"type": "map", "values": "bytes"}
HEADER: Final[dict[str, Any]] = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": META},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}
PLAIN: Final[dict[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
LOGICAL: Final[dict[str, pa.DataType]] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    **{
        f"{local}timestamp-{name}": pa.timestamp(unit, None if local else "UTC")
        for local in ("", "local-")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
    "uuid": pa.string(),
}
FIXED: Final = {("duration", 12): DURATION, ("uuid", 16): pa.binary(16)}
# What each stands on; on another type a logical type means nothing, as Avro's specification says.
STORED_AS: Final = {"date": "int", "time-millis": "int", "uuid": "string"}  # the others: long
NAMED: Final = ("record", "error", "enum", "fixed")
TYPES_MAX: Final = 100_000  # in a schema that is written out
EXACT: Final = "strata-decimal"  # stands for the logical type of decimals, which fastavro rounds


def _nanos(zone: str, value: int, *_: object) -> str:
    """Return nanoseconds since 1970 as the text that Arrow's would have in JSON."""
    whole, rest = divmod(value, 10**9)
    text = (datetime(1970, 1, 1) + timedelta(seconds=whole)).isoformat()  # noqa: DTZ001 - no zone
    places = f".{rest:09}".removesuffix("000") if rest else ""
    return f"{text}{places}{zone}"


def _exactly(data: Any, schema: dict[Any, Any] | None, *_: object) -> Decimal | Broken:
    return _decimal(data, (schema or {}).get("scale", 0)) if data else Broken(data)


# fastavro does not know these, and would make numbers or bytes of them; it asks for others here.
LOGICAL_READERS[f"bytes-{EXACT}"] = LOGICAL_READERS[f"fixed-{EXACT}"] = _exactly
LOGICAL_READERS["long-timestamp-nanos"] = partial(_nanos, "+00:00")
LOGICAL_READERS["long-local-timestamp-nanos"] = partial(_nanos, "")


def written_out(schema: Any) -> Any:
    """Return a parsed schema with each type where it is used, under a name of its own.

    A type that contains itself is named inside of itself.
    Raises: ValueError for a few names that stand for very many types.
    """
    known: dict[str, Any] = {}
    numbers = iter(range(TYPES_MAX))

    def walk(part: Any, inside: Mapping[str, str]) -> Any:
        if isinstance(part, list):
            return [walk(one, inside) for one in part]
        if isinstance(part, str):
            return inside.get(part) or (walk(known[part], inside) if part in known else part)
        number = next(numbers, None)
        if number is None:
            raise ValueError("the names of its types stand for too many types")
        if part["type"] in NAMED:
            known[part["name"]] = part
            inside = {**inside, part["name"]: f"n{number}"}
            part = {**part, "name": f"n{number}"}
        return {key: read(value, inside) for key, value in part.items() if (read := reads.get(key))}

    def fields(found: Any, inside: Mapping[str, str]) -> Any:
        return [{"name": one["name"], "type": walk(one["type"], inside)} for one in found]

    def same(value: Any, inside: Mapping[str, str]) -> Any:
        return value

    reads: dict[str, Callable[[Any, Mapping[str, str]], Any]] = {
        **dict.fromkeys(("name", "size", "symbols", "logicalType", "precision", "scale"), same),
        **dict.fromkeys(("type", "items", "values"), walk),
        "fields": fields,
    }
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return schema
    known[schema["name"]] = schema
    return {"type": "record", "name": "n", "fields": fields(schema["fields"], {})}


def without_logical(data: bytes, schema: Any) -> bytes:
    """Return an Avro file with the same records, whose schema says only how they are stored.

    `schema`: the file's, written out. In a column for which Arrow has no type the logical types
    stay: its values are read without theirs, and only they distinguish a time from a number, and
    a decimal from bytes. UUIDs are texts there, too.
    Raises: what fastavro raises for an invalid header.
    """
    stream = io.BytesIO(data)
    header: Any = fastavro.schemaless_reader(stream, HEADER, None)
    header["meta"][SCHEMA] = json.dumps(_stored_columns(schema)).encode()
    out = io.BytesIO()
    fastavro.schemaless_writer(out, HEADER, header)
    return out.getvalue() + data[stream.tell() :]


def _stored_columns(schema: Any) -> Any:
    if not isinstance(schema, dict) or "fields" not in schema:
        return schema
    fields = [
        {**one, "type": _stored(one["type"], odd=_known(one["type"], MOST_DIGITS) is None)}
        for one in schema["fields"]
    ]
    return {**schema, "fields": fields}


def _stored(schema: Any, *, odd: bool) -> Any:
    """Return a schema without logical types; `odd`: Arrow has no type for its column."""
    if isinstance(schema, list):
        return [_stored(one, odd=odd) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _stored(part, odd=odd) for name, part in schema.items()}
    logical = kept.pop("logicalType", None)
    if not odd or logical in {None, "uuid"}:
        return kept
    return {**kept, "logicalType": EXACT if logical == "decimal" else logical}


def column(values: list[Any], schema: Any) -> Raw:
    """Return a column as an Arrow array, or as objects if Arrow has no array of Avro's type."""
    for digits in (MOST_DIGITS, WIDE_DIGITS):
        kind = _known(schema, digits)
        if kind is None:
            break
        try:
            return pa.array([_decoded(value, kind) for value in values], kind)
        except FAILS:
            continue
    return [
        _object(value if kind is None else _decoded(value, kind, moments=True)) for value in values
    ]


def _known(schema: Any, digits: int) -> pa.DataType | None:
    """Return the Arrow type of a schema; None also for an invalid schema."""
    try:
        return arrow_of(schema, digits)
    except FAILS:
        return None


def arrow_of(schema: Any, digits: int = MOST_DIGITS) -> pa.DataType | None:
    """Return the Arrow type of an Avro schema; None for unions of several types and names.

    `digits`: the least precision of a decimal, even if its schema says less.
    """
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        return arrow_of(others[0], digits) if len(others) == 1 else None
    if isinstance(schema, str):
        return PLAIN.get(schema)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema["precision"], schema.get("scale", 0)
        wide = max(precision, digits) > MOST_DIGITS
        return pa.decimal256(WIDE_DIGITS, scale) if wide else pa.decimal128(precision, scale)
    if logical in LOGICAL and kind == STORED_AS.get(logical, "long"):
        return LOGICAL[logical]
    if kind == "fixed" and (logical, schema.get("size")) in FIXED:
        return FIXED[logical, schema["size"]]
    makers: dict[str, Callable[[], pa.DataType | None]] = {
        "array": lambda: _nested(pa.list_, schema["items"], digits),
        "map": lambda: _nested(lambda v: pa.map_(pa.string(), v), schema["values"], digits),
        "record": lambda: _record(schema["fields"], digits),
    }
    if isinstance(kind, str) and kind in makers:
        return makers[kind]()
    return arrow_of(kind, digits) if not isinstance(kind, str) else PLAIN.get(kind)


def _nested(
    make: Callable[[pa.DataType], pa.DataType], inner: Any, digits: int
) -> pa.DataType | None:
    kind = arrow_of(inner, digits)
    return None if kind is None else make(kind)


def _record(fields: Sequence[dict[str, Any]], digits: int) -> pa.DataType | None:
    kinds = [(field["name"], arrow_of(field["type"], digits)) for field in fields]
    return None if any(kind is None for _, kind in kinds) else pa.struct(kinds)


def _decoded(value: Any, kind: pa.DataType, *, moments: bool = False) -> Any:
    """Return a value with its decimals from their bytes.

    `moments`: times are no numbers either; else an array of the type makes times of them.
    Errs: a decimal without bytes is `Broken`, which Arrow and columns do not accept, and so is a
    time that Python does not have.
    """
    inner = partial(_decoded, moments=moments)
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return _decimal(value, kind.scale) if value else Broken(value)
    if pa.types.is_map(kind):
        return {key: inner(item, kind.item_type) for key, item in value.items()}
    if pa.types.is_list(kind):
        return [inner(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: inner(value[field.name], field.type) for field in kind}
    return _moment(value, kind) if moments and pa.types.is_temporal(kind) else value


def _moment(value: Any, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(value, kind).as_py()
    except FAILS:
        return Broken(str(value))


def _decimal(data: bytes, scale: int) -> Decimal:
    """Return the number in the bytes of a decimal, with all its digits."""
    unscaled = int.from_bytes(data, "big", signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _object(value: Any) -> Any:
    """Return a value as JSON would have it; bytes, and numbers that JSON lacks, stay unchanged.

    A time becomes its text, because a union does not say which of its types is meant.
    """
    if isinstance(value, dict):
        return {key: _object(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_object(item) for item in value]
    if isinstance(value, Decimal):
        return NumberText(format(value, "f"))
    if value is None or isinstance(value, bool | int | float | str | bytes | Broken):
        return value
    isoformat = getattr(value, "isoformat", None)
    return str(value) if isoformat is None else isoformat()
