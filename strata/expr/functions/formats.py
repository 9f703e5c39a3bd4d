"""Format dates and times as text, and parse them from text, by a constant pattern.

Texts sort like the times that they show if the pattern puts the longest units first, as in
`yyyy-MM-dd`. In another zone than UTC the times are widened first.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.expr import bounds as exact
from strata.expr.calendar import DAY_US, SECOND_US
from strata.expr.entry import (
    Context,
    Entry,
    Outcome,
    abroad,
    literal,
    numbers,
    opened,
    settle,
    strict,
    texts,
)
from strata.expr.functions.patterns import (
    FIRST_US,
    LAST_US,
    Pattern,
    as_chars,
    parse_pattern,
    read,
    same_frame,
    shown,
)
from strata.expr.functions.shapes import in_parts, moments_by_shape, moments_of, pattern_fits
from strata.expr.functions.timestamps import widened
from strata.expr.nodes import Call
from strata.expr.shapes import Shape, shape_of
from strata.expr.sparktype import spark_type
from strata.expr.spec import (
    NO,
    YES,
    Bounds,
    Flags,
    Numbers,
    Spec,
    Texts,
    Values,
    both,
    either,
    everything,
    negated,
    text_where,
)

_DATE: Final = parse_pattern("yyyy-MM-dd")
_SECONDS: Final = parse_pattern("yyyy-MM-dd HH:mm:ss")
_MICROS: Final = parse_pattern("yyyy-MM-dd HH:mm:ss.SSSSSS")
_LAST_DAY: Final = 10**8  # beyond it microseconds leave 64 bits
# Beyond these, texts may have an era, a sign or a longer year; a zone moves them by hours.
_PLAIN_US: Final = (FIRST_US + 2 * DAY_US, LAST_US - 2 * DAY_US)


def _written(low: Bounds, high: Bounds, first: Pattern, last: Pattern, empty: Flags) -> Texts:
    """Return the texts of moments: from `low` as one pattern writes it to `high` as the other."""
    plain = (low >= _PLAIN_US[0]) & (high <= _PLAIN_US[1]) & same_frame(first, low, high)
    plain = plain & (low <= high)
    if not plain.any():
        return Texts(None, None, empty)
    begin, end = shown(first, low), shown(last, high)
    if plain.all():
        return Texts(begin, end, empty)
    where = np.broadcast_to(plain, np.broadcast(plain, low, high).shape)
    return Texts(text_where(where, begin, None), text_where(where, end, None), empty)


def _pattern(call: Call, position: int) -> Pattern | None:
    constant = literal(call, position)
    if constant is None or not isinstance(constant.value, str):
        return None
    return parse_pattern(constant.value)


def _date_format(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    kind, pattern = call.args[0].type, _pattern(call, 1)
    if pattern is None or kind not in ("timestamp", "timestamp_ntz"):
        return opened(call, args)
    a = numbers(args[0], kind)
    low, high = widened(a.low, a.high) if abroad(call) and kind == "timestamp" else (a.low, a.high)
    return _formatted(args, low, high, a.empty, pattern)


def _formatted(
    args: Sequence[Spec], low: Bounds, high: Bounds, empty: Flags, pattern: Pattern
) -> Spec:
    # Years of five digits cannot be written without a sign: then the format fails.
    far = ((low < _PLAIN_US[0]) | (high > _PLAIN_US[1])) & ~empty
    values = _written(low, high, pattern, pattern, empty) if pattern.ordered else Texts(None, None)
    return strict(args, Outcome(values, fail=far))


def _from_unixtime(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    pattern, kind = _pattern(call, 1), call.args[0].type
    if pattern is None or kind != "long":
        return opened(call, args)
    a = numbers(args[0], kind)
    limit = 2 * LAST_US // SECOND_US  # microseconds wrap far beyond
    low, high = (np.clip(x, -limit, limit) * SECOND_US for x in (a.low, a.high))
    low, high = widened(low, high) if abroad(call) else (low, high)
    return _formatted(args, low, high, a.empty, pattern)


def date_text(args: Sequence[Spec], days: Numbers) -> Spec:
    """Return the texts that dates cast to."""
    assert _DATE is not None
    low, high = (np.clip(x, -_LAST_DAY, _LAST_DAY) * DAY_US for x in (days.low, days.high))
    return strict(args, Outcome(_written(low, high, _DATE, _DATE, days.empty)))


def timestamp_text(args: Sequence[Spec], micros: Numbers, *, zoned: bool) -> Spec:
    """Return the texts that timestamps cast to, with fractions without trailing zeros."""
    assert _SECONDS is not None
    assert _MICROS is not None
    low, high = micros.low, micros.high
    low, high = widened(low, high) if zoned else (low, high)
    return strict(args, Outcome(_written(low, high, _SECONDS, _MICROS, micros.empty)))


def _get_timestamp(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    found = parsed_text(call, args)
    return opened(call, args) if found is None else strict(args, found)


def parsed_text(call: Call, args: Sequence[Spec]) -> Outcome | None:
    """Return the microseconds of texts that a constant pattern reads; None if nothing is known.

    Texts that do not fit fail or are null, by mode: a range of texts always holds some.
    """
    pattern = _pattern(call, 1)
    if pattern is None or call.args[0].type != "string":
        return None
    shape, values = shape_of(args[0].values), texts(args[0])
    fits, name = (NO, None) if shape is None else pattern_fits(shape, pattern)
    local = call.type == "timestamp" and abroad(call)
    found = _otherwise(values, pattern, local=local)
    null, fail = settle(call, negated(fits))
    # In a long year, microseconds leave 64 bits: an error in every mode
    fail = either(fail, both(negated(fits), YES if found is None else found[1]))
    if found is None and name is None:
        return Outcome(everything(call.type), null, fail)
    full = everything("timestamp")
    assert isinstance(full, Numbers)
    moments = full if found is None else found[0]
    if name is not None:
        moments = in_parts(moments, moments_of(values, name, local=local), fits)
    return Outcome(moments, null, fail)


def _otherwise(values: Texts, pattern: Pattern, *, local: bool) -> tuple[Numbers, Flags] | None:
    """Return the moments of texts without a shape, and where some may have longer years."""
    known = pattern.ordered and pattern.first == "yyyy"
    found = _read(values, pattern) if known else None
    if found is None or not local:
        return found
    moments, long = found
    return Numbers(*widened(moments.low, moments.high), moments.empty), long


def _read(values: Texts, pattern: Pattern) -> tuple[Numbers, Flags] | None:
    """Return the moments of texts, and where some may have longer years.

    Texts of longer years have a sign, which sorts before the digits.
    """
    if values.low is None:
        return None
    width = len(pattern.template)
    low = as_chars(values.low, width)
    plain = low[:, 0] >= ord("0")
    high = as_chars(behind_digits(values.high, len(low)), width)
    first, last = read(pattern, low, upward=False), read(pattern, high, upward=True)
    bottom, top = np.where(plain, first, exact.LOWEST), np.where(plain, last, exact.HIGHEST)
    return Numbers(bottom, top, values.empty | (bottom > top)), ~plain & ~values.empty


def behind_digits(bound: Any, count: int) -> Any:
    """Return upper bounds of texts, with bytes after all digits for an open one."""
    behind = pa.scalar(b"\xff", pa.binary())
    if bound is None:
        return pa.array([b"\xff"] * count, pa.binary())
    if isinstance(bound, pa.Scalar):
        return bound if bound.is_valid else behind
    return bound.fill_null(b"\xff")


def moments_read(call: Call, values: Texts, shape: Shape | None) -> tuple[Values, Flags]:
    """Return the dates or timestamps that texts are read as, and where some may not be read."""
    found, sure = cast_text(values), NO
    if shape is not None:
        found, sure = moments_by_shape(call, values, found, shape)
    if found is None:
        return everything(call.type), negated(sure)
    if call.type == "date":
        kind = spark_type("date")
        low, high = (np.clip(x // DAY_US, kind.low, kind.high) for x in (found.low, found.high))
        known = found.low > exact.LOWEST  # the least microsecond stands for no bound at all
        low, high = np.where(known, low, kind.low), np.where(known, high, kind.high)
        found = Numbers(low, high, found.empty)
    return found, negated(sure)


def cast_text(values: Texts) -> Numbers | None:
    """Return the microseconds of texts that a cast reads; None if nothing is known.

    Texts between two that both begin with `2024-`, `2024-01-` or `2024-01-05T` begin likewise, and
    lie in that year, month or day, apart from a zone after it.
    """
    if values.low is None or values.high is None:
        return None
    low, high = as_chars(values.low, 11), as_chars(values.high, 11)
    shared = np.logical_and.accumulate(low == high, axis=1)
    digits = (low >= ord("0")) & (low <= ord("9"))
    template = np.frombuffer(b"0000-00-00", np.uint8)
    fits = np.where(template == ord("0"), digits[:, :10], low[:, :10] == template)
    fits = np.logical_and.accumulate(fits, axis=1) & shared[:, :10]
    # A month or day counts if all of it is shared, and also the sign after it.
    ends = shared[:, 10] & ((low[:, 10] == ord("T")) | (low[:, 10] == ord(" ")))
    depth = [fits[:, 4], fits[:, 7], fits[:, 9] & ends]
    chars = low[:, :10]
    kept = np.repeat(np.stack(depth, axis=1), (5, 3, 2), axis=1)
    kept = np.logical_and.accumulate(kept, axis=1)
    assert _DATE is not None
    first = read(_DATE, np.where(kept, chars, 0), upward=False)
    last = read(_DATE, np.where(kept, chars, 0), upward=True) + DAY_US - 1
    first, last = widened(first, last)
    known = depth[0]
    bottom, top = np.where(known, first, exact.LOWEST), np.where(known, last, exact.HIGHEST)
    return Numbers(bottom, top, values.empty)


ENTRIES: Final = (
    Entry(
        "date_format",
        "timestamp, pattern",
        (2, 2),
        _date_format,
        "monotone for patterns from the longest unit down; other fixed widths: any text",
    ),
    Entry("from_unixtime", "seconds, pattern", (2, 2), _from_unixtime, "as date_format"),
    Entry(
        "get_timestamp",
        "text, pattern",
        (2, 2),
        _get_timestamp,
        "monotone for patterns from the year down; null or an error for other texts",
    ),
)
