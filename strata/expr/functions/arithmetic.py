"""Arithmetic on integers, decimals, doubles and intervals.

Sums and products are monotone in each argument unless they overflow, so the corners of the ranges
enclose the result and show whether overflow is possible. Exactly in that case ANSI mode fails,
`try` yields null, and legacy mode wraps to anywhere.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr.entry import Context, Entry, Outcome, numbers, opened, settle, strict, wraps
from strata.expr.nodes import Call
from strata.expr.sparktype import SparkType, spark_type
from strata.expr.spec import NO, Bounds, Flags, Numbers, Spec, integers

Operation = Callable[[Any, Any], tuple[Bounds, Flags]]
Pair = tuple[Bounds, Bounds]


def sides(call: Call, args: Sequence[Spec]) -> tuple[Numbers, Numbers]:
    """Return the numbers of both arguments."""
    left, right = (numbers(spec, arg.type) for spec, arg in zip(args, call.args, strict=True))
    return left, right


def whole(call: Call, args: Sequence[Spec], values: Numbers, over: Flags = NO) -> Spec:
    """Return the Spec of whole numbers or decimals that may leave their type, by mode."""
    kind = spark_type(call.type)
    fitting, outside = exact.fit(values, kind, over)
    if not outside.any():
        return strict(args, Outcome(fitting))
    if kind.name.startswith("interval"):  # fails in every mode, as far as is known
        return strict(args, Outcome(fitting, outside, outside))
    if wraps(call) and kind.family == "int":
        return strict(args, Outcome(filled(fitting, kind, outside)))
    return strict(args, Outcome(fitting, *settle(call, outside)))


def filled(values: Numbers, kind: SparkType, where: Flags) -> Numbers:
    """Return the values, replaced by all values of the type where the flag is set."""
    low, high = integers(kind.low, kind), integers(kind.high, kind)
    return Numbers(
        np.where(where, low, values.low),
        np.where(where, high, values.high),
        values.empty & ~where,
    )


def floats(call: Call, corners: Sequence[Bounds], empty: Flags, nan: Flags) -> Numbers:
    """Return the doubles between corners; where a corner is NaN, all doubles and NaN."""
    low, high = reduce(np.minimum, corners), reduce(np.maximum, corners)  # NaN stays NaN
    lost = np.isnan(low)
    if lost.any():
        low, high = np.where(lost, -np.inf, low), np.where(lost, np.inf, high)
        nan = nan | (lost & ~empty)
    if spark_type(call.type).single:
        low, high = exact.single(low), exact.single(high)
    return Numbers(low, high, empty, nan)


def _ends(low: Bounds, high: Bounds) -> tuple[Bounds, ...]:
    """Return both bounds, or only one if both are the same single value of a constant."""
    same = len(low) == 1 == len(high) and low[0] == high[0]  # not so for NaN
    return (low,) if same else (low, high)


def _corners(op: Operation, pairs: Sequence[Pair]) -> tuple[list[Bounds], Flags]:
    results = [op(a, b) for a, b in pairs]
    return [bounds for bounds, _ in results], reduce(np.logical_or, [over for _, over in results])


def _monotone(op: Operation, *, falling: bool) -> Callable[..., Spec]:
    """Return the transfer of a sum (or, `falling` in the right argument, a difference)."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        a, b = sides(call, args)
        near, far = (b.high, b.low) if falling else (b.low, b.high)
        kind = spark_type(call.type)
        empty, nan = a.empty | b.empty, a.nan | b.nan
        if kind.family == "float":
            # All four corners: opposite infinities meet only in the mixed ones.
            every = [(x, y) for x in _ends(a.low, a.high) for y in _ends(near, far)]
            corners, _ = _corners(op, every)
            return strict(args, Outcome(floats(call, corners, empty, nan)))
        low, high = a.low, a.high
        if kind.family == "decimal":
            left, right = (spark_type(arg.type) for arg in call.args)
            scale = max(left.scale, right.scale)
            low, high = (_aligned(x, left, scale) for x in (low, high))
            near, far = (_aligned(x, right, scale) for x in (near, far))
        (low, high), over = _corners(op, [(low, near), (high, far)])
        if kind.family == "decimal":
            digits = 38
            low, high = (exact.rescale(x, kind.scale - scale, digits) for x in (low, high))
        return whole(call, args, Numbers(low, high, empty), over)

    return transfer


def _aligned(bounds: Bounds, kind: SparkType, scale: int) -> Bounds:
    digits = len(str(kind.high))
    moved = exact.rescale(bounds, scale - kind.scale, digits)
    # Leave room for the carry of a sum.
    return moved.astype(object) if digits + scale - kind.scale >= 18 else moved


def _multiply(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a, b = sides(call, args)
    kind = spark_type(call.type)
    empty, nan = a.empty | b.empty, a.nan | b.nan
    every = [(x, y) for x in _ends(a.low, a.high) for y in _ends(b.low, b.high)]
    if kind.family == "decimal":
        left, right = (spark_type(arg.type) for arg in call.args)
        if len(str(left.high)) + len(str(right.high)) > 18:
            every = [(x.astype(object), y) for x, y in every]
        corners, _ = _corners(exact.multiply, every)
        shift = kind.scale - left.scale - right.scale
        corners = [exact.rescale(x, shift, 76) for x in corners]
        return whole(call, args, _enclosing(corners, empty))
    corners, over = _corners(exact.multiply, every)
    if kind.family == "float":
        # Zero times infinity is met at a corner or lies between two corners of infinite sign.
        for x, y in ((a, b), (b, a)):
            infinite = np.isinf(y.low) | np.isinf(y.high)
            if infinite.any():
                nan = nan | ((x.low <= 0) & (x.high >= 0) & infinite & ~empty)
        return strict(args, Outcome(floats(call, corners, empty, nan)))
    return whole(call, args, _enclosing(corners, empty), over)


def _enclosing(corners: Sequence[Bounds], empty: Flags) -> Numbers:
    return Numbers(reduce(np.minimum, corners), reduce(np.maximum, corners), empty)


def _spans_zero(values: Numbers) -> Flags:
    flags: Flags = (values.low <= 0) & (values.high >= 0) & ~values.empty
    return flags


def _division(call: Call, args: Sequence[Spec], values: Numbers, zero: Flags) -> Spec:
    """Return the Spec of a quotient; division by zero fails in ANSI mode, else it is null."""
    return strict(args, Outcome(values, *settle(call, zero)))


def _divide(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    if spark_type(call.type).family != "float":
        return opened(call, args)
    a, b = sides(call, args)
    zero, empty = _spans_zero(b), a.empty | b.empty
    every = [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    with np.errstate(all="ignore"):
        corners = [np.where(zero, np.nan, x / y) for x, y in every]
    infinite = (np.isinf(a.low) | np.isinf(a.high)) & (np.isinf(b.low) | np.isinf(b.high))
    nan = a.nan | b.nan | (infinite & ~empty)
    return _division(call, args, floats(call, corners, empty, nan), zero)


def _remainder(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return a range for the remainder: the dividend's sign, less than the divisor in size."""
    kind = spark_type(call.type)
    if kind.family not in ("int", "float") or call.args[0].type != call.args[1].type:
        return opened(call, args)
    a, b = sides(call, args)
    zero, empty = _spans_zero(b), a.empty | b.empty
    size = _largest_remainder(b, kind)
    low = np.where(a.low >= 0, np.zeros_like(a.low), np.maximum(a.low, -size))
    high = np.where(a.high <= 0, np.zeros_like(a.high), np.minimum(a.high, size))
    if kind.family == "int":
        # A dividend below the least divisor stays what it is.
        small = (a.low >= 0) & (b.low > 0) & (a.high < b.low)
        low = np.where(small, a.low, low)
        return _division(call, args, Numbers(low, high, empty), zero)
    nan = a.nan | b.nan | ((np.isinf(a.low) | np.isinf(a.high)) & ~empty)
    return _division(call, args, Numbers(low, high, empty, nan), zero)


def _largest_remainder(divisor: Numbers, kind: SparkType) -> Bounds:
    if kind.family == "float":
        return np.maximum(np.abs(divisor.low), np.abs(divisor.high))
    # -(2**63) has no opposite: one less in size is 2**63 - 1, which has.
    below = -(np.minimum(divisor.low, 0) + 1)
    size: Bounds = np.maximum(np.maximum(below, np.maximum(divisor.high, 0) - 1), 0)
    return size


def _pmod(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    kind = spark_type(call.type)
    if kind.family != "int" or call.args[0].type != call.args[1].type:
        return opened(call, args)
    a, b = sides(call, args)
    size = _largest_remainder(b, kind)
    low = np.where(b.low < 0, -size, np.zeros_like(size))
    small = (a.low >= 0) & (b.low > 0) & (a.high < b.low)
    low, high = np.where(small, a.low, low), np.where(small, a.high, size)
    return _division(call, args, Numbers(low, high, a.empty | b.empty), _spans_zero(b))


def _integral_divide(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    left, right = (spark_type(arg.type) for arg in call.args)
    if left.family != "int" or right.family != "int":
        return opened(call, args)
    a, b = sides(call, args)
    zero, empty = _spans_zero(b), a.empty | b.empty
    divisors = [np.where(zero, 1, x) for x in (b.low, b.high)]
    corners = [_truncating(x, y) for x in (a.low, a.high) for y in divisors]
    values = _enclosing(corners, empty)
    # Near zero the quotient is largest: at divisors 1 and -1. The one that overflows is -low.
    edge = (a.low == exact.LOWEST) & (b.low <= -1) & (b.high >= -1) & ~empty
    values = filled(values, spark_type("long"), zero | edge)
    failing = zero if wraps(call) else zero | edge
    return strict(args, Outcome(values, *settle(call, failing)))


def _truncating(a: Bounds, b: Bounds) -> Bounds:
    """Return `a / b` rounded toward zero; wraps at the least 64-bit number by -1."""
    with np.errstate(over="ignore"):
        quotient = a // b
        nearer_zero: Bounds = quotient + ((quotient * b != a) & ((a < 0) != (b < 0)))
    return nearer_zero


def _unary_minus(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a = numbers(args[0], call.args[0].type)
    if spark_type(call.type).family == "float":
        return strict(args, Outcome(Numbers(-a.high, -a.low, a.empty, a.nan)))
    zero = np.zeros_like(a.low)
    (low, high), over = _corners(exact.subtract, [(zero, a.high), (zero, a.low)])
    return _negated(call, args, Numbers(low, high, a.empty), over)


def _negated(call: Call, args: Sequence[Spec], values: Numbers, over: Flags) -> Spec:
    """Return the Spec of negated numbers; an overflow of a wide decimal fails in every mode."""
    kind = spark_type(call.type)
    if not kind.wide:
        return whole(call, args, values, over)
    low, high = _cut_to_34_digits(values.low, values.high)
    fitting, outside = exact.fit(Numbers(low, high, values.empty), kind)
    return strict(args, Outcome(fitting, fail=outside))


def _cut_to_34_digits(low: Bounds, high: Bounds) -> Pair:
    """Return wide decimals moved outward by Spark's rounding error.

    Spark negates in Scala's BigDecimal, whose default context has 34 of up to 38 digits.
    """
    return low - np.abs(low) // 10**33, high + np.abs(high) // 10**33


def _abs(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a = numbers(args[0], call.args[0].type)
    zero = np.zeros_like(a.low)
    negated, over = exact.subtract(zero, a.low)
    low = np.where(a.low >= 0, a.low, np.where(a.high <= 0, -a.high, zero))
    high = np.maximum(negated, a.high)
    if spark_type(call.type).family == "float":
        return strict(args, Outcome(Numbers(np.abs(low), np.abs(high), a.empty, a.nan)))
    # high of -(2**63) alone: -a.high wraps to itself; the type's range decides.
    low = np.where(low < 0, high, low)
    return _negated(call, args, Numbers(low, high, a.empty), over)


def _signum(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    a = numbers(args[0], call.args[0].type)
    if a.low.dtype != np.float64 or spark_type(call.type).family != "float":
        return opened(call, args)
    return strict(args, Outcome(Numbers(np.sign(a.low), np.sign(a.high), a.empty, a.nan)))


_SIDES: Final = "left, right"
ENTRIES: Final = (
    Entry("add", _SIDES, (2, 2), _monotone(exact.add, falling=False), "monotone; tells overflow"),
    Entry(
        "subtract",
        _SIDES,
        (2, 2),
        _monotone(exact.subtract, falling=True),
        "monotone, falling in the second argument; tells overflow",
    ),
    Entry("multiply", _SIDES, (2, 2), _multiply, "the corners enclose; tells overflow"),
    Entry("divide", _SIDES, (2, 2), _divide, "doubles: the corners, if no divisor is zero"),
    Entry("integral_divide", _SIDES, (2, 2), _integral_divide, "corners, if no divisor is zero"),
    Entry("remainder", _SIDES, (2, 2), _remainder, "dividend's sign, smaller than the divisor"),
    Entry("pmod", _SIDES, (2, 2), _pmod, "from zero to the divisor"),
    Entry("unary_minus", "x", (1, 1), _unary_minus, "falling; the least integer overflows"),
    Entry("abs", "x", (1, 1), _abs, "falling below zero, rising above"),
    Entry("signum", "x", (1, 1), _signum, "doubles: monotone"),
)
