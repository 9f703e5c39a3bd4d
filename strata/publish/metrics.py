"""Column metrics for Iceberg from a manifest's statistics: only what is certainly right.

A metric lets other engines skip a part, so it is left out unless it is proven: unknown, null,
contradictory, inverted or mistyped statistics give none. Floats have none (NaN), nor have decimals,
JSON, fixed bytes, and anything nested. Bounds may be looser than the data and are never tighter;
texts and bytes were cut outwards when they were collected.
"""

import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.types import IcebergType, LongType, PrimitiveType

from strata.format.encodings import arrow_type
from strata.model.types import ColumnType, Kind
from strata.publish.fields import Fields, Shown
from strata.stats.wire import column_name

# Types whose order is the same in Strata and in Iceberg, value by value.
ORDERED: Final = frozenset({
    Kind.BOOL, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.DATE,
    Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.YEAR_MONTH, Kind.STRING, Kind.CHAR, Kind.VARCHAR,
    Kind.BYTES,
})  # fmt: skip


@dataclass(slots=True)
class FileMetrics:
    """The metrics of one data file, by field id."""

    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)

    def count(self, field_id: int, rows: int, nulls: int) -> None:
        """Say how many values a column has, and how many of them are null."""
        self.value_counts[field_id], self.null_value_counts[field_id] = rows, nulls


def metrics_of(
    table: pa.Table, fields: Fields, *, trusted: bool, quarantine: Collection[str]
) -> list[FileMetrics]:
    """Return the metrics of each part in some rows of a manifest.

    `trusted`: readers of the shard may skip by its statistics; otherwise only `t` has bounds, which
    every read relies on. `quarantine` has ids of columns and keys of parts that are not trusted.
    """
    found = [FileMetrics() for _ in range(table.num_rows)]
    lows, highs, rows = (table[name].to_pylist() for name in ("t_low", "t_high", "rows"))
    for one, low, high, count in zip(found, lows, highs, rows, strict=True):
        one.count(fields.time.field_id, count, 0)
        one.count(fields.diff.field_id, count, 0)
        if low <= high:
            one.lower_bounds[fields.time.field_id] = to_bytes(LongType(), low)
            one.upper_bounds[fields.time.field_id] = to_bytes(LongType(), high)
    if not trusted:
        return found
    known = [key not in quarantine for key in table["key"].to_pylist()]
    for shown in fields.shown:
        if str(shown.column.id) not in quarantine:
            _add(found, known, rows, table, shown)
    return found


def _add(
    found: Sequence[FileMetrics],
    known: Sequence[bool],
    rows: Sequence[int],
    table: pa.Table,
    shown: Shown,
) -> None:
    name = column_name(shown.column.id)
    if name not in table.column_names or shown.column.type.kind is Kind.JSONB:
        return
    stats = table[name].combine_chunks()
    if not pa.types.is_struct(stats.type):
        return
    nulls = _values(stats, "nulls", pa.int64())
    lows, highs = (_bounds(stats, side, shown.column.type) for side in ("low", "high"))
    field_id, kind = shown.field.field_id, shown.field.field_type
    for one, trusted, count, missing, low, high in zip(
        found, known, rows, nulls, lows, highs, strict=True
    ):
        if not trusted or missing is None or not 0 <= missing <= count:
            continue
        if missing == count and (low is not None or high is not None):
            continue  # contradictory: nothing of it is believed
        one.count(field_id, count, missing)
        if low is not None and high is not None and low > high:
            continue
        for bounds, value in ((one.lower_bounds, low), (one.upper_bounds, high)):
            if value is not None and (encoded := _encoded(kind, value)) is not None:
                bounds[field_id] = encoded


def _encoded(kind: IcebergType, value: Any) -> bytes | None:
    """Return the bytes of a bound; None for one that the type does not hold."""
    assert isinstance(kind, PrimitiveType), kind  # `ORDERED` has no other
    try:
        return to_bytes(kind, value)
    except (struct.error, OverflowError, UnicodeEncodeError):
        return None


def _bounds(stats: pa.StructArray, side: str, declared: ColumnType) -> list[Any]:
    """Return the bounds of one side as Iceberg compares them; None where there is none."""
    if declared.kind not in ORDERED:
        return [None] * len(stats)
    wanted = arrow_type(declared)
    if pa.types.is_date32(wanted):  # days and microseconds: Python ends at year 9999
        return _values(stats, side, wanted, lambda found: found.cast(pa.int32()))
    if pa.types.is_timestamp(wanted):
        return _values(stats, side, wanted, lambda found: found.cast(pa.int64()))
    if pa.types.is_integer(wanted):
        return _values(stats, side, None, _integers)
    return _values(stats, side, wanted)


def _integers(found: pa.Array) -> pa.Array:
    """Return numbers, which an older, narrower type of the column may have written."""
    wide = pa.types.is_integer(found.type) and found.type != pa.uint64()
    return found.cast(pa.int64()) if wide else pa.nulls(len(found), pa.int64())


def _values(
    stats: pa.StructArray,
    name: str,
    wanted: pa.DataType | None,
    cast: Callable[[pa.Array], pa.Array] = lambda found: found,
) -> list[Any]:
    index = stats.type.get_field_index(name)
    if index < 0 or (wanted is not None and stats.type.field(index).type != wanted):
        return [None] * len(stats)
    values = stats.flatten()[index]  # a null struct makes its children null
    return cast(values).to_pylist()  # type: ignore[no-any-return]
