"""Functions of doubles: monotone, with a margin for the last digits of other implementations."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr.entry import Context, Entry, Outcome, Transfer, literal, numbers, opened, strict
from strata.expr.functions.arithmetic import whole
from strata.expr.nodes import Call
from strata.expr.sparktype import spark_type
from strata.expr.spec import NO, Bounds, Flags, Numbers, Spec, everything, gate, hull, occupied

_ROOM: Final = 1e-14  # relative: far more than the difference between Java's libraries and NumPy's


def _outward(low: Bounds, high: Bounds) -> tuple[Bounds, Bounds]:
    tiny = np.finfo(np.float64).tiny
    with np.errstate(over="ignore", invalid="ignore"):
        down = np.where(np.isfinite(low), low - np.abs(low) * _ROOM - tiny, low)
        up = np.where(np.isfinite(high), high + np.abs(high) * _ROOM + tiny, high)
    return down, up


def _doubles(call: Call, args: Sequence[Spec]) -> Numbers | None:
    kinds = {spark_type(arg.type).family for arg in call.args} | {spark_type(call.type).family}
    return numbers(args[0], call.args[0].type) if kinds == {"float"} else None


def _rising(function: Callable[[Any], Any]) -> Transfer:
    """Return the transfer of a function that rises everywhere."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        a = _doubles(call, args)
        if a is None:
            return opened(call, args)
        with np.errstate(all="ignore"):
            low, high = _outward(function(a.low), function(a.high))
        return strict(args, Outcome(Numbers(low, high, a.empty, a.nan)))

    return transfer


def _logarithm(function: Callable[[Any], Any], edge: float) -> Transfer:
    """Return the transfer of a logarithm: null up to the edge, rising beyond it."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        a = _doubles(call, args)
        if a is None:
            return opened(call, args)
        return strict(args, _log(a, function, edge))

    return transfer


def _log(a: Numbers, function: Callable[[Any], Any], edge: float) -> Outcome:
    null = (a.low <= edge) & ~a.empty
    with np.errstate(all="ignore"):
        low = np.where(a.low > edge, function(np.maximum(a.low, edge)), -np.inf)
        high = np.where(a.high > edge, function(np.maximum(a.high, edge)), -np.inf)
    low, high = _outward(low, high)
    return Outcome(Numbers(low, high, a.empty | (a.high <= edge), a.nan), null)


def _log_to_base(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the logarithm to a constant base above one; for other bases any number or null."""
    base = literal(call, 0)
    value = None if base is None else base.value
    if not isinstance(value, float) or not 1.0 < value < np.inf or len(args) != 2:
        return opened(call, args, fail=False)
    if {spark_type(arg.type).family for arg in call.args} != {"float"}:
        return opened(call, args)
    a = numbers(args[1], call.args[1].type)
    return strict(args, _log(a, lambda x: np.log(x) / np.log(value), 0.0))


def _sqrt(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return square roots; NaN for negative numbers."""
    a = _doubles(call, args)
    if a is None:
        return opened(call, args)
    low, high = np.sqrt(np.maximum(a.low, 0.0)), np.sqrt(np.maximum(a.high, 0.0))
    below = (a.low < 0) & ~a.empty
    return strict(args, Outcome(Numbers(low, high, a.empty | (a.high < 0), a.nan | below)))


def _pow(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return powers, which rise for a non-negative base and a positive constant exponent."""
    a, power = _doubles(call, args), literal(call, 1)
    if a is None:
        return opened(call, args)
    if power is None or not isinstance(power.value, float) or not 0 < power.value < np.inf:
        return opened(call, args, null=False, fail=False)
    with np.errstate(all="ignore"):
        low, high = _outward(a.low**power.value, a.high**power.value)
    rising: Flags = (a.low >= 0) | a.empty
    low, high = np.where(rising, low, -np.inf), np.where(rising, high, np.inf)
    return strict(args, Outcome(Numbers(low, high, a.empty, a.nan | ~rising)))


def _nanvl(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return x, or the second argument where x is NaN; only there it is evaluated."""
    x, other = args
    if not isinstance(x.values, Numbers) or x.values.low.dtype != np.float64:
        return opened(call, args)
    nan = x.values.nan
    values = gate(other.values, nan)
    kept = Numbers(x.values.low, x.values.high, x.values.empty)
    both = hull(kept, values) if occupied(values).any() else kept
    return Spec(both, x.null | (nan & other.null), x.fail | (nan & other.fail))


def _half_even(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return x rounded to a constant scale, ties to even, with a margin of one unit."""
    constant, kind = literal(call, 1), spark_type(call.type)
    if constant is None or not isinstance(constant.value, int):
        return opened(call, args)
    scale, a = constant.value, numbers(args[0], call.args[0].type)
    if kind.family == "float" and -300 < scale < 300:
        unit = 10.0**-scale
        low, high = np.nextafter(a.low - unit, -np.inf), np.nextafter(a.high + unit, np.inf)
        return strict(args, Outcome(Numbers(low, high, a.empty, a.nan)))
    if kind.family == "int" and scale >= 0:
        return strict(args, Outcome(a))
    if kind.family == "int" and scale > -18:
        unit_ = np.array([10**-scale])
        low, under = exact.subtract(a.low, unit_)
        high, over = exact.add(a.high, unit_)
        return whole(call, args, Numbers(low, high, a.empty), under | over)
    return opened(call, args)


def _any_double(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    if spark_type(call.type).family != "float":
        return opened(call, args)
    return strict(args, Outcome(everything(call.type), NO, NO))


def _width_bucket(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the bucket of x among equal buckets between two edges; null for NaN."""
    edges = [constant.value if (constant := literal(call, n)) else None for n in (1, 2, 3)]
    first, last, count = edges
    known = isinstance(first, float) and isinstance(last, float) and isinstance(count, int)
    if not known or call.args[0].type != "double":
        return opened(call, args, fail=False)
    assert isinstance(first, float)
    assert isinstance(last, float)
    assert isinstance(count, int)
    # Beyond, an intermediate product of Spark's is infinite.
    if not (first < last and 0 < count < 2**31 and first > -1e290 and last < 1e290):
        return opened(call, args, fail=False)
    a = numbers(args[0], "double")
    ends = (np.clip(x, first, last) - first for x in (a.low, a.high))
    with np.errstate(all="ignore"):
        places = [count * (end / (last - first)) for end in ends]
        low, high = (np.floor(x + x * by) for x, by in zip(places, (-_ROOM, _ROOM), strict=True))
    low, high = (np.nan_to_num(x, posinf=0.0).astype(np.int64) + 1 for x in (low, high))
    low = np.where(a.low < first, 0, np.clip(low, 0, count + 1))
    high = np.where(a.high < first, 0, np.clip(high, 0, count + 1))
    high = np.where(a.high >= last, count + 1, high)
    return strict(args, Outcome(Numbers(low, high, a.empty), a.nan))


_ONE, _TWO = (1, 1), (2, 2)
_RISES, _LOG = "monotone", "monotone; null for what has no logarithm"
ENTRIES: Final = (
    Entry("sqrt", "x", _ONE, _sqrt, "monotone; NaN below zero"),
    Entry("cbrt", "x", _ONE, _rising(np.cbrt), _RISES),
    Entry("exp", "x", _ONE, _rising(np.exp), _RISES),
    Entry("expm1", "x", _ONE, _rising(np.expm1), _RISES),
    Entry("rint", "x", _ONE, _rising(np.rint), _RISES),
    Entry("to_degrees", "x", _ONE, _rising(np.degrees), _RISES),
    Entry("to_radians", "x", _ONE, _rising(np.radians), _RISES),
    Entry("atan", "x", _ONE, _rising(np.arctan), _RISES),
    Entry("tanh", "x", _ONE, _rising(np.tanh), _RISES),
    Entry("log", "x", _ONE, _logarithm(np.log, 0.0), _LOG),
    Entry("log10", "x", _ONE, _logarithm(np.log10, 0.0), _LOG),
    Entry("log2", "x", _ONE, _logarithm(np.log2, 0.0), _LOG),
    Entry("log1p", "x", _ONE, _logarithm(np.log1p, -1.0), _LOG),
    Entry("logarithm", "base, x", (1, 2), _log_to_base, "as log, for a constant base above one"),
    Entry("pow", "x, exponent", _TWO, _pow, "monotone where x ≥ 0 and the exponent is constant"),
    Entry("sin", "x", _ONE, _any_double, "any number; never fails"),
    Entry("cos", "x", _ONE, _any_double, "any number; never fails"),
    *(
        Entry(name, "x", _ONE, _any_double, "any number; never fails")
        for name in (
            "tan",
            "cot",
            "sec",
            "csc",
            "asin",
            "acos",
            "sinh",
            "cosh",
            "asinh",
            "acosh",
            "atanh",
        )
    ),
    Entry("atan2", "y, x", _TWO, _any_double, "any number; never fails"),
    Entry(
        "width_bucket", "x, low, high, count", (4, 4), _width_bucket, "monotone for constant edges"
    ),
    Entry("hypot", "left, right", _TWO, _any_double, "any number; never fails"),
    Entry("nanvl", "x, otherwise", _TWO, _nanvl, "x; the second where x is NaN"),
    Entry("bround", "x, scale", _TWO, _half_even, "monotone for a constant scale"),
)
