"""Reads texts of dates and timestamps that a declared form describes (`strata.model.written`).

All texts of a column are read at once: each has a cursor, and each piece of the form moves all
cursors. A text is good if every piece fits, the day is one of the calendar, and nothing is left
over. White space around a text is allowed. The twin of this is `strata.ingest.twin.written`.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.values.cast import from_arrow
from strata.ingest.values.column import Cast, all_or_halves, choose, plainly, valid
from strata.kernels.arrays import Bools, Bytes, Ints
from strata.model.types import ColumnType, Kind
from strata.model.written import FRACTION, HALF, LITERAL, NAMES, ZONE, FormPiece, WrittenForm

Numbers = npt.NDArray[Any]  # int32 where that is enough
Convert = Callable[[Any, ColumnType], Cast]
MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_FIRSTS: Final = np.arange("0001-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]")
# Of the month 12 * year + month: days from 1970 to the day before it, and how many days it has.
DAYS_TO: Final = np.concatenate([np.zeros(13, np.int64), _FIRSTS[:-1].astype(np.int64) - 1])
DAYS_IN: Final = np.concatenate([np.zeros(13, np.int64), np.diff(_FIRSTS).astype(np.int64)])
DAY_MICROS: Final = 86_400_000_000
EPOCH: Final = 719_162  # days from 0001-01-01 to 1970-01-01
MOST_DAY: Final = 3_652_058  # 9999-12-31, counted likewise
ZERO, PLUS, MINUS, UPPER_Z = b"0+-Z"
LONGEST: Final = 16  # bytes that a piece reads beside its own characters, at most
LOWER: Final = 0x20  # makes an ASCII letter lower case
_MOST: Final = {"H": 23, "m": 59, "s": 59}


def from_written(values: Any, target: ColumnType, form: WrittenForm, convert: Convert) -> Cast:
    """Return a raw column typed: its texts by their form, and all other values by `convert`.

    Shape: `values` as a reader has them, a list of objects or an array of Arrow.
    """
    if isinstance(values, list):
        return _of_objects(values, target, form, convert)
    array = plainly(values)
    kind = str(array.type)
    if not any(word in kind for word in ("string", "binary")) or pa.types.is_nested(array.type):
        return convert(values, target)
    return read_written(array.cast(pa.binary()), target, form)


def _of_objects(values: list[Any], target: ColumnType, form: WrittenForm, convert: Convert) -> Cast:
    is_text = [isinstance(value, str) for value in values]
    encoded = [
        value.encode(errors="surrogatepass") if text else None
        for value, text in zip(values, is_text, strict=True)
    ]
    texts = read_written(pa.array(encoded, pa.binary()), target, form)
    if all(text or value is None for value, text in zip(values, is_text, strict=True)):
        return texts
    others = [None if text else value for value, text in zip(values, is_text, strict=True)]
    return choose(is_text, texts, convert(others, target))


def read_written(texts: pa.Array, target: ColumnType, form: WrittenForm) -> Cast:
    """Return texts as dates, timestamps or timestamptz; one of another form is bad.

    Shape: `texts` binary, null allowed. Cost: a text that does not fit is read again without the
    white space around it.
    """
    there = valid(texts)
    some = texts.drop_null() if texts.null_count else texts
    found, fits = _read(some, form)
    wrong = np.flatnonzero(~fits)
    if len(wrong):
        again = all_or_halves(
            some.take(pa.array(wrong)), pa.string(), lambda few: few.cast(pa.string())
        )
        bare = pc.utf8_trim_whitespace(again.values).cast(pa.binary())
        found[wrong], better = _read(bare, form)
        fits[wrong] = better & valid(bare)
    micros, good = found, fits
    if texts.null_count:
        micros, good = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
        micros[there], good[there] = found, fits
    mask, bad = ~good, np.flatnonzero(there & ~good)
    if target.kind is Kind.DATE:
        days = pa.array((micros // DAY_MICROS).astype(np.int32), pa.int32(), mask=mask)
        return from_arrow(days.view(pa.date32()), target).also(bad)
    moments = pa.array(micros, pa.int64(), mask=mask).view(pa.timestamp("us"))
    return from_arrow(moments, target).also(bad)


def _read(texts: pa.Array, form: WrittenForm) -> tuple[Ints, Bools]:
    """Return microseconds since 1970 of each text, and which texts have the form."""
    count = len(texts)
    if not count:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    whole = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + count + 1]
    data = texts.buffers()[2]
    raw = np.frombuffer(b"" if data is None else data, np.uint8)[whole[0] : whole[-1]]
    reading = _Reading(raw, whole - whole[0], form)
    for piece in form.pieces:
        reading.take(piece)
    return reading.micros(form.since), reading.good & (reading.at == reading.stops)


class _Reading:
    """Texts that are read piece by piece, with the values found so far.

    Where all texts and all pieces have one width, one cursor serves all texts, and the bytes lie
    text under text: that is three times as fast.
    """

    at: Any
    stops: Any

    def __init__(self, raw: Bytes, ends: Ints, form: WrittenForm) -> None:
        self.count = len(ends) - 1
        self.good: Bools = np.ones(self.count, np.bool_)
        self.found: dict[str, Numbers] = {}
        most = sum(len(piece.text.encode()) + LONGEST for piece in form.pieces)
        width = _width(form)
        self.under: Bytes | None = None
        if width is not None and (np.diff(ends) == width).all():
            self.under = np.zeros((width + most, self.count), np.uint8)
            self.under[:width] = raw.reshape(self.count, width).T
            self.at, self.stops = 0, width
        else:  # behind the last text stand zeros, for as many bytes as a form can read
            self.raw = np.concatenate([raw, np.zeros(most, np.uint8)])
            self.at, self.stops = ends[:-1].astype(np.int64), ends[1:]

    def take(self, piece: FormPiece) -> None:
        """Read one piece of every text, and move behind it."""
        if piece.field == LITERAL:
            self._literal(piece.text.encode())
        elif piece.field == NAMES:
            self._name(piece.most)
        elif piece.field == HALF:
            self._half()
        elif piece.field == ZONE:
            self._zone(piece.text)
        else:
            self._number(piece)

    def _byte(self, ahead: int) -> Bytes:
        """Return one byte of every text, counted from the cursor."""
        found: Bytes = (self.raw if self.under is None else self.under)[self.at + ahead]
        return found

    def _literal(self, wanted: bytes) -> None:
        for ahead, byte in enumerate(wanted):
            self.good &= self._byte(ahead) == byte
        self.at += len(wanted)
        self._stay()

    def _number(self, piece: FormPiece) -> None:
        value: Numbers = np.zeros(self.count, np.int32)
        for ahead in range(piece.least):
            digit = self._byte(ahead) - ZERO  # wraps below the digits
            self.good &= digit < 10
            value = 10 * value + digit
        if piece.least == piece.most and piece.field != FRACTION:
            self.at += piece.most
        else:
            value = self._longer(piece, value)
        self.found[piece.field] = value
        self._stay()

    def _longer(self, piece: FormPiece, value: Numbers) -> Numbers:
        """Return a number with the digits that may follow, and move behind them."""
        width = np.full(self.count, piece.least, np.int64)
        going: Bools = np.ones(self.count, np.bool_)
        for ahead in range(piece.least, piece.most):
            digit = self._byte(ahead) - ZERO
            going = going & (digit < 10) & (self.at + ahead < self.stops)
            value = np.where(going, 10 * value + digit, value)
            width += going
        self.at = self.at + width
        if piece.field != FRACTION:
            return value
        # Of nanoseconds; what is finer than a microsecond does not fit
        nanos = value.astype(np.int64) * 10 ** (9 - width)
        self.good &= nanos % 1000 == 0
        return nanos

    def _name(self, letters: int) -> None:
        month: Numbers = np.zeros(self.count, np.int32)
        width = np.zeros(self.count, np.int64)
        read = [self._byte(ahead) | LOWER for ahead in range(3 if letters == 3 else 9)]
        for number, name in enumerate(MONTHS, 1):
            wanted = name[:3] if letters == 3 else name
            fits: Bools = np.ones(self.count, np.bool_)
            for byte, letter in zip(read, wanted.encode(), strict=False):
                fits &= byte == letter
            month[fits], width[fits] = number, len(wanted)
        self.found["M"] = month
        self.good &= month > 0
        self.at = self.at + width
        self._stay()

    def _half(self) -> None:
        first, second = self._byte(0) | LOWER, self._byte(1) | LOWER
        afternoon = first == ord("p")
        self.good &= (afternoon | (first == ord("a"))) & (second == ord("m"))
        self.found[HALF] = afternoon.astype(np.int64)
        self.at += 2
        self._stay()

    def _zone(self, between: str) -> None:
        """Read Z, or a sign, hours and minutes."""
        sign = self._byte(0)
        nothing = sign == UPPER_Z
        digits = [
            (self._byte(ahead) - ZERO).astype(np.int64)
            for ahead in (1, 2, 3 + len(between), 4 + len(between))
        ]
        hours, minutes = 10 * digits[0] + digits[1], 10 * digits[2] + digits[3]
        fits = (sign == PLUS) | (sign == MINUS)
        for digit in digits:
            fits &= digit < 10
        if between:
            fits &= self._byte(3) == ord(between)
        fits &= (hours < 24) & (minutes < 60)
        self.good &= nothing | fits
        offset = np.where(nothing, 0, 60 * hours + minutes)
        self.found[ZONE] = np.where(sign == MINUS, -offset, offset)
        self.at = self.at + np.where(nothing, 1, 5 + len(between))
        self._stay()

    def _stay(self) -> None:
        """End the reading of texts whose piece ended behind them."""
        self.good &= self.at <= self.stops

    def micros(self, since: int | None) -> Ints:
        """Return the moments since 1970; `good` is false for days and times that do not exist."""
        year, month, day = (self.found[field] for field in "yMd")
        if since is not None:
            year = since + (year - since) % 100
        hour = self.found.get("H")
        if "h" in self.found:
            clock = self.found["h"]
            self.good &= (clock >= 1) & (clock <= 12)
            hour = clock % 12 + 12 * self.found[HALF]
        for field, most in _MOST.items():
            if field in self.found:
                self.good &= self.found[field] <= most
        self.good &= (month >= 1) & (month <= 12) & (year >= 1) & (year <= 9999)
        first = np.where(self.good, 12 * year + month, 12 + 1)  # of a month that exists
        self.good &= (day >= 1) & (day <= DAYS_IN[first])
        days = DAYS_TO[first] + day
        seconds = (
            60 * self.found.get("m", 0) + self.found.get("s", 0) - 60 * self.found.get(ZONE, 0)
        )
        if hour is not None:
            seconds = seconds + 3600 * hour
        micros = (
            days * DAY_MICROS + np.int64(1_000_000) * seconds + self.found.get(FRACTION, 0) // 1000
        )
        inside = (micros >= -EPOCH * DAY_MICROS) & (micros < (MOST_DAY - EPOCH + 1) * DAY_MICROS)
        self.good &= inside
        result: Ints = np.where(self.good, micros, 0)
        return result


def _width(form: WrittenForm) -> int | None:
    """Return how many bytes each text has; None if they may differ in that."""
    widths = {LITERAL: 0, HALF: 2}
    found = 0
    for piece in form.pieces:
        if piece.field in (NAMES, ZONE, FRACTION) or piece.least != piece.most:
            return None
        found += widths.get(piece.field, piece.most) + len(piece.text.encode())
    return found
