"""The table of column types: how each is stored, ordered, summarised and seen by Spark.

One row a kind. Everything that needs to know something about a type asks this table; a kind
without a row cannot be declared (`InvalidRequest`), so that nothing is stored half.

Canonical values, so that equal rows have equal bytes: -0.0 is stored as 0.0, every NaN as the
quiet NaN 0x7ff8000000000000, JSON text with sorted keys and no white space.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.model.types import ColumnType, Kind

StatsKind = Literal["range", "json", "nested"]


@dataclass(frozen=True, slots=True)
class Encoding:
    """One row of the table."""

    kind: Kind
    arrow: Callable[[ColumnType], pa.DataType]  # the type of the child of k_s or v_s
    spark: Callable[[ColumnType], str]  # the DDL type that readers see in Spark
    datum: str  # the field of the row codec's datum message
    number: int  # of that field
    stats: StatsKind  # range: low and high; json: recursive per path; nested: of the leaves
    order: str  # how values sort in a part; nulls always last
    by_value: bool = True  # that order is the order of the values, as SQL compares them


def _fixed(  # noqa: PLR0913, PLR0917 -- a row of the table
    kind: Kind, arrow: pa.DataType, spark: str, datum: str, number: int, order: str,
    stats: StatsKind = "range", *, by_value: bool = True,
) -> Encoding:  # fmt: skip
    return Encoding(kind, lambda _: arrow, lambda _: spark, datum, number, stats, order, by_value)


# Types of the inside of stored columns.
NUMERIC_BYTES: Final = 40  # of a packed decimal, see strata.format.values.packed
UNBOUNDED_NUMERIC: Final = pa.struct([("approx", pa.float64()), ("binary", pa.binary(40))])
DIMENSIONS: Final = pa.list_(
    pa.field("item", pa.struct([("lower_bound", pa.int64()), ("length", pa.int64())]))
)
EMPTY_FIELD: Final = "_"  # a record without fields, which Parquet cannot store, has this one


def _numeric(column_type: ColumnType) -> pa.DataType:
    if column_type.precision is None:
        return UNBOUNDED_NUMERIC
    return pa.decimal128(column_type.precision, column_type.scale)


def _numeric_spark(column_type: ColumnType) -> str:
    if column_type.precision is None:
        return "struct<approx: double, text: string>"
    return f"decimal({column_type.precision},{column_type.scale})"


def _inner(column_type: ColumnType) -> ColumnType:
    assert column_type.element is not None
    return column_type.element


def _list(column_type: ColumnType) -> pa.DataType:
    return pa.list_(pa.field("item", arrow_type(_inner(column_type))))


def _array(column_type: ColumnType) -> pa.DataType:
    return pa.struct([("dims", DIMENSIONS), ("vals", _list(column_type))])


def _array_spark(column_type: ColumnType) -> str:
    dims = "array<struct<lower_bound: bigint, length: bigint>>"
    return f"struct<dims: {dims}, vals: array<{spark_type(_inner(column_type))}>>"


def _record(column_type: ColumnType) -> pa.DataType:
    fields = [(field.name, arrow_type(field.type)) for field in column_type.fields]
    return pa.struct(fields or [(EMPTY_FIELD, pa.bool_())])


def _record_spark(column_type: ColumnType) -> str:
    inner = [(field.name, spark_type(field.type)) for field in column_type.fields]
    quoted = (f"{_quoted(n)}: {kind}" for n, kind in inner or [(EMPTY_FIELD, "boolean")])
    return f"struct<{', '.join(quoted)}>"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _range(column_type: ColumnType) -> pa.DataType:
    end = arrow_type(_inner(column_type))
    flags = [(name, pa.bool_()) for name in ("lower_inclusive", "upper_inclusive", "empty")]
    return pa.struct([("lower", end), ("upper", end), *flags])


def _range_spark(column_type: ColumnType) -> str:
    end = spark_type(_inner(column_type))
    flags = "lower_inclusive: boolean, upper_inclusive: boolean, empty: boolean"
    return f"struct<lower: {end}, upper: {end}, {flags}>"


_ACL: Final = "struct<grantee: {0}, grantor: {0}, mode: decimal(20,0)>"
_LISTED: Final = "element by element, the shorter first"

_ROWS: Final = (
    _fixed(Kind.BOOL, pa.bool_(), "boolean", "other", 1, "false, true"),
    _fixed(Kind.INT16, pa.int16(), "smallint", "int16", 2, "numeric"),
    _fixed(Kind.INT32, pa.int32(), "int", "int32", 3, "numeric"),
    _fixed(Kind.INT64, pa.int64(), "bigint", "int64", 4, "numeric"),
    _fixed(Kind.UINT8, pa.uint8(), "smallint", "uint8", 27, "numeric"),
    _fixed(Kind.UINT16, pa.uint16(), "int", "uint16", 28, "numeric"),
    _fixed(Kind.UINT32, pa.uint32(), "bigint", "uint32", 26, "numeric"),
    _fixed(Kind.UINT64, pa.uint64(), "decimal(20,0)", "uint64", 29, "numeric"),
    _fixed(Kind.OID, pa.uint32(), "bigint", "uint32", 26, "numeric"),
    _fixed(Kind.MZ_TIMESTAMP, pa.uint64(), "decimal(20,0)", "mz_timestamp", 30, "numeric"),
    _fixed(Kind.FLOAT32, pa.float32(), "float", "float32", 5, "numeric, NaN last"),
    _fixed(Kind.FLOAT64, pa.float64(), "double", "float64", 6, "numeric, NaN last"),
    Encoding(
        Kind.NUMERIC,
        _numeric,
        _numeric_spark,
        "numeric",
        24,
        "range",
        "numeric; without a precision by the nearest float64, NaN last, then by packed bytes",
    ),
    _fixed(Kind.DATE, pa.date32(), "date", "date", 16, "by day"),
    _fixed(Kind.TIME, pa.binary(8), "string", "time", 17, "by second, then nanosecond"),
    _fixed(Kind.TIMESTAMP, pa.timestamp("us"), "timestamp_ntz", "timestamp", 18, "by microsecond"),
    _fixed(
        Kind.TIMESTAMPTZ,
        pa.timestamp("us", "UTC"),
        "timestamp",
        "timestamp_tz",
        19,
        "by microsecond",
    ),
    _fixed(
        Kind.INTERVAL,
        pa.binary(16),
        "struct<months: int, days: int, micros: bigint>",
        "interval",
        20,
        "by months, then days, then microseconds",
        by_value=False,
    ),
    _fixed(
        Kind.DAY_TIME,
        pa.duration("us"),
        "interval day to second",
        "interval",
        20,
        "by microsecond",
    ),
    _fixed(Kind.YEAR_MONTH, pa.int32(), "interval year to month", "interval", 20, "by month"),
    _fixed(Kind.STRING, pa.string(), "string", "string", 8, "by code point, as UTF-8 bytes"),
    _fixed(Kind.CHAR, pa.string(), "string", "string", 8, "by code point, as UTF-8 bytes"),
    _fixed(Kind.VARCHAR, pa.string(), "string", "string", 8, "by code point, as UTF-8 bytes"),
    _fixed(Kind.BYTES, pa.binary(), "binary", "bytes", 7, "by unsigned byte"),
    _fixed(
        Kind.JSONB,
        pa.string(),
        "string",
        "string",
        8,
        "as canonical JSON text",
        "json",
        by_value=False,
    ),
    _fixed(Kind.UUID, pa.binary(16), "string", "uuid", 25, "by unsigned byte"),
    _fixed(
        Kind.ACLITEM,
        pa.binary(16),
        _ACL.format("bigint"),
        "acl_item",
        33,
        "by grantee, then grantor, then mode",
    ),
    _fixed(
        Kind.MZ_ACLITEM,
        pa.binary(32),
        _ACL.format("string"),
        "mz_acl_item",
        32,
        "by grantee, then grantor, then mode",
    ),
    Encoding(
        Kind.LIST,
        _list,
        lambda t: f"array<{spark_type(_inner(t))}>",
        "list",
        22,
        "nested",
        _LISTED,
        False,
    ),
    Encoding(
        Kind.ARRAY,
        _array,
        _array_spark,
        "array",
        21,
        "nested",
        f"dimensions, then {_LISTED}",
        False,
    ),
    Encoding(
        Kind.INT2VECTOR,
        _array,
        _array_spark,
        "array",
        21,
        "nested",
        f"dimensions, then {_LISTED}",
        False,
    ),
    Encoding(
        Kind.MAP,
        lambda t: pa.map_(pa.string(), arrow_type(_inner(t))),
        lambda t: f"map<string, {spark_type(_inner(t))}>",
        "dict",
        23,
        "nested",
        "entry by entry in key order, the shorter first",
        False,
    ),
    Encoding(Kind.RECORD, _record, _record_spark, "list", 22, "nested", "field by field", False),
    Encoding(
        Kind.RANGE,
        _range,
        _range_spark,
        "range",
        31,
        "nested",
        "lower end, upper end, then which ends are in it; unbounded last",
        False,
    ),
)

ENCODINGS: Final[Mapping[Kind, Encoding]] = MappingProxyType({row.kind: row for row in _ROWS})


def encoding(column_type: ColumnType) -> Encoding:
    """Return the row of the table for a type.

    Raises: InvalidRequest for a kind that cannot be stored, naming those that can.
    """
    try:
        return ENCODINGS[column_type.kind]
    except KeyError as error:
        known = ", ".join(kind.value for kind in ENCODINGS)
        raise InvalidRequest(
            "this column type cannot be stored", type=str(column_type), cure=f"use one of {known}"
        ) from error


def arrow_type(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type in which values of a declared type are held and stored."""
    return encoding(column_type).arrow(column_type)


def spark_type(column_type: ColumnType) -> str:
    """Return the Spark DDL type under which readers see a declared type."""
    return encoding(column_type).spark(column_type)
