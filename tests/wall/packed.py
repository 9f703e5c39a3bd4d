"""ORC and Avro files of hostile typed values."""

import io
from collections.abc import Sequence
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.orc as po

from tests.wall.rows import File, Row
from tests.wall.sources import numbered, table_of

FOREIGN: Final = (
    pa.types.is_unsigned_integer,
    pa.types.is_decimal256,
    pa.types.is_time,
    pa.types.is_duration,
    pa.types.is_date64,
    pa.types.is_large_string,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)
AVRO: Final[dict[Any, Any]] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    pa.timestamp("ms", "UTC"): {"type": "long", "logicalType": "timestamp-millis"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("ms"): {"type": "long", "logicalType": "local-timestamp-millis"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}
NANOS: Final = 2**63 - 1


def orc_holds(arrow_type: pa.DataType) -> bool:
    """Tell whether ORC has a column of an Arrow type."""
    inner = [arrow_type.field(n).type for n in range(arrow_type.num_fields)]
    return not any(belongs(arrow_type) for belongs in FOREIGN) and all(map(orc_holds, inner))


def orc_file(name: str, rows: Sequence[Row], arrow_type: pa.DataType) -> File | None:
    """Write rows as ORC; None where Arrow cannot."""
    sink = io.BytesIO()
    try:
        po.write_table(table_of(rows, arrow_type), sink)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
        return None
    return File(name, sink.getvalue(), numbered(name, rows))


def avro_schema(arrow_type: pa.DataType, names: Any = None) -> Any:
    """Return the Avro schema of an Arrow type, None if it has none."""
    names = iter(range(1000)) if names is None else names
    if arrow_type in AVRO:
        return ["null", AVRO[arrow_type]]
    if pa.types.is_decimal128(arrow_type):
        precision, scale = arrow_type.precision, arrow_type.scale
        kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        return ["null", kind]
    inner = [avro_schema(arrow_type.field(n).type, names) for n in range(arrow_type.num_fields)]
    if None in inner:
        return None
    if pa.types.is_list(arrow_type):
        return ["null", {"type": "array", "items": inner[0]}]
    if pa.types.is_map(arrow_type):
        items = avro_schema(arrow_type.item_type, names)
        return None if items is None else ["null", {"type": "map", "values": items}]
    if pa.types.is_struct(arrow_type):
        fields = [{"name": arrow_type.field(n).name, "type": one} for n, one in enumerate(inner)]
        return ["null", {"type": "record", "name": f"r{next(names)}", "fields": fields}]
    return None


def avro_holds(arrow_type: pa.DataType) -> bool:
    """Tell whether Avro has a column of an Arrow type."""
    return avro_schema(arrow_type) is not None


def avro_file(name: str, rows: Sequence[Row], arrow_type: pa.DataType) -> File:
    """Write rows as Avro."""
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": avro_schema(arrow_type)}]
    sink = io.BytesIO()
    records = [{"id": row.id, "v": row.cell[1]} for row in rows]
    schema = {"type": "record", "name": "row", "fields": fields}
    fastavro.writer(sink, schema, [*records, {"id": 0, "v": None}])
    return File(name, sink.getvalue(), numbered(name, rows))


def as_avro(value: Any, arrow_type: pa.DataType) -> Any:
    """Return a value with its maps as Python's, in which no key is twice."""
    if value is None:
        return None
    if pa.types.is_map(arrow_type):
        return {key: as_avro(item, arrow_type.item_type) for key, item in value}
    if pa.types.is_list(arrow_type):
        return [as_avro(item, arrow_type.value_type) for item in value]
    if pa.types.is_struct(arrow_type):
        return {field.name: as_avro(value[field.name], field.type) for field in arrow_type}
    return value


def is_near(value: Any, arrow_type: pa.DataType) -> bool:
    """Tell whether the timestamps in a value are nanoseconds of int64: Arrow reads no other ORC."""
    if value is None:
        return True
    if pa.types.is_timestamp(arrow_type):
        ticks = value if isinstance(value, int) else None
        unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[arrow_type.unit]
        return ticks is None or abs(ticks * unit) < 2**63
    if pa.types.is_map(arrow_type):
        return all(is_near(item, arrow_type.item_type) for _, item in value)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return all(is_near(item, arrow_type.value_type) for item in value)
    if pa.types.is_struct(arrow_type):
        return all(is_near(value.get(f.name), f.type) for f in arrow_type)
    return True
