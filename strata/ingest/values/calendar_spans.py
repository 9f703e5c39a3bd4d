"""Converts intervals of months, days and a rest, as Arrow, Parquet and Avro have them.

Arrow's (`month_day_nano`, as DuckDB exports it) has nanoseconds behind its days. Parquet's INTERVAL
and Avro's `duration` are twelve bytes: three unsigned numbers, the last one of milliseconds.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from strata.format.encodings import arrow_type
from strata.format.values.view import view_type
from strata.ingest.values.column import Cast, valid, with_nulls
from strata.kernels.arrays import Bools, Ints
from strata.model.types import ColumnType, Kind

TWELVE: Final = 12  # bytes of a `duration`
_ARROW: Final = np.dtype([("months", "<i4"), ("days", "<i4"), ("rest", "<i8")])  # nanoseconds
_BYTES: Final = np.dtype([("months", "<u4"), ("days", "<u4"), ("rest", "<u4")])  # milliseconds
LAST_INT32: Final = 2**31 - 1
DAY_US: Final = 86_400_000_000
LAST_DAY: Final = (2**63 - 1) // DAY_US  # whose microseconds fit 64 bits


class _Spans(NamedTuple):
    """Intervals by their parts; those of nulls mean nothing."""

    months: Ints
    days: Ints
    micros: Ints
    finer: Bools  # has parts of a microsecond


def is_calendar_span(kind: pa.DataType) -> bool:
    """Return whether an Arrow type holds months, days and a rest."""
    twelve = pa.types.is_fixed_size_binary(kind) and kind.byte_width == TWELVE
    return bool(pa.types.is_interval(kind) or twelve)


def calendar_spans(values: pa.Array, target: ColumnType) -> Cast:
    """Return intervals as a column of one of the types of interval, in the form readers see.

    A day is 24 hours only in an interval of days and seconds, as in its texts. What the type lacks
    (months, or days) has to be zero.
    """
    spans = _spans(values)
    wrong, seen = spans.finer, None
    if target.kind is Kind.INTERVAL:
        wrong |= (spans.months > LAST_INT32) | (spans.days > LAST_INT32)
        seen = pa.StructArray.from_arrays(
            [
                pa.array(np.where(wrong, 0, spans.months), pa.int32()),
                pa.array(np.where(wrong, 0, spans.days), pa.int32()),
                pa.array(spans.micros),
            ],
            fields=list(view_type(target)),
        )
    elif target.kind is Kind.YEAR_MONTH:
        wrong |= (spans.days != 0) | (spans.micros != 0) | (spans.months > LAST_INT32)
        seen = pa.array(np.where(wrong, 0, spans.months), arrow_type(target))
    else:
        wrong |= (spans.months != 0) | (np.abs(spans.days) > LAST_DAY)
        days = np.where(wrong, 0, spans.days) * DAY_US
        total = days + spans.micros  # modulo 2**64
        wrong |= ((days ^ total) & (spans.micros ^ total)) < 0
        seen = pa.array(total).view(arrow_type(target))
    there = valid(values)
    return Cast(with_nulls(seen, np.flatnonzero(wrong | ~there)), np.flatnonzero(wrong & there))


def _spans(values: Any) -> _Spans:
    arrow = pa.types.is_interval(values.type)
    kind = _ARROW if arrow else _BYTES
    start, length = values.offset * kind.itemsize, len(values)
    found = np.frombuffer(values.buffers()[1] or b"", kind, length, start if length else 0)
    months, days, rest = (found[name].astype(np.int64) for name in ("months", "days", "rest"))
    if not arrow:
        return _Spans(months, days, rest * 1000, np.zeros(length, np.bool_))
    return _Spans(months, days, rest // 1000, rest % 1000 != 0)
