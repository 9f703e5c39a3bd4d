"""Functions of timestamps: microseconds since 1970.

The results are exact in UTC. In another zone the wall clock differs by at most 18 hours and may
jump, so the argument and the result are widened by `_ABROAD_US`, and no monotonicity is assumed
within it. A `timestamp_ntz` has no zone, even if the call names one.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr import calendar
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
)
from strata.expr.functions.arithmetic import sides
from strata.expr.nodes import Call
from strata.expr.sparktype import INT64, spark_type
from strata.expr.spec import NO, YES, Bounds, Flags, Numbers, Spec, uniform

# More than any two offsets of one zone were ever apart (date-line moves: 24 h and some).
_ABROAD_US: Final = 2 * DAY_US
_LOWEST, _HIGHEST = INT64
_TIMESTAMP: Final = spark_type("timestamp")
# Two years: more than any unit of date_trunc and any widening.
_MARGIN_US: Final = 800 * DAY_US

_UNITS_US: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": SECOND_US,
    "minute": 60 * SECOND_US,
    "hour": 3600 * SECOND_US,
    "day": DAY_US,
    "week": 7 * DAY_US,
}
_UNITS_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}


def foreign(call: Call) -> bool:
    """Return whether a zone other than UTC affects the result."""
    zoned = any(arg.type == "timestamp" for arg in call.args) or call.type == "timestamp"
    return zoned and abroad(call)


def widened(low: Bounds, high: Bounds, by: int = _ABROAD_US) -> tuple[Bounds, Bounds]:
    """Return the bounds moved outward, saturated."""
    apart = np.array([by])
    return exact.subtract(low, apart)[0], exact.add(high, apart)[0]


def instants(args: Sequence[Spec], low: Bounds, high: Bounds, empty: Flags, over: Flags) -> Spec:
    """Return microseconds; an overflow fails in every mode."""
    return strict(args, Outcome(Numbers(low, high, empty), fail=over & ~empty))


def _date_trunc(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    unit = literal(call, 0)
    if unit is None or not isinstance(unit.value, str | None):
        return opened(call, args)
    a = numbers(args[1], call.args[1].type)
    low, high = widened(a.low, a.high) if foreign(call) else (a.low, a.high)
    if unit.value is None or (start := calendar.truncate_micros(low, unit.value)) is None:
        return strict(args, Outcome(Numbers(low, high, YES), null=YES))  # an unknown unit
    end = calendar.truncate_micros(high, unit.value)
    assert end is not None
    if foreign(call):
        start, end = widened(start, end)
    # Truncation moves down: next to the first instant it wraps or fails.
    edge = uniform(low < _LOWEST + _MARGIN_US)
    if edge is not NO:
        start, end = np.where(edge, _LOWEST, start), np.where(edge, _HIGHEST, end)
    return instants(args, start, end, a.empty, edge)


def _add_interval(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a, b = sides(call, args)
    low, under = exact.add(a.low, b.low)
    high, over = exact.add(a.high, b.high)
    if foreign(call):  # whole days are days of the local calendar
        over = over | under | (np.abs(low) > _HIGHEST - _MARGIN_US)
        over = over | (np.abs(high) > _HIGHEST - _MARGIN_US)
        low, high = widened(low, high)
    return instants(args, low, high, a.empty | b.empty, under | over)


def _add_ym_interval(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a, b = sides(call, args)
    return _months_later(call, args, a, b.low, b.high, b.empty)


def _months_later(
    call: Call, args: Sequence[Spec], a: Numbers, few: Bounds, many: Bounds, none: Flags
) -> Spec:
    """Return instants some months later: the day moves, the time of day stays.

    Not monotone: two days may fall on the last of a short month, with their times in either order.
    So only the day is bounded, unless all instants lie on one day.
    """
    low, high = widened(a.low, a.high) if foreign(call) else (a.low, a.high)
    first, last = low // DAY_US, high // DAY_US
    days_low, days_high = calendar.add_months(first, few), calendar.add_months(last, many)
    far = 2**63 // DAY_US - 1000
    over = (days_low < -far) | (days_high > far)
    days_low, days_high = np.clip(days_low, -far, far), np.clip(days_high, -far, far)
    single = first == last
    low = days_low * DAY_US + np.where(single, low % DAY_US, 0)
    high = days_high * DAY_US + np.where(single, high % DAY_US, DAY_US - 1)
    if foreign(call):
        low, high = widened(low, high)
    low, high = np.where(over, _LOWEST, low), np.where(over, _HIGHEST, high)
    return instants(args, low, high, a.empty | none, over)


def _timestamp_add(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    unit = call.option("unit").lower()
    quantity = numbers(args[0], call.args[0].type)
    a = numbers(args[1], call.args[1].type)
    empty = a.empty | quantity.empty
    if unit in _UNITS_MONTHS:
        size = _UNITS_MONTHS[unit]
        huge = (np.abs(quantity.low) > 2**31) | (np.abs(quantity.high) > 2**31)
        if (huge & ~empty).any():
            return opened(call, args)
        return _months_later(call, args, a, quantity.low * size, quantity.high * size, empty)
    if unit not in _UNITS_US:
        return opened(call, args)
    length = np.array([_UNITS_US[unit]])
    few, few_over = exact.multiply(quantity.low, length)
    many, many_over = exact.multiply(quantity.high, length)
    low, low_over = exact.add(a.low, few)
    high, high_over = exact.add(a.high, many)
    over = few_over | many_over | low_over | high_over
    if foreign(call):
        low, high = widened(low, high)
        over = over | (low == _LOWEST) | (high == _HIGHEST)
    return instants(args, low, high, empty, over)


def _timestamp_diff(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return whole units from start to end, toward zero."""
    unit = call.option("unit").lower()
    start, end = sides(call, args)
    if unit in _UNITS_MONTHS:
        return _months_apart(call, args, start, end, _UNITS_MONTHS[unit])
    if unit not in _UNITS_US:
        return opened(call, args)
    low, under = exact.subtract(end.low, start.high)
    high, over = exact.subtract(end.high, start.low)
    if foreign(call):
        low, high = widened(low, high)
    length = _UNITS_US[unit]
    low, high = (exact.truncating(x, length) for x in (low, high))
    over = under | over
    low, high = np.where(over, _LOWEST, low), np.where(over, _HIGHEST, high)
    return instants(args, low, high, start.empty | end.empty, over)


def _months_apart(
    call: Call, args: Sequence[Spec], start: Numbers, end: Numbers, size: int
) -> Spec:
    """Return whole months, or units of several: at most two less than the calendar's numbers.

    One less if the day of the month is not reached. If the time of day is not reached, the end
    counts as the day before, and the last of a short month is before a 31st: from a minute before
    midnight on January 30 to midnight on March 1 there is no whole month.
    """
    ends = [widened(x.low, x.high) if foreign(call) else (x.low, x.high) for x in (start, end)]
    (begin, late), (early, last) = (tuple(calendar.months(x // DAY_US) for x in p) for p in ends)
    low, high = early - late, last - begin
    low, high = np.where(low > 0, np.maximum(low - 2, 0), low), high + (high < 0)
    low, high = (exact.truncating(x, size) for x in (low, high))
    empty = start.empty | end.empty
    far = [(x < _LOWEST + _MARGIN_US) | (x > _HIGHEST - _MARGIN_US) for p in ends for x in p]
    return strict(args, Outcome(Numbers(low, high, empty), fail=reduce(np.logical_or, far)))


def _subtract_timestamps(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a, b = sides(call, args)
    low, under = exact.subtract(a.low, b.high)
    high, over = exact.subtract(a.high, b.low)
    if foreign(call):  # a difference of wall clocks
        low, high = widened(low, high)
        over = over | (low == _LOWEST) | (high == _HIGHEST)
    return instants(args, low, high, a.empty | b.empty, under | over)


def _clock_field(unit: int, frame: int, most: int) -> Callable[..., Spec]:
    """Return the transfer of hour, minute or second, which rises within its frame."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        a = numbers(args[0], call.args[0].type)
        same = (a.low // frame == a.high // frame) & (not foreign(call))
        low = np.where(same, a.low % frame // unit, 0)
        high = np.where(same, a.high % frame // unit, most)
        return strict(args, Outcome(Numbers(low, high, a.empty)))

    return transfer


def _divided(by: int) -> Callable[..., Spec]:
    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        a = numbers(args[0], call.args[0].type)
        return strict(args, Outcome(Numbers(a.low // by, a.high // by, a.empty)))

    return transfer


def _multiplied(by: int) -> Callable[..., Spec]:
    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        if spark_type(call.args[0].type).family != "int":
            return opened(call, args)
        a, length = numbers(args[0], call.args[0].type), np.array([by])
        low, under = exact.multiply(a.low, length)
        high, over = exact.multiply(a.high, length)
        return instants(args, low, high, a.empty, under | over)

    return transfer


def _unix_timestamp(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    kind = call.args[0].type
    if kind not in ("timestamp", "timestamp_ntz", "date"):
        return opened(call, args)
    a = numbers(args[0], kind)
    if kind == "date":
        low, high = a.low * 86_400, a.high * 86_400
    else:  # toward zero, unlike unix_seconds
        low, high = (exact.truncating(x, SECOND_US) for x in (a.low, a.high))
    if kind != "timestamp" and abroad(call):  # a wall clock is read in the zone
        low, high = widened(low, high, 2 * 86_400)
    far = 2**63 // DAY_US * 86_400
    over = (np.abs(low) > far) | (np.abs(high) > far) if kind == "date" else NO
    # The format matters only for text: it is not even evaluated.
    return instants(args[:1], low, high, a.empty, over)


def _months_between(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the difference in months: whole months, plus less than one for days and times."""
    (a, b) = (numbers(spec, arg.type) for spec, arg in zip(args[:2], call.args[:2], strict=True))
    ends = [widened(x.low, x.high) if abroad(call) else (x.low, x.high) for x in (a, b)]
    first, last = (tuple(calendar.months(x // DAY_US) for x in pair) for pair in ends)
    low = (first[0] - last[1] - 1).astype(np.float64)
    high = (first[1] - last[0] + 1).astype(np.float64)
    # Next to the ends of time a day of the local calendar may leave 64 bits.
    far = [(x < _LOWEST + _MARGIN_US) | (x > _HIGHEST - _MARGIN_US) for p in ends for x in p]
    over = reduce(np.logical_or, far) & ~(a.empty | b.empty)
    return strict(args, Outcome(Numbers(low, high, a.empty | b.empty), fail=over))


def _from_utc(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return _shifted(call, args, args[0], call.args[0].type)


def _convert_timezone(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return _shifted(call, args, args[2], call.args[2].type)


def _shifted(call: Call, args: Sequence[Spec], moved: Spec, kind: str) -> Spec:
    """Return a wall clock moved from one zone into another, by less than two days.

    The zones are options that a front end sets only if Spark knows them.
    """
    if not call.option("zones") or kind not in ("timestamp", "timestamp_ntz"):
        return opened(call, args)
    a = numbers(moved, kind)
    low, high = widened(a.low, a.high)
    edge = (low < _LOWEST + _MARGIN_US) | (high > _HIGHEST - _MARGIN_US)
    low, high = np.where(edge, _LOWEST, low), np.where(edge, _HIGHEST, high)
    return instants(args, low, high, a.empty, edge)


def _make_timestamp(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return all moments between January of the first year and December of the last."""
    if len(args) != 6 or any(spark_type(arg.type).family != "int" for arg in call.args[:5]):
        return opened(call, args)
    year, *others = (numbers(spec, arg.type) for spec, arg in zip(args, call.args, strict=True))
    empty = reduce(np.logical_or, [other.empty for other in others], year.empty)
    far = (year.low < -200_000) | (year.high > 200_000)
    years = (np.clip(x, -200_000, 200_000) - 1970 for x in (year.low, year.high))
    first, last = (calendar.month_start(12 * x + 12 * up) for up, x in enumerate(years))
    low, high = first * DAY_US, last * DAY_US - 1
    if foreign(call):
        low, high = widened(low, high)
    low, high = np.where(far, _LOWEST, low), np.where(far, _HIGHEST, high)
    null, fail = settle(call, YES)  # a month 13, a second 61; overflow fails in every mode
    # Second 60 is the first of the next minute.
    return strict(
        args, Outcome(Numbers(low, exact.add(high, np.array([1]))[0], empty), null, fail | far)
    )


def _second_with_fraction(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return seconds with their fraction, in units of a millionth."""
    a = numbers(args[0], call.args[0].type)
    minute = 60 * SECOND_US
    same = (a.low // minute == a.high // minute) & (not foreign(call))
    low = np.where(same, a.low % minute, 0)
    high = np.where(same, a.high % minute, minute - 1)
    return strict(args, Outcome(Numbers(low, high, a.empty)))


def _current_timestamp(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    low, high = np.array([context.now_low]), np.array([context.now_high])
    if call.type == "timestamp_ntz" and abroad(call):
        low, high = widened(low, high)
    return Spec(Numbers(low, high))


def _current_date(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    low, high = np.array([context.now_low]), np.array([context.now_high])
    if abroad(call):
        low, high = widened(low, high)
    return Spec(Numbers(low // DAY_US, high // DAY_US))


_TWO: Final = (2, 2)
ENTRIES: Final = (
    Entry("date_trunc", "unit, timestamp", _TWO, _date_trunc, "monotone for a constant unit"),
    Entry("timestamp_add_interval", "timestamp, interval", _TWO, _add_interval, "monotone in UTC"),
    Entry(
        "timestamp_add_ym_interval",
        "timestamp, interval",
        _TWO,
        _add_ym_interval,
        "bounded by whole days: not monotone at the end of months",
    ),
    Entry("timestamp_add", "quantity, timestamp", _TWO, _timestamp_add, "as the interval"),
    Entry(
        "timestamp_diff",
        "start, end",
        _TWO,
        _timestamp_diff,
        "monotone, in UTC; of months less than one off",
    ),
    Entry("subtract_timestamps", "left, right", _TWO, _subtract_timestamps, "monotone in UTC"),
    Entry("hour", "timestamp", (1, 1), _clock_field(3600 * SECOND_US, DAY_US, 23), "in one day"),
    Entry(
        "minute",
        "timestamp",
        (1, 1),
        _clock_field(60 * SECOND_US, 3600 * SECOND_US, 59),
        "monotone within one hour, in UTC",
    ),
    Entry(
        "second",
        "timestamp",
        (1, 1),
        _clock_field(SECOND_US, 60 * SECOND_US, 59),
        "monotone within one minute, in UTC",
    ),
    Entry("unix_timestamp", "timestamp or date, format", _TWO, _unix_timestamp, "monotone"),
    Entry("months_between", "end, start, round", (3, 3), _months_between, "less than a month off"),
    Entry("from_utc_timestamp", "timestamp, zone", _TWO, _from_utc, "moved by less than two days"),
    Entry("to_utc_timestamp", "timestamp, zone", _TWO, _from_utc, "moved by less than two days"),
    Entry("convert_timezone", "from, to, timestamp", (3, 3), _convert_timezone, "moved by hours"),
    Entry("make_timestamp", "year, ..., second", (6, 8), _make_timestamp, "whole years"),
    Entry("second_with_fraction", "timestamp", (1, 1), _second_with_fraction, "in one minute"),
    Entry("unix_seconds", "timestamp", (1, 1), _divided(SECOND_US), "monotone"),
    Entry("unix_millis", "timestamp", (1, 1), _divided(1000), "monotone"),
    Entry("unix_micros", "timestamp", (1, 1), _divided(1), "the same number"),
    Entry("seconds_to_timestamp", "number", (1, 1), _multiplied(SECOND_US), "integers: monotone"),
    Entry("millis_to_timestamp", "number", (1, 1), _multiplied(1000), "monotone; overflow fails"),
    Entry("micros_to_timestamp", "number", (1, 1), _multiplied(1), "the same number"),
    Entry("current_timestamp", "", (0, 0), _current_timestamp, "the span of the clock"),
    Entry("local_timestamp", "", (0, 0), _current_timestamp, "the span of the clock"),
    Entry("current_date", "", (0, 0), _current_date, "the span of the clock, in days"),
)
