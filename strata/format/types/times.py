"""Dates, times, timestamps and intervals."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.types import from_json
from strata.format.types.row import Form, Layout, NumberField, TypeView, message, packed, scalar
from strata.format.types.shown import (
    as_texts,
    fixed,
    last_digits,
    record_view,
)
from strata.format.values.physical import records, refuse, true
from strata.kernels.arrays import Ints
from strata.model.types import ColumnType, Kind

TIME_PATTERN: Final = (
    r"^(?P<h>[0-9]{2}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})(?P<point>\.?)(?P<frac>[0-9]{0,9})$"
)
DAY_SECONDS: Final = 86_400
BILLION: Final = 10**9
SECONDS: Final = (0, DAY_SECONDS - 1)
NANOS: Final = (0, 2 * BILLION - 1)  # above a second: a leap second

_YEAR_AND_DAY: Final = (
    NumberField("year", 0x08, 4, is_signed=True),
    NumberField("day", 0x10, limit=(0, 366)),
)
DATE: Final = message(*_YEAR_AND_DAY)
DATE_TIME: Final = message(
    *_YEAR_AND_DAY,
    NumberField("secs", 0x08, group=1, limit=SECONDS),
    NumberField("nanos", 0x10, group=1, limit=NANOS),
    heads=(0x0A, 0x12),
)
TIME_LAYOUT: Final = packed(
    message(NumberField("secs", 0x08, 4, limit=SECONDS), NumberField("nanos", 0x10, 4, limit=NANOS))
)
TIME_BYTES: Final = TIME_LAYOUT.width
INTERVAL: Final = message(
    NumberField("months", 0x08, 4, is_signed=True),
    NumberField("days", 0x10, 4, is_signed=True),
    NumberField("micros", 0x18, 8, is_signed=True),
)
SEEN_INTERVAL: Final = pa.struct(
    [("months", pa.int32()), ("days", pa.int32()), ("micros", pa.int64())]
)
MICROS: Final = Layout(Form.TIMESTAMP, np.dtype("<i8"), DATE_TIME)


def _show_time(array: pa.Array) -> pa.Array:
    fields = records(array, TIME_BYTES)
    secs, nanos = fields["secs"].astype(np.int64), fields["nanos"].astype(np.int64)
    leap = nanos // BILLION
    minutes, within = secs // 60, secs % 60 + leap
    parts = [(minutes // 60, 2), (minutes % 60, 2), (within, 2), (nanos - leap * BILLION, 9)]
    columns = []
    for values, places in parts:
        columns += [last_digits(values, places), np.full((len(array), 1), ord(":"), np.uint8)]
    columns[5][:] = ord(".")
    return as_texts(np.hstack(columns[:-1]), array)


def _store_time(array: pa.Array, column_type: ColumnType) -> pa.Array:
    pieces = pc.extract_regex(array, TIME_PATTERN)
    wrong = true(pieces.is_null()) & true(array.is_valid())
    hour, minute, second = (_ints(pc.struct_field(pieces, name)) for name in "hms")
    point, frac = (pc.fill_null(pc.struct_field(pieces, name), "") for name in ("point", "frac"))
    wrong |= true(pc.equal(point, "")) != true(pc.equal(frac, ""))
    leap = (second == 60).astype(np.int64)
    wrong |= (hour > 23) | (minute > 59) | (second > 60)
    refuse(array, wrong, column_type, "as in 23:59:59.123456789; 60 for a leap second")
    fields = np.zeros(len(array), TIME_BYTES)
    fields["secs"] = (hour * 60 + minute) * 60 + second - leap
    fields["nanos"] = _ints(pc.ascii_rpad(frac, 9, "0")) + leap * BILLION
    return fixed(fields, array)


def _ints(texts: pa.Array) -> Ints:
    found: Ints = texts.fill_null("0").cast(pa.int64()).to_numpy()
    return found


def _spelt_times(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return times of day after a check; a leap second belongs to the last second of a minute."""
    fields = records(array, TIME_BYTES)
    secs, nanos = fields["secs"], fields["nanos"]
    wrong = (secs > SECONDS[1]) | (nanos > NANOS[1])
    wrong |= (nanos >= BILLION) & (secs % 60 != 59)
    refuse(array, wrong, column_type, "a second of the day and its nanoseconds")
    return array


def _interval_json(value: Any) -> dict[str, int]:
    parts = from_json.parts(value, {"months": 0, "days": 0, "micros": 0})
    return {name: from_json.integer(part) for name, part in parts.items()}


ROWS: Final = (
    scalar(
        Kind.DATE, pa.date32(), "date", ("date", 16), order="by day", json=from_json.day,
        layout=Layout(Form.DATE, np.dtype("<i4"), DATE),
    ),
    scalar(
        Kind.TIME, pa.binary(8), "string", ("time", 17), order="by second, then nanosecond",
        layout=TIME_LAYOUT, json=from_json.text,
        view=TypeView(pa.string(), _show_time, _store_time), spelling=_spelt_times,
    ),
    scalar(
        Kind.TIMESTAMP, pa.timestamp("us"), "timestamp_ntz", ("timestamp", 18),
        order="by microsecond", json=from_json.moment, layout=MICROS,
    ),
    scalar(
        Kind.TIMESTAMPTZ, pa.timestamp("us", "UTC"), "timestamp", ("timestamp_tz", 19),
        order="by microsecond", json=from_json.moment_utc, layout=MICROS,
    ),
    scalar(
        Kind.INTERVAL, pa.binary(16), "struct<months: int, days: int, micros: bigint>",
        ("interval", 20), order="by months, then days, then microseconds", by_value=False,
        layout=packed(INTERVAL), json=_interval_json, quoted=False,
        view=record_view(INTERVAL, SEEN_INTERVAL),
    ),
    scalar(
        Kind.DAY_TIME, pa.duration("us"), "interval day to second", ("interval", 20),
        order="by microsecond", json=from_json.integer, quoted=False,
        layout=Layout(Form.NUMBERS, np.dtype("<i8"), INTERVAL, "micros"),
    ),
    scalar(
        Kind.YEAR_MONTH, pa.int32(), "interval year to month", ("interval", 20),
        order="by month", json=from_json.integer, quoted=False,
        layout=Layout(Form.NUMBERS, np.dtype("<i4"), INTERVAL, "months"),
    ),
)  # fmt: skip
