"""Read Avro object container files: columns by name, values as their logical types say."""

import io
import lzma
import zlib
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import fastavro
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException

from strata.errors import InvalidRequest
from strata.ingest.cast import Rows
from strata.ingest.files import SourceFile, read_bytes
from strata.ingest.kept import convert, keep_row, shown_raw
from strata.ingest.shown import FAILS, json_text
from strata.ingest.source import Located, Raw, RawFile, check_columns

DAMAGED: Final = (  # what a damaged file raises
    *FAILS, EOFError, zlib.error, lzma.LZMAError, SchemaParseException, SchemaResolutionError,
)  # fmt: skip
BLOCK_BYTES: Final = 256 << 20  # of a block, unpacked
BLOCK_ROWS: Final = 10_000_000
SYNC_BYTES: Final = 16  # behind each block
_PLAIN: Final[dict[str, pa.DataType]] = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
    "enum": pa.string(), "fixed": pa.binary(),
}  # fmt: skip
_LOGICAL: Final[dict[str, pa.DataType]] = {
    "date": pa.date32(), "time-millis": pa.time64("us"), "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"), "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"), "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}  # fmt: skip


def read_avro(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return the columns `names`; `locate` counts records from 1 in place of lines.

    Those that are `optional` may be missing.

    Raises: InvalidRequest for a file that is no Avro or whose fields are not the declared.
    Cost: the file, or piece of it, in memory, as Python objects.
    """
    schema, records = avro_records(source)
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    check_columns(source.name, list(fields), names, optional=optional)
    columns = {
        name: _column([record[name] for record in records], fields[name])
        for name in names
        if name in fields
    }

    def locate(rows: Rows) -> list[Located]:
        return [(int(row) + source.before + 1, json_text(records[row])) for row in rows]

    return RawFile(
        file=source.name,
        count=len(records),
        columns=columns,
        convert=convert,
        shown=shown_raw,
        locate=locate,
        keep=keep_row,
    )


def avro_records(source: SourceFile) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the writer's schema, names resolved, and the records of a file.

    Raises: InvalidRequest for a file that is no Avro, or not of records.
    """
    data = read_bytes(source)
    _check_blocks(source, data)
    try:
        reader = fastavro.reader(io.BytesIO(data))
        schema: Any = reader.writer_schema
        records: Any = list(reader)
    except DAMAGED as error:
        raise _unreadable(source, str(error)) from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _unreadable(source, "its schema is no record")
    return schema, records


def _check_blocks(source: SourceFile, data: bytes) -> None:
    """Refuse blocks that hold more than a reader could: few bytes may unpack to any size.

    Raises: InvalidRequest.
    """
    header, blocks = avro_layout(source, io.BytesIO(data), stop=len(data))
    packed = b"avro.codec\x0edeflate" in header
    for start, stop, rows in blocks:
        size = stop - start
        if packed:
            stream = io.BytesIO(data[start:stop])
            _long(stream), _long(stream)
            unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                size = len(unpacking.decompress(stream.read(), BLOCK_BYTES + 1))
            except zlib.error as error:
                raise _unreadable(source, str(error)) from error
        if size > BLOCK_BYTES or rows > BLOCK_ROWS:
            raise InvalidRequest(
                "a block of the file holds too much",
                file=source.name, byte=start, rows=rows, most_rows=BLOCK_ROWS,
                most_bytes=BLOCK_BYTES, cure="write it with smaller blocks",
            )  # fmt: skip


def avro_layout(
    source: SourceFile, stream: Any, start: int = 0, stop: int | None = None
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return the header, and where each block with a byte at or behind `start` begins and ends.

    Shape: (first byte, byte behind, records) each, up to `stop`.
    Raises: InvalidRequest for a file that is no Avro, or ends within a block.
    Cost: reads the header, and some bytes of each block.
    """
    try:
        fastavro.reader(stream)
        first = stream.tell()
        stream.seek(0)
        header: bytes = stream.read(first)
        blocks = []
        at = max(first, start)
        end = source.size_bytes if stop is None else stop
        while at < end:
            stream.seek(at)
            rows, size = _long(stream), _long(stream)
            behind = stream.tell() + size + SYNC_BYTES
            if rows < 0 or size < 0 or behind > end:
                raise EOFError("a block ends behind the file")
            blocks.append((at, behind, rows))
            at = behind
    except DAMAGED as error:
        raise _unreadable(source, str(error)) from error
    return header, blocks


def _long(stream: Any) -> int:
    """Read a number of Avro: seven bits a byte, the lowest first, zigzag."""
    value = shift = 0
    while byte := bytes(stream.read(1)):
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
    raise EOFError("the file ends within a number")


def _unreadable(source: SourceFile, reason: str) -> InvalidRequest:
    return InvalidRequest(
        "not a readable Avro file", file=source.name, reason=reason, cure="check source.format"
    )


def arrow_of(schema: Any) -> pa.DataType | None:
    """Return the Arrow type of an Avro schema; None for unions of several types and names."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        return arrow_of(others[0]) if len(others) == 1 else None
    if isinstance(schema, str):
        return _PLAIN.get(schema)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    makers: dict[str, Callable[[], pa.DataType | None]] = {
        "array": lambda: _nested(pa.list_, schema["items"]),
        "map": lambda: _nested(lambda values: pa.map_(pa.string(), values), schema["values"]),
        "record": lambda: _record(schema["fields"]),
    }
    if isinstance(kind, str) and kind in makers:
        return makers[kind]()
    return arrow_of(kind) if not isinstance(kind, str) else _PLAIN.get(kind)


def _nested(make: Callable[[pa.DataType], pa.DataType], inner: Any) -> pa.DataType | None:
    kind = arrow_of(inner)
    return None if kind is None else make(kind)


def _record(fields: Sequence[dict[str, Any]]) -> pa.DataType | None:
    kinds = [(field["name"], arrow_of(field["type"])) for field in fields]
    return None if any(kind is None for _, kind in kinds) else pa.struct(kinds)


def _column(values: list[Any], schema: Any) -> Raw:
    """Return a column as an Arrow array, or as objects where Avro's type has no such array."""
    kind = _known(schema)
    if kind is not None:
        try:
            return pa.array([_arrow_value(value, kind) for value in values], kind)
        except FAILS:
            pass
    return [_object(value) for value in values]


def _known(schema: Any) -> pa.DataType | None:
    """Return the Arrow type of a schema; None also for one that says it wrongly."""
    try:
        return arrow_of(schema)
    except FAILS:
        return None


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    """Return a value as Arrow takes it: maps as pairs, uuids as text."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _arrow_value(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [_arrow_value(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _arrow_value(value[field.name], field.type) for field in kind}
    return str(value) if pa.types.is_string(kind) else value


def _object(value: Any) -> Any:
    """Return a value as JSON would have it; bytes, and numbers that JSON lacks, stay what they are.

    A time becomes its text: of a union nobody says which of its types is meant.
    """
    if isinstance(value, dict):
        return {key: _object(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_object(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    isoformat = getattr(value, "isoformat", None)
    return str(value) if isoformat is None else isoformat()
