"""Pieces of texts between delimiters: known where all texts of a range begin alike.

The prefix that two bounds share is the start of every text between them. The delimiters in it are
in every text, so a piece that ends in the prefix is known, and the piece behind them is there and
bounded by what is left of the bounds. A text of a fixed pattern has a fixed number of pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.elements import Elements
from strata.expr.entry import Context, Entry, Outcome, literal, opened, strict, texts
from strata.expr.functions import exact_texts as exact
from strata.expr.functions import many_texts as many
from strata.expr.functions.patterns import as_chars
from strata.expr.functions.points import NotEvaluated, pointwise
from strata.expr.functions.text import may_overflow
from strata.expr.nodes import Call
from strata.expr.shapes import Shape, shape_of
from strata.expr.spec import NO, Bounds, Spec, TextBound, Texts, text_where
from strata.kernels.arrays import Bools, Bytes, Ints

_LOOKED_AT: Final = 64  # bytes of a shared prefix
_OPEN: Final = pa.scalar(None, pa.binary())
_MEMBERS: Final = 8  # pieces of a list that are known one by one


@dataclass(frozen=True)
class _Ranges:
    """Texts of each part, and the delimiters in the prefix that all texts of a part share."""

    low: pa.Array
    high: pa.Array
    starts: Ints  # (parts, n): where the n-th delimiter of the prefix begins; -1 without one
    width: int  # bytes of the delimiter

    @property
    def shared(self) -> Ints:
        """Return how many delimiters are in the prefix."""
        found: Ints = np.count_nonzero(self.starts >= 0, axis=1)
        return found


def _ranges(values: Texts, delimiter: str) -> _Ranges | None:
    """Return the delimiters that texts share; None where an end is open, or matches may overlap."""
    found = delimiter.encode()
    if values.low is None or values.high is None or len(set(found)) != len(found):
        return None
    ends = _as_array(values.low), _as_array(values.high)
    if len({len(end) for end in ends}) > 1:
        return None
    low, high = (as_chars(end, _LOOKED_AT) for end in ends)
    valid = np.asarray(pc.and_(pc.is_valid(ends[0]), pc.is_valid(ends[1])))
    alike = np.logical_and.accumulate((low == high) & (low > 0) & valid[:, None], axis=1)
    return _Ranges(*ends, _starts(low, alike, found), len(found))


def _as_array(end: pa.Array | pa.Scalar) -> pa.Array:
    found = pa.array([end.as_py()], pa.binary()) if isinstance(end, pa.Scalar) else end
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _starts(low: Bytes, alike: Bools, delimiter: bytes) -> Ints:
    """Return where delimiters begin, in order, the missing ones -1. Shape: (parts, most)."""
    places = _LOOKED_AT - len(delimiter) + 1
    there = alike[:, len(delimiter) - 1 :].copy()
    for at, byte in enumerate(delimiter):
        there &= low[:, at : at + places] == byte
    most = int(np.count_nonzero(there, axis=1).max(initial=0))
    order = np.argsort(~there, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(there, order, axis=1), order, -1)


def _cut(ends: pa.Array, begin: Ints, length: Ints | None = None) -> pa.Array:
    """Return what each text has behind a place, or some bytes of that; null of null.

    Arrow has no slices that begin elsewhere in each text.
    """
    values = ends.fill_null(b"") if ends.null_count else ends
    span = slice(values.offset, values.offset + len(values) + 1)
    borders = np.frombuffer(values.buffers()[1], np.int32)[span].astype(np.int64)
    first = np.minimum(borders[:-1] + begin, borders[1:])
    last = borders[1:] if length is None else np.minimum(first + length, borders[1:])
    places = np.concatenate(([0], np.cumsum(last - first)))
    source = np.repeat(first - places[:-1], last - first) + np.arange(places[-1])
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[source]
    buffers = [None, pa.py_buffer(places.astype(np.int32)), pa.py_buffer(data)]
    found = pa.Array.from_buffers(pa.binary(), len(values), buffers)
    return pc.if_else(pc.is_valid(ends), found, _OPEN) if ends.null_count else found


def _shortened(low: TextBound, delimiter: str) -> TextBound:
    """Return a bound of what is in front of the first delimiter in texts that are not below `low`.

    It sorts before `low` only if a delimiter may come in place of a letter that sorts no higher
    than the delimiter; the bound ends there.
    """
    first = delimiter[0]
    if low is None or not 0 < ord(first) < 128:
        return pa.scalar(b"", pa.binary())
    pattern = f"(?s)[\\x00-\\x{ord(first):02x}].*"
    text = pc.coalesce(pc.cast(low, pa.string()), pa.scalar(""))
    return pc.cast(pc.replace_substring_regex(text, pattern, ""), pa.binary())


def _first_piece(values: Texts, delimiter: str) -> Texts:
    """Return the text before the first delimiter, or before a later one: a prefix of the text."""
    return Texts(_shortened(values.low, delimiter), values.high)


def _piece(ranges: _Ranges, delimiter: str, number: int) -> Texts:
    """Return a piece, counted from 0; any text where the shared prefix has too few delimiters."""
    begin, end = (_column(ranges.starts, place) for place in (number - 1, number))
    at = np.where(begin >= 0, begin + ranges.width, 0)
    low, high = (_cut(side, at) for side in (ranges.low, ranges.high))
    whole = _cut(low, np.zeros_like(at), np.where(end >= 0, end - at, 0))
    low = text_where(end >= 0, whole, _shortened(low, delimiter))
    high = text_where(end >= 0, whole, high)
    known = ranges.shared >= number
    return Texts(text_where(known, low, None), text_where(known, high, None))


def _column(starts: Ints, number: int) -> Ints:
    """Return where a delimiter begins, -1 where the prefix has fewer."""
    there = 0 <= number < starts.shape[1]
    return starts[:, number] if there else np.full(len(starts), -1)


def _as_given(found: Texts, values: Texts) -> Texts:
    """Return texts as scalars where those that they are made of are, which stand for all parts."""
    if not (isinstance(values.low, pa.Scalar) and isinstance(values.high, pa.Scalar)):
        return found
    low, high = (end[0] if isinstance(end, pa.Array) else end for end in (found.low, found.high))
    return Texts(low, high)


def _substring_index(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the text before a delimiter: a prefix, known where all texts share it."""
    delimiter, count = literal(call, 1), literal(call, 2)
    text = delimiter.value if delimiter is not None else None
    number = count.value if count is not None else None
    if not isinstance(text, str) or not text or not isinstance(number, int) or number < 1:
        return opened(call, args, null=False, fail=False)
    values = texts(args[0])
    found = _first_piece(values, text)
    ranges = _ranges(values, text)
    if ranges is not None and ranges.starts.shape[1] >= number:
        end = _column(ranges.starts, number - 1)
        whole = _cut(ranges.low, np.zeros_like(end), np.where(end >= 0, end, 0))
        low, high = (text_where(end >= 0, whole, side) for side in (found.low, found.high))
        found = _as_given(Texts(low, high), values)
    return strict(args, Outcome(found))


def _split_part(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return a piece of a text, empty if there is none; piece 0 fails."""
    delimiter, number = literal(call, 1), literal(call, 2)
    place = number.value if number is not None else None
    text = delimiter.value if delimiter is not None else None
    if not isinstance(text, str) or not text or not isinstance(place, int) or place < 1:
        return opened(call, args, null=False, fail=not isinstance(place, int) or place == 0)
    values = texts(args[0])
    ranges = _ranges(values, text)
    if ranges is None or place == 1:
        found = _first_piece(values, text) if place == 1 else Texts(None, None)
        return strict(args, Outcome(found))
    return strict(args, Outcome(_as_given(_piece(ranges, text, place - 1), values)))


def _split(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return a list of at least one text; the pieces that all texts share are known."""
    fail, limit = may_overflow(call), literal(call, 2)
    most = limit.value if limit is not None else None
    if not isinstance(most, int):
        found = Elements(NO, lambda: Spec(Texts(None, None)))
        return strict(args, Outcome(found, fail=np.array([fail])))
    delimiter = _delimiter(call)
    if delimiter is None or most > 0:
        found = Elements(NO, lambda: Spec(Texts(None, None)), np.array([1]))
    else:
        found = _pieces(texts(args[0]), delimiter, shape_of(args[0].values))
    return strict(args, Outcome(found, fail=np.array([fail])))


def _pieces(values: Texts, delimiter: str, shape: Shape | None) -> Elements:
    """Return the pieces of texts; the first ones may be known."""
    least: Bounds = np.array([1])
    ranges, front = _ranges(values, delimiter), list[Spec]()
    if ranges is not None:
        least = ranges.shared + 1
        for number in range(min(_MEMBERS, int(least.max(initial=1)))):
            front.append(Spec(_as_given(_piece(ranges, delimiter, number), values)))
    for pattern, fits in (shape.patterns if shape is not None else {}).items():
        written = pattern.replace("'T'", "T").replace("'Z'", "Z")
        if not any(char.isalnum() for char in delimiter):
            least = np.maximum(least, np.where(fits, written.count(delimiter) + 1, 1))
    return Elements(NO, lambda: Spec(Texts(None, None)), least, front=tuple(front))


def _delimiter(call: Call) -> str | None:
    """Return the one text that a constant expression matches; None if there may be others."""
    pattern = literal(call, 1)
    try:
        return exact.fixed_delimiter(pattern.value) if pattern is not None else None
    except (NotEvaluated, TypeError):
        return None


_THREE: Final = (3, 3)
ENTRIES: Final = (
    Entry(
        "substring_index",
        "text, delimiter, count",
        _THREE,
        pointwise(_substring_index, exact.substring_index, many=many.substring_index),
        "bounded in front of a delimiter; known where all texts begin alike",
    ),
    Entry(
        "split_part",
        "text, delimiter, number",
        _THREE,
        pointwise(_split_part, exact.split_part, many=many.split_part),
        "bounded in front of the first delimiter; known where all texts begin alike",
    ),
    Entry(
        "string_split",
        "text, expression, limit",
        _THREE,
        pointwise(_split, exact.split_texts),
        "a list, for a constant that Java can compile; its first pieces, as above",
    ),
)
