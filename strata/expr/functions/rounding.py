"""Rounding: monotone, so the ends of the range suffice; a double may saturate to a long."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr.entry import Context, Entry, Outcome, literal, numbers, opened, strict
from strata.expr.functions.arithmetic import whole
from strata.expr.nodes import Call
from strata.expr.sparktype import spark_type
from strata.expr.spec import Bounds, Flags, Numbers, Spec, hull


def _to_whole(call: Call, args: Sequence[Spec], nearest: Callable[[Any], Any], up: bool) -> Spec:
    source, target = spark_type(call.args[0].type), spark_type(call.type)
    a = numbers(args[0], call.args[0].type)
    if source.family == "int":
        return whole(call, args, a)
    if source.family == "decimal":
        shift = source.scale - target.scale
        low, high = (_divided(x, 10**shift, up) for x in (a.low, a.high))
        return whole(call, args, Numbers(low, high, a.empty))
    if target.family != "int":
        return opened(call, args)
    low, high = nearest(a.low), nearest(a.high)
    outside = ((low < float(target.low)) | (high >= float(target.high))) & ~a.empty
    low, high = exact.truncated(low, target), exact.truncated(high, target)
    # Outside a long: an error, or saturated and NaN as zero, by the version and mode of Spark.
    zero = np.zeros_like(low)
    values = hull(Numbers(low, high, a.empty), Numbers(zero, zero, ~a.nan))
    return strict(args, Outcome(values, fail=outside | a.nan))


def _divided(bounds: Bounds, unit: int, up: bool) -> Bounds:
    if unit > exact.HIGHEST:
        bounds = bounds.astype(object)
    return -(-bounds // unit) if up else bounds // unit


def _floor(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return _to_whole(call, args, np.floor, up=False)


def _ceil(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return _to_whole(call, args, np.ceil, up=True)


def _round(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return x rounded half up to a constant scale; doubles get a margin of one unit."""
    constant = literal(call, 1)
    if constant is None or not isinstance(constant.value, int):
        return opened(call, args)
    scale, kind = constant.value, spark_type(call.type)
    a = numbers(args[0], call.args[0].type)
    if kind.family == "float" and -300 < scale < 300:
        unit = 10.0**-scale
        low, high = np.nextafter(a.low - unit, -np.inf), np.nextafter(a.high + unit, np.inf)
        return strict(args, Outcome(Numbers(low, high, a.empty, a.nan)))
    if kind.family == "int" and scale >= 0:
        return strict(args, Outcome(a))
    if kind.family == "int" and scale > -18:
        low, low_over = _half_up(a.low, -scale)
        high, high_over = _half_up(a.high, -scale)
        return whole(call, args, Numbers(low, high, a.empty), low_over | high_over)
    if kind.family == "decimal":
        source = spark_type(call.args[0].type)
        cut = min(scale - source.scale, 0)
        low, high = (exact.rescale(x, cut, 38) for x in (a.low, a.high))
        shift = kind.scale - source.scale - cut
        low, high = (exact.rescale(x, shift, 38) for x in (low, high))
        return whole(call, args, Numbers(low, high, a.empty))
    return opened(call, args)


def _half_up(bounds: Bounds, digits: int) -> tuple[Bounds, Flags]:
    """Return whole numbers rounded to 10**digits, and where the result leaves 64 bits."""
    tens = exact.rescale(bounds.astype(object), -digits, 19).astype(np.int64)
    return exact.multiply(tens, np.array([10**digits]))


ENTRIES: Final = (
    Entry("floor", "x", (1, 1), _floor, "monotone"),
    Entry("ceil", "x", (1, 1), _ceil, "monotone"),
    Entry("round", "x, scale", (2, 2), _round, "monotone for a constant scale"),
)
