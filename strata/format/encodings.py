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

StatsKind = Literal["range", "json", "nulls"]


@dataclass(frozen=True, slots=True)
class Encoding:
    """One row of the table."""

    kind: Kind
    arrow: Callable[[ColumnType], pa.DataType]  # the type of the child of k_s or v_s
    spark: Callable[[ColumnType], str]  # the DDL type that readers see in Spark
    datum: str  # the field of the row codec's datum message
    stats: StatsKind  # range: low and high; json: recursive per path; nulls: only counted
    order: str  # how values sort in a part; nulls always last


def _fixed(
    kind: Kind, arrow: pa.DataType, spark: str, datum: str, order: str, stats: StatsKind = "range"
) -> Encoding:
    return Encoding(kind, lambda _: arrow, lambda _: spark, datum, stats, order)


_ROWS: Final = (
    _fixed(Kind.BOOL, pa.bool_(), "boolean", "other", "false, true"),
    _fixed(Kind.INT16, pa.int16(), "smallint", "int16", "numeric"),
    _fixed(Kind.INT32, pa.int32(), "int", "int32", "numeric"),
    _fixed(Kind.INT64, pa.int64(), "bigint", "int64", "numeric"),
    _fixed(Kind.FLOAT32, pa.float32(), "float", "float32", "numeric, NaN last"),
    _fixed(Kind.FLOAT64, pa.float64(), "double", "float64", "numeric, NaN last"),
    Encoding(
        Kind.NUMERIC,
        lambda t: pa.decimal128(t.precision, t.scale),
        lambda t: f"decimal({t.precision},{t.scale})",
        "numeric",
        "range",
        "numeric",
    ),
    _fixed(Kind.DATE, pa.date32(), "date", "date", "by day"),
    _fixed(Kind.TIMESTAMP, pa.timestamp("us"), "timestamp_ntz", "timestamp", "by microsecond"),
    _fixed(
        Kind.TIMESTAMPTZ, pa.timestamp("us", "UTC"), "timestamp", "timestamp_tz", "by microsecond"
    ),
    _fixed(Kind.STRING, pa.string(), "string", "string", "by code point, as UTF-8 bytes"),
    _fixed(Kind.BYTES, pa.binary(), "binary", "bytes", "by unsigned byte"),
    _fixed(Kind.JSONB, pa.string(), "string", "string", "as canonical JSON text", "json"),
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
