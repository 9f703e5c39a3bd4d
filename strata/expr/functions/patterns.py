"""Patterns of dates and times, as `date_format` writes them and `to_timestamp` reads them.

Only patterns of whole numbers of fixed width are known (`yyyy MM dd HH mm ss`, `S` to `SSSSSS`),
with signs or quoted words between them. If the fields are in descending order without a gap, texts
sort like their times, within one value of the field above the first.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.expr import calendar
from strata.expr.calendar import DAY_US, SECOND_US
from strata.expr.spec import Bounds, Flags

# NumPy's text of a moment is "YYYY-MM-DDTHH:MM:SS.ffffff": where each field stands in it.
_PLACES: Final = {
    "yyyy": (0, 4),
    "MM": (5, 7),
    "dd": (8, 10),
    "HH": (11, 13),
    "mm": (14, 16),
    "ss": (17, 19),
    **{"S" * n: (20, 20 + n) for n in range(1, 7)},
}
_ORDER: Final = ("yyyy", "MM", "dd", "HH", "mm", "ss", "S")
_TOKEN: Final = re.compile(r"([A-Za-z])\1*|'([^']+)'|([-/:. ,_])")
_FRAME_US: Final = {
    "HH": DAY_US,
    "mm": 3600 * SECOND_US,
    "ss": 60 * SECOND_US,
    "S": SECOND_US,
}

# Years 1 to 9999: before and after them a year has a sign or an era.
FIRST_US: Final = -719_162 * DAY_US
LAST_US: Final = 2_932_897 * DAY_US - 1


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern whose texts all have one width."""

    template: bytes  # a digit stands for a digit, anything else for itself
    columns: tuple[int, ...]  # the column of NumPy's text for each byte; -1 for a sign
    fields: tuple[tuple[str, int, int], ...]  # field, start, end in the text
    ordered: bool  # the fields descend without a gap, so texts sort like times

    @property
    def first(self) -> str:
        """Return the field of the pattern that comes first."""
        return self.fields[0][0]


@lru_cache(maxsize=256)
def parse_pattern(text: str) -> Pattern | None:
    """Return the meaning of a pattern; None for an unknown one.

    >>> parse_pattern("yyyy-MM").ordered, parse_pattern("dd.MM").ordered, parse_pattern("EEE")
    (True, False, None)
    """
    template, position = b"", 0
    columns: list[int] = []
    fields: list[tuple[str, int, int]] = []
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or (token[1] and token[0] not in _PLACES):
            return None
        if token[1]:
            start, end = _PLACES[token[0]]
            fields.append(
                (
                    token[0][:1] if token[0][0] == "S" else token[0],
                    len(columns),
                    len(columns) + end - start,
                )
            )
            template, columns = template + b"0" * (end - start), [*columns, *range(start, end)]
        else:
            literal = (token[2] or token[3]).encode()
            if any(byte > 127 or chr(byte).isdigit() for byte in literal):
                return None
            template, columns = template + literal, [*columns, *[-1] * len(literal)]
        position = token.end()
    names = [name for name, _, _ in fields]
    if not names or len(set(names)) < len(names):
        return None
    start = _ORDER.index(names[0])
    ordered = names == list(_ORDER[start : start + len(names)])
    return Pattern(template, tuple(columns), tuple(fields), ordered)


def same_frame(pattern: Pattern, low: Bounds, high: Bounds) -> Flags:
    """Return where two moments differ only in fields of the pattern, so that texts sort."""
    if pattern.first == "yyyy":
        return np.array([True])
    if pattern.first in ("MM", "dd"):
        size = 12 if pattern.first == "MM" else 1
        one, other = (calendar.months(x // DAY_US) // size for x in (low, high))
        same: Flags = one == other
        return same
    frame = _FRAME_US[pattern.first]
    within: Flags = low // frame == high // frame
    return within


def shown(pattern: Pattern, micros: Bounds) -> pa.Array:
    """Return moments of the years 1 to 9999 as a pattern writes them, as binary."""
    inside = np.clip(micros, FIRST_US, LAST_US)
    text = np.datetime_as_string(inside.astype("M8[us]"), unit="us").astype("S26")
    digits = text.view(np.uint8).reshape(len(inside), 26)
    columns = np.array(pattern.columns)
    found = np.where(columns < 0, np.frombuffer(pattern.template, np.uint8), digits[:, columns])
    return as_binary(np.ascontiguousarray(found.astype(np.uint8)))


def as_binary(chars: np.ndarray[Any, Any]) -> pa.Array:
    """Return a matrix of bytes as binary, one value a row."""
    count, width = chars.shape
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), count, [None, pa.py_buffer(chars.tobytes())]
    )
    return fixed.cast(pa.binary())


def as_chars(bound: Any, width: int) -> np.ndarray[Any, Any]:
    """Return the first bytes of binary values as a matrix, filled with zeros; null is empty."""
    values = pa.array([bound.as_py()], pa.binary()) if isinstance(bound, pa.Scalar) else bound
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if values.null_count:
        values = values.fill_null(b"")
    _, ends, data = values.buffers()
    chars = np.zeros((len(values), width), np.uint8)
    if data is None or not data.size:
        return chars
    offsets = np.frombuffer(ends, np.int32)[values.offset : values.offset + len(values) + 1]
    flat, starts = np.frombuffer(data, np.uint8), offsets[:-1]
    for place in range(int(min(width, np.diff(offsets).max(initial=0)))):  # a few, not a row each
        inside = starts + place < offsets[1:]
        chars[inside, place] = flat[starts[inside] + place]
    return chars


def read(pattern: Pattern, chars: np.ndarray[Any, Any], *, upward: bool) -> Bounds:
    """Return the earliest, or `upward` the latest, moment that a bound of texts permits.

    Every text that the pattern reads and that is not beyond the bound stands for a moment not
    beyond the result. After the longest prefix of the bound that fits the pattern, the lowest or
    highest continuation is assumed. A letter is read in either case, so a prefix ends before it.
    """
    template = np.frombuffer(pattern.template, np.uint8)
    digit = template == ord("0")
    letter = (template | 32 >= ord("a")) & (template | 32 <= ord("z"))
    fits = np.where(digit, (chars >= 48) & (chars <= 57), (chars == template) & ~letter)
    start = np.logical_and.accumulate(fits, axis=1)
    filled = np.where(start, chars, ord("9") if upward else ord("0"))
    values = {
        name: _whole(filled[:, low:high], 6 if name == "S" else 0)
        for name, low, high in pattern.fields
    }
    if upward and "S" in values:  # what the pattern does not read is zero
        values["S"] = np.minimum(values["S"], 999_999)
    return _moment(values, upward=upward)


def _whole(digits: np.ndarray[Any, Any], places: int) -> Bounds:
    """Return the numbers of some digits, filled up with zeros to `places`."""
    width = digits.shape[1]
    tens = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    number: Bounds = (digits.astype(np.int64) - 48) @ tens
    return number * 10 ** (places - width) if places > width else number


def _moment(values: dict[str, Bounds], *, upward: bool) -> Bounds:
    """Return microseconds; fields beyond their limits become the nearest valid value."""
    year = values["yyyy"]  # four digits: 0 to 9999
    month = values.get("MM", np.ones_like(year))
    late, early = month > 12, month < 1
    month = np.clip(month, 1, 12)
    start = calendar.month_start((year - 1970) * 12 + month - 1)
    last = calendar.month_start((year - 1970) * 12 + month) - start
    day = np.clip(values.get("dd", np.ones_like(year)), 1, last)
    over, clock = late & upward, np.zeros_like(year)
    beyond = np.zeros_like(late)  # then later fields may be anything
    for name, length, most in (("HH", 3600, 23), ("mm", 60, 59), ("ss", 1, 59)):
        if name in values:
            beyond = beyond | (values[name] > most)
            clock = clock + np.where(beyond & upward, most, np.minimum(values[name], most)) * length
    micros = clock * SECOND_US + values.get("S", np.zeros_like(year))
    micros = np.where(beyond & upward, clock * SECOND_US + SECOND_US - 1, micros)
    if upward:  # a day that does not exist ends before the next month
        beyond = values.get("dd", day) > last
        day, micros = np.where(over, last, day), np.where(over | beyond, DAY_US - 1, micros)
    else:
        micros = np.where(early | (values.get("dd", day) < 1), 0, micros)
        day = np.where(early, 1, day)
    moment: Bounds = (start + day - 1) * DAY_US + micros
    return moment
