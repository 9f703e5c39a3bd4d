"""Encode columns as rows of the row codec, a batch at once.

Each column becomes a few *pieces*: for every row a word of at most eight bytes and how many of
them count, or a text to copy. Pieces are scattered column after column at every row's cursor,
always whole words: what one writes too much is overwritten by the next, and each row has room
behind its end. Arrow then copies the rows together.

The bytes are those of any protobuf encoder; a null, false or true takes the field `other`.
Cost: some 20 NumPy passes a column, over batches that fit the processor's cache.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.calendar import DAY_US, year_and_ordinal
from strata.format.decimals import packed_decimals
from strata.format.physical import DTYPES, TEXTS, numbers, offsets, valid_mask
from strata.format.words import (
    PAD,
    Bools,
    Bytes,
    Ints,
    Words,
    mask_tail,
    small_varints,
    unaligned,
    varints,
    word_view,
)
from strata.model.types import ColumnType, Kind

BATCH: Final = 8_192  # rows a batch: its pieces stay in the cache
MAX_BYTES: Final = 2**31 - 1  # what a binary array can hold
SHORT: Final = 125  # texts up to here have a head of four bytes
INLINE: Final = 28  # texts up to here are written as pieces
LONG: Final = 256  # texts from here on are copied one by one
NULL: Final = np.uint64(0x0108020A)  # 0A 02 08 01: a datum whose `other` is NULL
NULL_BYTES: Final = 4
DATUM: Final = 0x0A  # tag of ProtoRow.datums
INT_TAGS: Final = {Kind.INT16: 0x10, Kind.INT32: 0x18, Kind.INT64: 0x20}
TEXT_TAGS: Final = {Kind.BYTES: 0x3A, Kind.STRING: 0x42, Kind.JSONB: 0x42}
MESSAGE_TAGS: Final = {  # two bytes, little-endian
    Kind.DATE: 0x0182,
    Kind.TIMESTAMP: 0x0192,
    Kind.TIMESTAMPTZ: 0x019A,
    Kind.NUMERIC: 0x01C2,
}


@dataclass(frozen=True, slots=True)
class _Texts:
    """Texts to copy: where they lie in a data buffer. Their lengths are the piece's lengths."""

    data: pa.Buffer
    starts: Ints


Piece = tuple[Words | int | _Texts, Ints | int]  # content and length, a row each or one for all


def encode_batch(columns: Sequence[pa.Array], types: Sequence[ColumnType]) -> pa.BinaryArray:
    """Return the rows of a batch.

    Shape: equally long arrays of the types' Arrow types, at least one, at least one row.
    """
    pieces: list[Piece] = []
    for array, column_type in zip(columns, types, strict=True):
        made = _ENCODERS[column_type.kind](array, column_type)
        valid = valid_mask(array)
        pieces += made if valid is None else _nulls(made, valid)
    return _write(pieces, len(columns[0]))


def _write(pieces: list[Piece], rows: int) -> pa.BinaryArray:
    lengths = np.zeros(rows, np.int64)
    for _, length in pieces:
        lengths += length
    ends = np.cumsum(lengths + PAD)
    if int(ends[-1]) > MAX_BYTES:
        raise InvalidRequest("rows are too big to be encoded together", bytes=int(ends[-1]))
    data = np.empty(int(ends[-1]), np.uint8)
    view = unaligned(data)
    starts = ends - lengths - PAD
    cursor = starts.copy()
    for content, length in pieces:
        if isinstance(content, _Texts):
            _copy(data, view, cursor, content, length)
        else:
            view[cursor] = content
        cursor += length
    return _together(data, view, starts, lengths)


def _copy(data: Bytes, view: Words, cursor: Ints, texts: _Texts, length: Ints | int) -> None:
    """Copy texts to the cursors, eight bytes at a time or, if long, one by one."""
    lengths = np.broadcast_to(np.asarray(length), cursor.shape)
    active = np.flatnonzero(lengths)
    if not len(active):
        return
    low, high = int(texts.starts[active[0]]), int((texts.starts + lengths)[active].max())
    long = lengths > LONG
    raw = np.frombuffer(texts.data, np.uint8)
    for i in np.flatnonzero(long).tolist():
        start, size, to = int(texts.starts[i]), int(lengths[i]), int(cursor[i])
        data[to : to + size] = raw[start : start + size]
    active = active[~long[active]]
    source = word_view(texts.data, low, high)
    into, at, rest = cursor[active], texts.starts[active] - low, lengths[active]
    while len(into):
        view[into] = source[at]
        more = rest > 8
        into, at, rest = into[more] + 8, at[more] + 8, rest[more] - 8


def _together(data: Bytes, view: Words, starts: Ints, lengths: Ints) -> pa.BinaryArray:
    """Return rows that lie apart in `data` as one array, copied by Arrow.

    A binary view is a length, then up to 12 bytes, or 4 bytes, a buffer number and an offset.
    """
    views = np.empty((len(starts), 2), np.uint64)
    views[:, 0] = lengths.view(np.uint64) | view[starts] << np.uint64(32)
    views[:, 1] = starts.view(np.uint64) << np.uint64(32)
    short = np.flatnonzero(lengths <= 12)
    views[short, 1] = mask_tail(view[starts[short] + 4], lengths[short] - 4)
    buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers).cast(pa.binary())


def _nulls(pieces: list[Piece], valid: Bools) -> list[Piece]:
    """Return pieces that say NULL where there is no value."""
    (word, length), *rest = pieces
    assert not isinstance(word, _Texts)
    first = (np.where(valid, word, NULL), np.where(valid, length, NULL_BYTES))
    return [first, *((content, np.where(valid, n, 0)) for content, n in rest)]


def _bool(array: pa.Array, _: ColumnType) -> list[Piece]:
    values = array.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.uint64)
    return [((values << np.uint64(24)) + np.uint64(0x0208020A), 4)]


def _int(array: pa.Array, column_type: ColumnType) -> list[Piece]:
    values = numbers(array, DTYPES[column_type.kind]).astype(np.int64).view(np.uint64)
    head = DATUM | 0x100 | INT_TAGS[column_type.kind] << 16
    low, high, lengths = varints(values)
    first = low << np.uint64(24) | ((lengths << 8) + head).view(np.uint64)
    if int(lengths.max()) <= 5:
        return [(first, lengths + 3)]
    second = low >> np.uint64(40) | high << np.uint64(24)
    return [(first, np.minimum(lengths + 3, 8)), (second, np.maximum(lengths - 5, 0))]


def _float32(array: pa.Array, _: ColumnType) -> list[Piece]:
    bits = numbers(array, DTYPES[Kind.FLOAT32]).astype(np.uint64)
    return [(bits << np.uint64(24) | np.uint64(0x2D050A), 7)]


def _float64(array: pa.Array, _: ColumnType) -> list[Piece]:
    bits = numbers(array, DTYPES[Kind.FLOAT64])
    return [(bits << np.uint64(24) | np.uint64(0x31090A), 8), (bits >> np.uint64(40), 3)]


def _text(array: pa.Array, column_type: ColumnType) -> list[Piece]:
    ends = offsets(array)
    starts, lengths = ends[:-1], np.diff(ends)
    tag, longest = TEXT_TAGS[column_type.kind], int(lengths.max())
    texts = _Texts(array.buffers()[2], starts)
    if longest > SHORT:
        size, size_bytes = small_varints(lengths.view(np.uint64))
        outer, outer_bytes = small_varints((1 + size_bytes + lengths).view(np.uint64))
        return [
            (outer << np.uint64(8) | np.uint64(DATUM), outer_bytes + 1),
            (size << np.uint64(8) | np.uint64(tag), size_bytes + 1),
            (texts, lengths),
        ]
    head = ((lengths << 24) + (lengths << 8) + (DATUM | 2 << 8 | tag << 16)).view(np.uint64)
    if longest > INLINE:
        return [(head, 4), (texts, lengths)]
    low, high = int(ends[0]), int(ends[-1])
    view = word_view(texts.data, low, high)
    first = view[starts - low] << np.uint64(32) | head
    pieces: list[Piece] = [(first, np.minimum(lengths, 4) + 4)]
    for done in range(4, longest, 8):
        at = np.minimum(starts - low + done, high - low)
        pieces.append((view[at], np.clip(lengths - done, 0, 8)))
    return pieces


def _date_message(days: Ints) -> tuple[list[Piece], Ints]:
    """Return ProtoNaiveDate as pieces, and its length; a year of 0 is left out, as proto3 does."""
    year, ordinal = year_and_ordinal(days)
    ordinal_word, ordinal_bytes = small_varints(ordinal.view(np.uint64))
    ordinal_word = ordinal_word << np.uint64(8) | np.uint64(0x10)
    ordinal_bytes = ordinal_bytes + 1
    low, high, year_bytes = varints(year.view(np.uint64))
    if int(year.min()) > 0 and int(year.max()) < 1 << 21:
        shift = ((year_bytes + 1) << 3).view(np.uint64)
        word = low << np.uint64(8) | np.uint64(0x08) | ordinal_word << shift
        length = year_bytes + 1 + ordinal_bytes
        return [(word, length)], length
    year_bytes = np.where(year == 0, 0, year_bytes + 1)
    rest = low >> np.uint64(56) | high << np.uint64(8)
    pieces: list[Piece] = [
        (low << np.uint64(8) | np.uint64(0x08), np.minimum(year_bytes, 8)),
        (rest, np.maximum(year_bytes - 8, 0)),
        (ordinal_word, ordinal_bytes),
    ]
    return pieces, year_bytes + ordinal_bytes


def _date(array: pa.Array, column_type: ColumnType) -> list[Piece]:
    days = numbers(array, DTYPES[Kind.DATE]).astype(np.int64)
    pieces, length = _date_message(days)
    head = (length << 32) + (length << 8) + (DATUM | 3 << 8 | MESSAGE_TAGS[column_type.kind] << 16)
    return [(head.view(np.uint64), 5), *pieces]


def _timestamp(array: pa.Array, column_type: ColumnType) -> list[Piece]:
    micros = numbers(array, DTYPES[column_type.kind])
    days = micros // DAY_US
    in_day = micros - days * DAY_US
    seconds = in_day // 1_000_000
    nanos = (in_day - seconds * 1_000_000) * 1000
    pieces, date = _date_message(days)
    second_word, second_bytes = small_varints(seconds.view(np.uint64))
    second_bytes = np.where(seconds == 0, 0, second_bytes + 1)
    clock = second_bytes
    if nanos.any():
        nano_word, nano_bytes = small_varints(nanos.view(np.uint64))
        nano_bytes = np.where(nanos == 0, 0, nano_bytes + 1)
        clock = second_bytes + nano_bytes
    inner = date + clock + 4
    head = (inner << 32) + (inner << 8) + (DATUM | 3 << 8 | MESSAGE_TAGS[column_type.kind] << 16)
    head += (date << 48) + (DATUM << 40)
    pieces = [(head.view(np.uint64), 7), *pieces]
    time = second_word << np.uint64(24) | (clock << 8).view(np.uint64) | np.uint64(0x080012)
    pieces.append((time, second_bytes + 2))
    if nanos.any():
        pieces.append((nano_word << np.uint64(8) | np.uint64(0x10), nano_bytes))
    return pieces


def _numeric(array: pa.Array, column_type: ColumnType) -> list[Piece]:
    words = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)
    bcd, length = packed_decimals(words[array.offset : array.offset + len(array)])
    scale = column_type.scale or 0
    inner = length + (4 if scale else 2)
    head = (inner << 32) + (inner << 8) + (DATUM | 3 << 8 | MESSAGE_TAGS[Kind.NUMERIC] << 16)
    head += (length << 48) + (DATUM << 40)
    pieces: list[Piece] = [(head.view(np.uint64), 7), *bcd]
    return [*pieces, (scale << 8 | 0x10, 2)] if scale else pieces


_ENCODERS: Final[dict[Kind, Callable[[pa.Array, ColumnType], list[Piece]]]] = {
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
