"""Decode rows of the row codec, one datum of all rows of a batch at a time.

A cursor per row stands at the beginning of the next datum. Rows that look as `rowcodec_encode`
writes them are read with NumPy; a row that looks different anywhere is marked *odd*, its values
here are meaningless, and `rowcodec_scalar` reads it whole. So the fast half may give up at any
doubt, and must never read wrongly.

All reads stay inside a padded copy of the batch: a datum whose length is one byte moves a cursor
by at most STEP bytes, for which there is padding; longer steps are cut to the batch's end. Cursors
never move back, so that the last check, whether each ends where its row ends, covers all before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.format.calendar import DAY_US, YEAR_DAYS, YEAR_STARTS, days_of, has_day
from strata.format.decimals import below, signed_pairs, unpack_decimals
from strata.format.encodings import arrow_type
from strata.format.physical import DTYPES, TEXTS, from_numbers, offsets, pack_mask
from strata.format.rowcodec_encode import INT_TAGS, MESSAGE_TAGS, TEXT_TAGS
from strata.format.words import (
    KEEP,
    MORE,
    TOPS,
    Bools,
    Bytes,
    Ints,
    Words,
    read_varints,
    squeeze,
    unaligned,
)
from strata.model.types import ColumnType, Kind

PADDING: Final = 64  # bytes behind a cursor that a decoder may look at
STEP: Final = 130  # bytes that a datum with a length of one byte takes at most
LIMIT: Final = 2**31  # lengths are cut to this: no row is longer
DATUM_TAG: Final = 0x0A
BYTE: Final = np.uint64(0xFF)


@dataclass(frozen=True, slots=True)
class _Datums:
    """The same datum of every row: where its message lies."""

    view: Words  # the word at each byte of the batch
    data: Bytes  # the same bytes
    at: Ints  # where the message begins
    length: Ints  # its length as stated, cut to LIMIT
    end: Ints  # at + length, cut to the batch's end if the length is long
    word: Words  # the message's first six bytes, maybe more
    null: Bools | None  # where the datum says NULL; None: nowhere

    def byte(self, number: int) -> Ints:
        """Return a byte (0 to 5) of each message."""
        return (self.word >> np.uint64(8 * number) & BYTE).view(np.int64)


# Values (or texts: starts and lengths), and which rows were read with certainty.
Decoded = tuple[npt.NDArray[Any], Bools]


def decode_batch(
    rows: pa.BinaryArray, types: Sequence[ColumnType], wanted: Sequence[int]
) -> tuple[list[pa.Array], Bools]:
    """Return the wanted columns of a batch of rows, and which rows are odd.

    Shape: at least one row, none null; the values of odd rows mean nothing.
    """
    ends = offsets(rows)
    base = int(ends[0])
    size = int(ends[-1]) - base
    data = np.zeros(size + PADDING + STEP * len(types), np.uint8)
    if size:
        data[:size] = np.frombuffer(rows.buffers()[2], np.uint8, size, base)
    view = unaligned(data)
    cursor, row_end = ends[:-1] - base, ends[1:] - base
    good = np.ones(len(rows), np.bool_)
    arrays: dict[int, pa.Array] = {}
    for position, column_type in enumerate(types):
        datums = _next(view, data, cursor, size, good)
        if position in wanted:
            arrays[position], good = _column(datums, column_type, good)
        cursor = datums.end
    good &= cursor == row_end
    return [arrays[position] for position in wanted], ~good


def _next(view: Words, data: Bytes, cursor: Ints, size: int, good: Bools) -> _Datums:
    """Return the datum at each cursor; rows without one there are no longer good."""
    word = view[cursor]
    good &= (word & BYTE) == DATUM_TAG
    word >>= np.uint64(8)
    length = (word & BYTE).view(np.int64)
    if int(length.max()) >= 0x80:
        stated, bytes_read = read_varints(view, np.minimum(cursor + 1, size))
        good &= bytes_read <= 10
        length = np.minimum(stated, np.uint64(LIMIT)).view(np.int64)
        at = np.minimum(cursor + 1 + bytes_read, size)
        end = np.minimum(at + length, size)
        good &= end == at + length
        word = view[at]
    else:
        at = cursor + 2
        end = at + length
        word >>= np.uint64(8)
    null = None
    if int(length.min()) <= 2:
        null = (length == 2) & ((word & np.uint64(0xFFFF)) == 0x0108)
    return _Datums(view, data, at, length, end, word, null)


def _column(datums: _Datums, column_type: ColumnType, good: Bools) -> tuple[pa.Array, Bools]:
    """Return one column, and which of the good rows are still good."""
    kind, null = column_type.kind, datums.null
    values, read = _DECODERS[kind](datums, column_type)
    valid = None if null is None or not null.any() else ~null
    good = good & (read if null is None else read | null)
    if kind not in TEXTS:
        return from_numbers(values, valid, column_type), good
    # Only good rows have texts known to lie inside the batch.
    inside = good if valid is None else good & valid
    starts, lengths = values * inside
    array = _texts(datums, starts, lengths, valid)
    if kind is Kind.BYTES:
        return array, good
    try:
        return array.cast(arrow_type(column_type)), good
    except pa.ArrowInvalid:  # not UTF-8 somewhere: let the patient half say where
        return pa.nulls(len(array), arrow_type(column_type)), np.zeros_like(good)


def _texts(datums: _Datums, starts: Ints, lengths: Ints, valid: Bools | None) -> pa.Array:
    """Return texts that lie apart in the batch as one array, copied by Arrow."""
    views = np.empty((len(starts), 2), np.uint64)
    views[:, 0] = lengths.view(np.uint64) | datums.view[starts] << np.uint64(32)
    inline = datums.view[np.minimum(starts + 4, len(datums.view) - 1)]
    views[:, 1] = np.where(lengths <= 12, inline, starts.view(np.uint64) << np.uint64(32))
    buffers = [pack_mask(valid), pa.py_buffer(views), pa.py_buffer(datums.data)]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers).cast(pa.binary())


def _bool(datums: _Datums, _: ColumnType) -> Decoded:
    value = datums.byte(1)
    read = (datums.length == 2) & (datums.byte(0) == 0x08) & ((value == 2) | (value == 3))
    return value == 3, read


def _int(datums: _Datums, column_type: ColumnType) -> Decoded:
    kind = column_type.kind
    size = datums.length - 1
    read = (datums.byte(0) == INT_TAGS[kind]) & (size >= 1) & (size <= 10)
    short = np.clip(size, 1, 5)
    bits = datums.word >> np.uint64(8) & KEEP[short]
    values = squeeze(bits).view(np.int64)
    exact = (bits & TOPS) == MORE[short]
    long = np.flatnonzero(read & (size > 5))
    if len(long):
        big, bytes_read = read_varints(datums.view, datums.at[long] + 1)
        values[long] = big.view(np.int64)
        exact[long] = bytes_read == size[long]
    dtype = DTYPES[kind]
    narrow = values.astype(dtype)
    return narrow, read & exact & (narrow == values)


def _float32(datums: _Datums, _: ColumnType) -> Decoded:
    values = (datums.word >> np.uint64(8)).astype(np.uint32)
    return values, (datums.length == 5) & (datums.byte(0) == 0x2D)


def _float64(datums: _Datums, _: ColumnType) -> Decoded:
    return datums.view[datums.at + 1], (datums.length == 9) & (datums.byte(0) == 0x31)


def _text(datums: _Datums, column_type: ColumnType) -> Decoded:
    read = datums.byte(0) == TEXT_TAGS[column_type.kind]
    length = datums.byte(1)
    starts = datums.at + 2
    if int(length.max()) >= 0x80:
        stated, bytes_read = read_varints(datums.view, datums.at + 1)
        length = np.minimum(stated, np.uint64(LIMIT)).view(np.int64)
        starts = datums.at + 1 + bytes_read
    return np.stack([starts, length]), read & (starts + length == datums.at + datums.length)


def _date_message(datums: _Datums, offset: int, length: Ints) -> tuple[Ints, Bools]:
    """Return the days of ProtoNaiveDate messages `offset` bytes into each datum."""
    at = datums.at + offset
    word = datums.view[at]
    # 08, a byte with and one without the top bit, 10, then the day in one byte or two: that is, a
    # year from 128 to 16383.
    usual = (word & np.uint64(0xFF8080FF)) == 0x10008008
    year = (word >> np.uint64(8) & np.uint64(0x7F)) | (word >> np.uint64(9) & np.uint64(0x3F80))
    first = word >> np.uint64(32) & BYTE
    two = first >> np.uint64(7)
    second = (word >> np.uint64(40) & BYTE) * two
    ordinal = ((first & np.uint64(0x7F)) + (second << np.uint64(7))).view(np.int64)
    of = year.view(np.int64)
    read = usual & (length == (two + np.uint64(5)).view(np.int64))
    read &= (ordinal >= 1) & (ordinal <= YEAR_DAYS[of])
    days = YEAR_STARTS[of] + ordinal
    rest = np.flatnonzero(~usual if datums.null is None else ~(usual | datums.null))
    if len(rest):
        days[rest], read[rest] = _any_date(word[rest], length[rest])
    return days, read


def _any_date(word: Words, length: Ints) -> tuple[Ints, Bools]:
    """Return the days of ProtoNaiveDate messages of years 1 to 2**28 - 1."""
    read = (word & BYTE) == 0x08
    year, size = _small(word >> np.uint64(8))
    read &= size <= 4
    rest = word >> ((np.minimum(size, 4) + 1) << 3).view(np.uint64)
    first = (rest >> np.uint64(8) & BYTE).view(np.int64)
    second = (rest >> np.uint64(16) & BYTE).view(np.int64)
    two = first >= 0x80
    ordinal = np.where(two, (first & 0x7F) | second << 7, first)
    read &= ((rest & BYTE) == 0x10) & (length == size + 3 + two) & has_day(year, ordinal)
    return days_of(year, ordinal), read


def _date(datums: _Datums, column_type: ColumnType) -> Decoded:
    inner = datums.byte(2)
    read = (datums.word & np.uint64(0xFFFF)) == MESSAGE_TAGS[column_type.kind]
    read &= inner == datums.length - 3
    days, found = _date_message(datums, 3, inner)
    narrow = days.astype(np.int32)
    return narrow, read & found & (narrow == days)


def _timestamp(datums: _Datums, column_type: ColumnType) -> Decoded:
    date_length = datums.byte(4)
    read = (datums.word & np.uint64(0xFFFF)) == MESSAGE_TAGS[column_type.kind]
    read &= (datums.byte(2) == datums.length - 3) & (datums.byte(3) == 0x0A)
    days, found = _date_message(datums, 5, date_length)
    at = datums.at + 5 + np.minimum(date_length, 8)
    micros, clock_found = _clock(datums, at)
    # Beyond some 290,000 years the product overflows; the patient half says so.
    found &= np.abs(days) < 2**63 // DAY_US - 1
    return days * DAY_US + micros, read & found & clock_found


def _clock(datums: _Datums, at: Ints) -> tuple[Ints, Bools]:
    """Return the microseconds in the day of the field `time` at `at`, which ends the datum."""
    word = datums.view[at]
    length = (word >> np.uint64(8) & BYTE).view(np.int64)
    read = ((word & BYTE) == 0x12) & (at + 2 + length == datums.at + datums.length)
    has_seconds = (length > 0) & ((word >> np.uint64(16) & BYTE) == 0x08)
    seconds, used = _small(word >> np.uint64(24))
    seconds, used = np.where(has_seconds, seconds, 0), np.where(has_seconds, used + 1, 0)
    rest = length - used
    read &= (used <= 6) & (rest >= 0) & (seconds < 86_400)
    if not rest.any():
        return seconds * 1_000_000, read
    word = datums.view[at + 2 + np.minimum(used, 6)]
    nanos, used = _small(word >> np.uint64(8))
    nanos = np.where(rest > 0, nanos, 0)
    read &= (rest == 0) | (((word & BYTE) == 0x10) & (rest == used + 1))
    micros = nanos // 1000
    read &= (nanos < 1_000_000_000) & (micros * 1000 == nanos)
    return seconds * 1_000_000 + micros, read


def _small(words: Words) -> tuple[Ints, Ints]:
    """Return the varint of at most five bytes that each word begins with, and its length.

    A longer one has a length above five.
    """
    ends = ~words & TOPS
    size = (np.bitwise_count((ends & -ends) - np.uint64(1)).astype(np.int64) >> 3) + 1
    return squeeze(words & KEEP[np.minimum(size, 5)]).view(np.int64), size


def _numeric(datums: _Datums, column_type: ColumnType) -> Decoded:
    size = datums.byte(4)
    scale = column_type.scale or 0
    read = (datums.word & np.uint64(0xFFFF)) == MESSAGE_TAGS[Kind.NUMERIC]
    read &= (datums.byte(2) == datums.length - 3) & (datums.byte(3) == 0x0A)
    read &= (size >= 1) & (size <= 20) & (datums.length == 5 + size + (2 if scale else 0))
    size = np.clip(size, 1, 20)
    end = datums.at + 5 + size
    if scale:
        read &= (datums.view[end] & np.uint64(0xFFFF)) == (scale << 8 | 0x10)
    words = [np.zeros(len(end), np.uint64) for _ in range(3)]
    for i in range((int(size.max()) + 7) // 8):
        raw = datums.view[np.maximum(end - 8 * (i + 1), 0)].byteswap()
        words[i] = raw & KEEP[np.clip(size - 8 * i, 0, 8)]
    low, high, sign, good = unpack_decimals(words)
    good &= below(low, high, column_type.precision or 38)
    return signed_pairs(low, high, sign), read & good


_DECODERS: Final[dict[Kind, Callable[[_Datums, ColumnType], Decoded]]] = {
    Kind.BOOL: _bool,
    **dict.fromkeys(INT_TAGS, _int),
    Kind.FLOAT32: _float32,
    Kind.FLOAT64: _float64,
    **dict.fromkeys(TEXTS, _text),
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamp,
    Kind.NUMERIC: _numeric,
}
