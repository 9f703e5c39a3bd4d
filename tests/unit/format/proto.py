"""The row codec's slow twin: the protobuf library, one row at a time.

The messages are built here from the table in docs/format.md and nothing else, so that a wrong
number in the fast codec shows.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from strata.model.types import ColumnType, Kind

Physical = int | bytes | None

F = descriptor_pb2.FieldDescriptorProto
INT32, INT64, UINT32 = F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT32
FLOAT, DOUBLE, BYTES, STRING, MESSAGE = (
    F.TYPE_FLOAT, F.TYPE_DOUBLE, F.TYPE_BYTES, F.TYPE_STRING, F.TYPE_MESSAGE,
)  # fmt: skip

MESSAGES: Final = {
    "ProtoRow": [("datums", 1, MESSAGE, ".s.ProtoDatum")],
    "ProtoDatum": [
        ("other", 1, INT32, ""),  # an enum on paper; the bytes are the same
        ("int16", 2, INT32, ""),
        ("int32", 3, INT32, ""),
        ("int64", 4, INT64, ""),
        ("float32", 5, FLOAT, ""),
        ("float64", 6, DOUBLE, ""),
        ("bytes", 7, BYTES, ""),
        ("string", 8, STRING, ""),
        ("date", 16, MESSAGE, ".s.ProtoNaiveDate"),
        ("timestamp", 18, MESSAGE, ".s.ProtoNaiveDateTime"),
        ("timestamp_tz", 19, MESSAGE, ".s.ProtoNaiveDateTime"),
        ("numeric", 24, MESSAGE, ".s.ProtoNumeric"),
    ],
    "ProtoNaiveDate": [("year", 1, INT32, ""), ("ordinal", 2, UINT32, "")],
    "ProtoNaiveTime": [("secs", 1, UINT32, ""), ("frac", 2, UINT32, "")],
    "ProtoNaiveDateTime": [
        ("date", 1, MESSAGE, ".s.ProtoNaiveDate"),
        ("time", 2, MESSAGE, ".s.ProtoNaiveTime"),
    ],
    "ProtoNumeric": [("bcd", 1, BYTES, ""), ("scale", 2, INT32, "")],
}
FIELDS: Final = {
    Kind.INT16: "int16", Kind.INT32: "int32", Kind.INT64: "int64", Kind.BYTES: "bytes",
    Kind.DATE: "date", Kind.TIMESTAMP: "timestamp", Kind.TIMESTAMPTZ: "timestamp_tz",
    Kind.NUMERIC: "numeric",
}  # fmt: skip


def _row_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="s", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "ProtoDatum":
            message.oneof_decl.add(name="kind")
        for field_name, number, kind, type_name in fields:
            label = F.LABEL_REPEATED if field_name == "datums" else F.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, type=kind, label=label)
            if type_name:
                field.type_name = type_name
            if name == "ProtoDatum":
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("s.ProtoRow"))


Row: Final = _row_class()


def encode_row(values: Sequence[Physical], types: Sequence[ColumnType]) -> bytes:
    """Return one row of physical values (see tests.unit.format.values) as protobuf bytes."""
    row = Row()
    for value, column_type in zip(values, types, strict=True):
        _set(row.datums.add(), value, column_type)
    return bytes(row.SerializeToString(deterministic=True))


def _set(datum: Any, value: Physical, column_type: ColumnType) -> None:
    kind = column_type.kind
    if value is None:
        datum.other = 1
    elif kind is Kind.BOOL:
        datum.other = 3 if value else 2
    elif kind in (Kind.FLOAT32, Kind.FLOAT64):
        _set_float(datum, int(value), kind)
    elif kind in (Kind.STRING, Kind.JSONB):
        assert isinstance(value, bytes)
        datum.string = value.decode()
    elif kind is Kind.DATE:
        _set_date(datum.date, int(value))
    elif kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        message = getattr(datum, FIELDS[kind])
        days, in_day = divmod(int(value), 86_400_000_000)
        message.time.SetInParent()
        _set_date(message.date, days)
        message.time.secs, micros = divmod(in_day, 1_000_000)
        message.time.frac = micros * 1000
    elif kind is Kind.NUMERIC:
        text = str(abs(int(value))) + ("d" if int(value) < 0 else "c")
        datum.numeric.bcd = bytes.fromhex(text.zfill(len(text) + len(text) % 2))
        datum.numeric.scale = column_type.scale or 0
    else:
        setattr(datum, FIELDS[kind], value)


def _set_float(datum: Any, bits: int, kind: Kind) -> None:
    import struct

    if kind is Kind.FLOAT32:
        (datum.float32,) = struct.unpack("<f", bits.to_bytes(4, "little"))
    else:
        (datum.float64,) = struct.unpack("<d", bits.to_bytes(8, "little"))


def _set_date(message: Any, days: int) -> None:
    # Python knows the years 1 to 9999; the calendar repeats every 400 years.
    cycles, rest = divmod(days, 146_097)
    day = date(1970, 1, 1).fromordinal(719_163 + rest)
    message.SetInParent()
    message.year = day.year + 400 * cycles
    message.ordinal = day.timetuple().tm_yday
