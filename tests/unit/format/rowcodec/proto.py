"""The row codec's slow twin: the protobuf library, one row at a time.

The messages are built here from the table in docs/reference/format.md and nothing else, so that a
wrong number in the fast codec shows.
"""

import struct
from collections.abc import Sequence
from datetime import date
from decimal import localcontext
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from strata.model.types import ColumnType, Kind
from tests.support.values import unpack_decimal

Physical = int | bytes | None

F = descriptor_pb2.FieldDescriptorProto
INT32, INT64, UINT32, UINT64, BOOL = (
    F.TYPE_INT32,
    F.TYPE_INT64,
    F.TYPE_UINT32,
    F.TYPE_UINT64,
    F.TYPE_BOOL,
)
FLOAT, DOUBLE, BYTES, STRING, MESSAGE = (
    F.TYPE_FLOAT,
    F.TYPE_DOUBLE,
    F.TYPE_BYTES,
    F.TYPE_STRING,
    F.TYPE_MESSAGE,
)

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
        ("time", 17, MESSAGE, ".s.ProtoNaiveTime"),
        ("timestamp", 18, MESSAGE, ".s.ProtoNaiveDateTime"),
        ("timestamp_tz", 19, MESSAGE, ".s.ProtoNaiveDateTime"),
        ("interval", 20, MESSAGE, ".s.ProtoInterval"),
        ("array", 21, MESSAGE, ".s.ProtoArray"),
        ("list", 22, MESSAGE, ".s.ProtoRow"),
        ("dict", 23, MESSAGE, ".s.ProtoDict"),
        ("numeric", 24, MESSAGE, ".s.ProtoNumeric"),
        ("uuid", 25, BYTES, ""),
        ("uint32", 26, UINT32, ""),
        ("uint8", 27, UINT32, ""),
        ("uint16", 28, UINT32, ""),
        ("uint64", 29, UINT64, ""),
        ("mz_timestamp", 30, UINT64, ""),
        ("range", 31, MESSAGE, ".s.ProtoRange"),
        ("mz_acl_item", 32, MESSAGE, ".s.ProtoMzAclItem"),
        ("acl_item", 33, MESSAGE, ".s.ProtoAclItem"),
    ],
    "ProtoInterval": [("months", 1, INT32, ""), ("days", 2, INT32, ""), ("micros", 3, INT64, "")],
    "ProtoArray": [
        ("elements", 1, MESSAGE, ".s.ProtoRow"),
        ("dims", 2, MESSAGE, ".s.ProtoArrayDimension"),
    ],
    "ProtoArrayDimension": [("lower_bound", 1, INT64, ""), ("length", 2, UINT64, "")],
    "ProtoDict": [("elements", 1, MESSAGE, ".s.ProtoDictElement")],
    "ProtoDictElement": [("key", 1, STRING, ""), ("val", 2, MESSAGE, ".s.ProtoDatum")],
    "ProtoRange": [("inner", 1, MESSAGE, ".s.ProtoRangeInner")],
    "ProtoRangeInner": [
        ("lower_inclusive", 1, BOOL, ""),
        ("lower", 2, MESSAGE, ".s.ProtoDatum"),
        ("upper_inclusive", 3, BOOL, ""),
        ("upper", 4, MESSAGE, ".s.ProtoDatum"),
    ],
    "ProtoAclMode": [("bitflags", 1, UINT64, "")],
    "ProtoAclItem": [
        ("grantee", 1, UINT32, ""),
        ("grantor", 2, UINT32, ""),
        ("acl_mode", 3, MESSAGE, ".s.ProtoAclMode"),
    ],
    "ProtoMzAclItem": [
        ("grantee", 1, MESSAGE, ".s.ProtoRoleId"),
        ("grantor", 2, MESSAGE, ".s.ProtoRoleId"),
        ("acl_mode", 3, MESSAGE, ".s.ProtoAclMode"),
    ],
    "ProtoEmpty": [],
    "ProtoRoleId": [
        ("system", 1, UINT64, ""),
        ("user", 2, UINT64, ""),
        ("public", 3, MESSAGE, ".s.ProtoEmpty"),
        ("predefined", 4, UINT64, ""),
    ],
    "ProtoNaiveDate": [("year", 1, INT32, ""), ("ordinal", 2, UINT32, "")],
    "ProtoNaiveTime": [("secs", 1, UINT32, ""), ("frac", 2, UINT32, "")],
    "ProtoNaiveDateTime": [
        ("date", 1, MESSAGE, ".s.ProtoNaiveDate"),
        ("time", 2, MESSAGE, ".s.ProtoNaiveTime"),
    ],
    "ProtoNumeric": [("bcd", 1, BYTES, ""), ("scale", 2, INT32, "")],
}
REPEATED: Final = {"datums", "dims", ("ProtoDict", "elements")}
ONEOFS: Final = {"ProtoDatum", "ProtoRoleId"}
ROLES: Final = {100: "system", 200: "predefined", 300: "user"}
FIELDS: Final = {
    Kind.INT16: "int16",
    Kind.INT32: "int32",
    Kind.INT64: "int64",
    Kind.BYTES: "bytes",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMPTZ: "timestamp_tz",
    Kind.NUMERIC: "numeric",
}


def _row_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="s", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name in ONEOFS:
            message.oneof_decl.add(name="kind")
        for field_name, number, kind, type_name in fields:
            many = field_name in REPEATED or (name, field_name) in REPEATED
            label = F.LABEL_REPEATED if many else F.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, type=kind, label=label)
            if type_name:
                field.type_name = type_name
            if name in ONEOFS:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("s.ProtoRow"))


Row: Final = _row_class()


def encode_row(values: Sequence[Physical], types: Sequence[ColumnType]) -> bytes:
    """Return one row of physical values (see tests.support.plain) as protobuf bytes."""
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


def encode_plain(values: Sequence[Any], types: Sequence[ColumnType]) -> bytes:
    """Return one row of plain values (see tests.support.values) as protobuf bytes."""
    row = Row()
    for value, column_type in zip(values, types, strict=True):
        _set_plain(row.datums.add(), value, column_type)
    return bytes(row.SerializeToString(deterministic=True))


def _set_plain(datum: Any, value: Any, column_type: ColumnType) -> None:  # noqa: C901 -- cases
    """Set a datum of any type."""
    kind, element = column_type.kind, column_type.element
    if value is None:
        datum.other = 1
    elif kind in (Kind.FLOAT32, Kind.FLOAT64):
        setattr(datum, kind.value, value)
    elif kind in (Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.JSONB):
        datum.string = value
    elif kind is Kind.NUMERIC:
        _set_numeric(datum, value, column_type)
    elif kind is Kind.UUID:
        datum.uuid = value
    elif kind is Kind.OID:
        datum.uint32 = value
    elif kind in (Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64, Kind.MZ_TIMESTAMP):
        setattr(datum, kind.value, value)
    elif kind is Kind.TIME:
        datum.time.SetInParent()
        datum.time.secs, datum.time.frac = struct.unpack(">II", value)
    elif kind in (Kind.INTERVAL, Kind.DAY_TIME, Kind.YEAR_MONTH):
        _set_interval(datum.interval, value, kind)
    elif kind in (Kind.ACLITEM, Kind.MZ_ACLITEM):
        _set_acl(datum, value, kind)
    elif element is not None:
        _set_elements(datum, value, column_type, element)
    elif kind is Kind.RECORD:
        datum.list.SetInParent()
        for field in column_type.fields:
            _set_plain(datum.list.datums.add(), value[field.name], field.type)
    else:
        _set(datum, value, column_type)


def _set_numeric(datum: Any, value: Any, column_type: ColumnType) -> None:
    if column_type.precision is not None:
        with localcontext() as context:
            context.prec = 60
            _set(datum, int(value.scaleb(column_type.scale or 0)), column_type)
        return
    number = unpack_decimal(value["binary"])
    if not number.is_finite():
        datum.other = 8 if number.is_nan() else 7 if number < 0 else 6
        return
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)) + ("d" if sign else "c")
    datum.numeric.bcd = bytes.fromhex(text.zfill(len(text) + len(text) % 2))
    datum.numeric.scale = -int(exponent)


def _set_interval(message: Any, value: Any, kind: Kind) -> None:
    message.SetInParent()
    if kind is Kind.INTERVAL:
        months, days, micros = struct.unpack(">IIQ", value)
        message.months, message.days = months - 2**31, days - 2**31
        message.micros = micros - 2**63
    elif kind is Kind.DAY_TIME:
        message.micros = value
    else:
        message.months = value


def _set_acl(datum: Any, value: bytes, kind: Kind) -> None:
    if kind is Kind.ACLITEM:
        item = datum.acl_item
        item.grantee, item.grantor, mode = struct.unpack(">IIQ", value)
    else:
        item = datum.mz_acl_item
        *roles, mode = struct.unpack(">IQIQQ", value)
        for role, (tag, number) in ((item.grantee, roles[:2]), (item.grantor, roles[2:])):
            if tag == 400:
                role.public.SetInParent()
            else:
                setattr(role, ROLES[tag], number)
    item.acl_mode.SetInParent()
    item.acl_mode.bitflags = mode


def _set_elements(  # noqa: C901 -- cases
    datum: Any, value: Any, column_type: ColumnType, element: ColumnType
) -> None:
    kind = column_type.kind
    if kind is Kind.LIST:
        datum.list.SetInParent()
        for item in value:
            _set_plain(datum.list.datums.add(), item, element)
    elif kind is Kind.MAP:
        datum.dict.SetInParent()
        for key, item in value:
            entry = datum.dict.elements.add(key=key)
            _set_plain(entry.val, item, element)
    elif kind is Kind.RANGE:
        datum.range.SetInParent()
        if value["empty"]:
            return
        inner = datum.range.inner
        inner.SetInParent()
        inner.lower_inclusive = value["lower_inclusive"]
        inner.upper_inclusive = value["upper_inclusive"]
        for name in ("lower", "upper"):
            if value[name] is not None:
                _set_plain(getattr(inner, name), value[name], element)
    else:
        datum.array.elements.SetInParent()
        for item in value["vals"]:
            _set_plain(datum.array.elements.datums.add(), item, element)
        for dim in value["dims"]:
            datum.array.dims.add(lower_bound=dim["lower_bound"], length=dim["length"])
