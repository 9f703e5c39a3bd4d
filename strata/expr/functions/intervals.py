"""Intervals: built from numbers, multiplied, and split. Sums are exact; overflow fails."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr.calendar import DAY_US, SECOND_US
from strata.expr.entry import Context, Entry, Outcome, Transfer, numbers, opened, strict
from strata.expr.nodes import Call
from strata.expr.sparktype import SparkType, spark_type
from strata.expr.spec import Bounds, Flags, Numbers, Spec, either

_HOUR_US: Final = 3600 * SECOND_US
_MINUTE_US: Final = 60 * SECOND_US
_DAY_TIME: Final = (DAY_US, _HOUR_US, _MINUTE_US, 1)  # the last are seconds with six digits
_YEAR_MONTH: Final = (12, 1)
_SAFE: Final = 2.0**62  # a sum of magnitudes below it overflows in no order of its terms


def _sum(units: Sequence[int]) -> Transfer:
    """Return the transfer of numbers of units, added up: monotone in each of them."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        kind = spark_type(call.type)
        if kind.family != "int" or any(not _is_count(arg.type) for arg in call.args):
            return opened(call, args)
        low, high = np.array([0]), np.array([0])
        magnitude, empty, over = np.array([0.0]), np.array([False]), np.array([False])
        for spec, arg, size in zip(args, call.args, units, strict=False):
            a, unit = numbers(spec, arg.type), np.array([size])
            least, greatest = (exact.multiply(end, unit)[0] for end in (a.low, a.high))
            low, high = exact.add(low, least)[0], exact.add(high, greatest)[0]
            # Spark multiplies in the width of the type, before it adds
            over = over | (least < kind.low) | (greatest > kind.high)
            most = np.maximum(np.abs(a.low.astype(np.float64)), np.abs(a.high.astype(np.float64)))
            magnitude, empty = magnitude + most * float(size), either(empty, a.empty)
        return _bounded(args, kind, Numbers(low, high, empty), over | (magnitude > _SAFE))

    return transfer


def _is_count(type_name: str) -> bool:
    """Return whether a type can count units; seconds have six decimal digits."""
    kind = spark_type(type_name)
    return kind.family == "int" or (kind.family == "decimal" and kind.scale == 6 and not kind.wide)


def _bounded(args: Sequence[Spec], kind: SparkType, values: Numbers, over: Flags) -> Spec:
    """Return whole numbers of a type; an overflow fails in every mode."""
    outside = (values.low < kind.low) | (values.high > kind.high) | over
    low, high = np.maximum(values.low, kind.low), np.minimum(values.high, kind.high)
    low, high = np.where(outside, kind.low, low), np.where(outside, kind.high, high)
    return strict(args, Outcome(Numbers(low, high, values.empty), fail=outside))


def _multiplied(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return an interval times a whole number; the corners enclose it."""
    if spark_type(call.args[1].type).family != "int":
        return opened(call, args)
    a, b = (numbers(spec, arg.type) for spec, arg in zip(args, call.args, strict=True))
    corners = [exact.multiply(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    found = [bounds for bounds, _ in corners]
    low, high = (
        np.minimum.reduce(np.broadcast_arrays(*found)),
        np.maximum.reduce(np.broadcast_arrays(*found)),
    )
    over = corners[0][1] | corners[1][1] | corners[2][1] | corners[3][1]
    return _bounded(args, spark_type(call.type), Numbers(low, high, either(a.empty, b.empty)), over)


def _part(frame: int, unit: int) -> Transfer:
    """Return the transfer of one part of an interval: the remainder of whole frames, in units."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        a = numbers(args[0], call.args[0].type)
        whole = [exact.truncating(x, frame) for x in (a.low, a.high)]
        same = (whole[0] == whole[1]) & ((a.low >= 0) | (a.high <= 0))
        ends = (_left(x, w, frame, unit) for x, w in zip((a.low, a.high), whole, strict=True))
        most = (frame - 1) // unit
        low, high = (np.where(same, x, edge) for x, edge in zip(ends, (-most, most), strict=True))
        return strict(args, Outcome(Numbers(low, high, a.empty)))

    return transfer


def _left(x: Bounds, whole: Bounds, frame: int, unit: int) -> Bounds:
    return exact.truncating(x - whole * frame, unit)


def _years(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a = numbers(args[0], call.args[0].type)
    low, high = (exact.truncating(x, 12) for x in (a.low, a.high))
    return strict(args, Outcome(Numbers(low, high, a.empty)))


_ONE, _TWO = (1, 1), (2, 2)
_INSIDE: Final = "monotone within one frame, otherwise the whole span"
ENTRIES: Final = (
    Entry(
        "make_dt_interval",
        "days, hours, minutes, seconds",
        (4, 4),
        _sum(_DAY_TIME),
        "monotone; tells overflow",
    ),
    Entry("make_ym_interval", "years, months", _TWO, _sum(_YEAR_MONTH), "monotone; tells overflow"),
    Entry("multiply_dt_interval", "interval, number", _TWO, _multiplied, "whole numbers: corners"),
    Entry("multiply_ym_interval", "interval, number", _TWO, _multiplied, "whole numbers: corners"),
    Entry("interval_hours", "interval", _ONE, _part(DAY_US, _HOUR_US), _INSIDE),
    Entry("interval_minutes", "interval", _ONE, _part(_HOUR_US, _MINUTE_US), _INSIDE),
    Entry("interval_seconds", "interval", _ONE, _part(_MINUTE_US, 1), _INSIDE),
    Entry("interval_years", "interval", _ONE, _years, "monotone, toward zero"),
    Entry("interval_months", "interval", _ONE, _part(12, 1), _INSIDE),
)
