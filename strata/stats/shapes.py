"""What all texts of a place are written like: whole numbers, numbers, or moments by a pattern.

The range of texts says nothing about the numbers in them ("10" < "9"), and nothing about whether a
cast takes them. A shape does: where each text of a part is a whole number, a cast to a number takes
them all, and their numbers have bounds of their own. Only shapes are known that every mode of Spark
reads alike: digits behind at most a minus, with at most one point between them, and dates and times
of fixed width that exist in the calendar.

Errs: a place without a shape may hold anything. One other text in a part, and it has none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.columns import child
from strata.format.values.coded import is_coded, texts_of
from strata.format.values.physical import offsets
from strata.kernels.arrays import Bools, Bytes, Ints
from strata.model.schema import Relation
from strata.model.types import Kind
from strata.stats.flat import Values
from strata.stats.json_bounds import at_least, at_most
from strata.stats.nested import Place, enter, places
from strata.stats.wire import (
    SHAPE,
    Path,
    Steps,
    inside_name,
    parse_name,
    path_name,
    shape_name,
)

LONGEST: Final = 32  # bytes of a text with a shape
WHOLE_DIGITS: Final = 18  # with the sign: what they stand for fits 64 bits
PLACES: Final = 256  # of a relation that are looked at, in the order of its columns
LOOK: Final = 8  # texts that are looked at first: most places have no shape

DATES: Final = ("yyyy{0}MM{0}dd", "dd{0}MM{0}yyyy", "MM{0}dd{0}yyyy")
_SIGNS: Final = "-/. "
CLOCKS: Final = ("HH:mm", "HH:mm:ss", *(f"HH:mm:ss.{'S' * n}" for n in range(1, 7)))
_WIDTHS: Final = {"y": 4, "M": 2, "d": 2, "H": 2, "m": 2, "s": 2, "S": 1}
_DAYS: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int16)

Small = np.ndarray[Any, np.dtype[np.int16]]


@dataclass(frozen=True, slots=True)
class TextShape:
    """What some texts, at least one, are all written like."""

    whole: tuple[int, int] | None = None  # the least and the greatest, if all are whole numbers
    number: tuple[float, float] | None = None  # likewise of numbers with or without a fraction
    patterns: frozenset[str] = frozenset()  # each of them reads each text as a moment that exists

    def __bool__(self) -> bool:
        return bool(self.number or self.patterns)

    def joined(self, other: "TextShape") -> "TextShape":
        """Return what these texts and others are written like."""
        return TextShape(
            _hull(self.whole, other.whole),
            _hull(self.number, other.number),
            self.patterns & other.patterns,
        )


def _hull(a: Any, b: Any) -> Any:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


NONE: Final = TextShape()


def texts_shape(texts: pa.Array) -> TextShape | None:
    """Return what texts are written like; None if there are none. Nulls count as absent.

    Twin: `tests.twins.shapes`, text by text.
    """
    texts = pc.drop_null(texts) if texts.null_count else texts
    if not len(texts):
        return None
    found = _looked_at(texts.slice(0, LOOK))
    if found and len(texts) > LOOK:
        found = _looked_at(texts)
    return found


def _looked_at(texts: pa.Array) -> TextShape:
    ends = offsets(texts).astype(np.int64)
    lengths = np.diff(ends)
    shortest, longest = int(lengths.min()), int(lengths.max())
    if not 0 < shortest <= longest <= LONGEST:
        return NONE
    data = np.frombuffer(texts.buffers()[2], np.uint8)[ends[0] : ends[-1]]
    whole, number = _numbers(texts, data, ends - ends[0], longest)
    patterns = _patterns(_upright(data, longest)) if shortest == longest else frozenset[str]()
    return TextShape(whole, number, patterns)


def _upright(data: Bytes, width: int) -> Bytes:
    """Return texts of one width as a matrix of bytes, one text a column."""
    return np.ascontiguousarray(data.reshape(-1, width).T)


def _is_digit(data: Bytes) -> Bools:
    return (data - np.uint8(48)) < 10


def _numbers(
    texts: pa.Array, data: Bytes, ends: Ints, longest: int
) -> tuple[tuple[int, int] | None, tuple[float, float] | None]:
    """Return the bounds of texts as whole numbers, and as numbers; None where some are none."""
    first, last = data[ends[:-1]], data[ends[1:] - 1]
    minus = first == ord("-")
    points = data == ord(".")
    fits = _is_digit(data) | points
    if np.count_nonzero(~fits) != np.count_nonzero(minus) or not _is_digit(last).all():
        return None, None
    # The byte behind a minus is the text's: no text ends with one
    leading = np.where(minus, data[np.minimum(ends[:-1] + 1, len(data) - 1)], first)
    if not _is_digit(leading).all():
        return None, None
    try:
        if not points.any() and longest <= WHOLE_DIGITS:
            low, high = _ends(texts.cast(pa.int64()), minus)
            return (low, high), (float(low), float(high))
        low, high = _ends(texts.cast(pa.float64()), minus)
        return None, (low, high)
    except ValueError:  # two points, or a zero below zero
        return None, None


def _ends(values: pa.Array, minus: Bools) -> tuple[Any, Any]:
    """Return the extremes. Raises: ValueError for "-0", which is no zero like another."""
    found = np.asarray(values)
    if (minus & (found == 0)).any():
        raise ValueError("-0")
    return found.min().item(), found.max().item()


def _patterns(chars: Bytes) -> frozenset[str]:
    """Return the patterns that read each text, a column of bytes, as a moment that exists."""
    template = chars[:, 0].copy()
    digit = _is_digit(template)
    template[digit] = ord("0")
    known = _known_patterns().get(template.tobytes(), ())
    if not known or not _alike(chars, digit):
        return frozenset()
    return frozenset(pattern for pattern, fields in known if _exist(chars, fields))


def _alike(chars: Bytes, digit: Bools) -> bool:
    """Return whether all texts have digits, and the same other signs, in the same places."""
    return all(
        bool((_is_digit(row) if is_digit else row == row[0]).all())
        for row, is_digit in zip(chars, digit, strict=True)
    )


def _exist(chars: Bytes, fields: dict[str, int]) -> bool:
    """Return whether all texts are days of the years 1 to 9999, and times of a day."""
    digits = chars - np.uint8(48)

    def number(field: str) -> Small:
        start = fields[field]
        value: Small = digits[start].astype(np.int16)
        for place in range(start + 1, start + _WIDTHS[field]):
            value = value * np.int16(10) + digits[place]
        return value

    year, month, day = number("y"), number("M"), number("d")
    if not ((year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)).all():
        return False
    leap = (month == 2) & (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    if not (day <= _DAYS[month] + leap).all():
        return False
    limits = (("H", 23), ("m", 59), ("s", 59))
    return all(bool((number(name) <= most).all()) for name, most in limits if name in fields)


@cache
def _known_patterns() -> dict[bytes, tuple[tuple[str, dict[str, int]], ...]]:
    """Return the patterns by the template of their texts, and where their fields begin."""
    found: dict[bytes, list[tuple[str, dict[str, int]]]] = {}
    for pattern in known_patterns():
        template, fields = b"", dict[str, int]()
        for char in pattern.replace("'T'", "\0").replace("'Z'", "\1"):
            if char in _WIDTHS:
                fields.setdefault(char, len(template))
            template += (
                b"0" if char in _WIDTHS else {"\0": b"T", "\1": b"Z"}.get(char) or (char.encode())
            )
        found.setdefault(template, []).append((pattern, fields))
    return {template: tuple(patterns) for template, patterns in found.items()}


def known_patterns() -> Iterator[str]:
    """Yield the patterns of moments that are looked for, as `to_timestamp` takes them."""
    dates = [date.format(sign) for date in DATES for sign in _SIGNS]
    for date in (*dates, "yyyyMMdd"):
        yield date
        for join in (" ", "'T'"):
            for clock in CLOCKS:
                yield f"{date}{join}{clock}"
                yield f"{date}{join}{clock}'Z'"


@cache
def patterns_known() -> frozenset[str]:
    """Return the patterns of `known_patterns`."""
    return frozenset(known_patterns())


class Shapes:
    """Takes the rows of a part as they come, and remembers what their texts are written like."""

    def __init__(self, relation: Relation) -> None:
        """Begin without rows."""
        self._columns = dict(_text_places(relation))
        self._found: dict[str, TextShape | None] = {}

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows; a column that they lack has no shape."""
        there = set(rows.schema.names)
        for column_id, inside in self._columns.items():
            names = {one.steps: inside_name(column_id, one.steps) for one in inside}
            left = {s: n for s, n in names.items() if self._found.get(n, None) != NONE}
            if not left:
                continue
            if child(column_id) not in there:
                self._found |= dict.fromkeys(left.values(), NONE)
                continue
            for steps, values in _behind(rows.column(child(column_id)), tuple(left)):
                self._add(left[steps], values)

    def add_paths(self, column_id: int, found: Mapping[Path, TextShape]) -> None:
        """Add what strings at paths of JSON are written like, those of each path at least one."""
        for path, one in found.items():
            name = path_name(column_id, path)
            before = self._found.get(name)
            self._found[name] = one if before is None else before.joined(one)

    def _add(self, name: str, values: Values) -> None:
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        for chunk in chunks:
            one = texts_shape(texts_of(chunk) if is_coded(chunk.type) else chunk)
            before = self._found.get(name)
            if one is not None:
                self._found[name] = one if before is None else before.joined(one)
            if self._found.get(name) == NONE:
                return

    def beside(self, stats: pa.RecordBatch) -> pa.RecordBatch:
        """Return the statistics of the part, one row, with the shapes of its places.

        A path of JSON without statistics has no shape: nobody knows what else is there.
        """
        there = {*stats.schema.names}
        for name, shape in self._found.items():
            parsed = parse_name(name)
            known = parsed is None or parsed[1] is None
            known = known or (name in there and stats.column(name)[0].is_valid)
            if shape and known:
                stats = stats.append_column(shape_name(name), pa.array([_stored(shape)], SHAPE))
        return stats


def _stored(shape: TextShape) -> dict[str, Any]:
    low, high = shape.number or (None, None)
    if shape.whole is not None:
        low, high = at_most(shape.whole[0]), at_least(shape.whole[1])
    patterns = "\n".join(sorted(shape.patterns)) or None
    return {"low": low, "high": high, "whole": shape.whole is not None, "patterns": patterns}


def encloses(fields: Mapping[str, Any], shape: TextShape) -> bool:
    """Return whether recorded fields are true of texts of a shape."""
    low, high = fields["low"], fields["high"]
    if low is not None and high is not None:
        ends = shape.whole if fields["whole"] else shape.number
        if ends is None or not low <= ends[0] <= ends[1] <= high:
            return False
    return {*(fields["patterns"] or "").splitlines()} <= shape.patterns


def _text_places(relation: Relation) -> Iterator[tuple[int, tuple[Place, ...]]]:
    left = PLACES
    for column in relation.columns:
        kinds = (Kind.STRING, Kind.VARCHAR)
        inside = tuple(one for one in places(column.type) if one.type.kind in kinds)[:left]
        left -= len(inside)
        if inside:
            yield column.id, inside


def _behind(values: Values, wanted: tuple[Steps, ...]) -> Iterator[tuple[Steps, Values]]:
    """Yield the values behind the steps to each place; a way is gone once."""
    known: dict[Steps, Values] = {(): values}
    for steps in wanted:
        for length in range(1, len(steps) + 1):
            if steps[:length] not in known:
                known[steps[:length]] = enter(known[steps[: length - 1]], steps[length - 1])
        yield steps, known[steps]
