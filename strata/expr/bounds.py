"""Exact arithmetic on arrays of bounds: integers with overflow flags, decimals, doubles.

Whole numbers are int64, or Python integers in object arrays for wide decimals. Operations on int64
saturate and return where they did: a saturated bound still encloses every result that fits 64 bits.
"""

import numpy as np

from strata.expr.sparktype import INT64, SparkType
from strata.expr.spec import NO, Bounds, Flags, Numbers

LOWEST, HIGHEST = INT64
_SAFE_DIGITS = 18  # 10**18 < 2**63


def add(a: Bounds, b: Bounds) -> tuple[Bounds, Flags]:
    """Return `a + b`, and where it was saturated at 64 bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = a + b
    if total.dtype != np.int64:
        return total, NO
    return _saturated(total, ((a ^ total) & (b ^ total)) < 0, a >= 0)


def subtract(a: Bounds, b: Bounds) -> tuple[Bounds, Flags]:
    """Return `a - b`, and where it was saturated at 64 bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = a - b
    if total.dtype != np.int64:
        return total, NO
    return _saturated(total, ((a ^ b) & (a ^ total)) < 0, a >= 0)


def multiply(a: Bounds, b: Bounds) -> tuple[Bounds, Flags]:
    """Return `a * b`, and where it was saturated at 64 bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = a * b
        if product.dtype != np.int64:
            return product, NO
        # A wrapped product is off by at least 2**64, the estimate by far less than 2**40.
        estimate = a.astype(np.float64) * b.astype(np.float64)
        overflow = np.abs(product.astype(np.float64) - estimate) > 2.0**40
    return _saturated(product, overflow, estimate >= 0)


def _saturated(values: Bounds, overflow: Flags, upward: Flags) -> tuple[Bounds, Flags]:
    if not overflow.any():
        return values, NO
    return np.where(overflow, np.where(upward, HIGHEST, LOWEST), values), overflow


def fit(values: Numbers, kind: SparkType, over: Flags = NO) -> tuple[Numbers, Flags]:
    """Return the values clipped to the type's range, and where some may lie outside.

    `over`: where bounds were saturated, so that values outside 64 bits are possible.
    """
    outside = ((values.low < kind.low) | (values.high > kind.high) | over) & ~values.empty
    if not outside.any():
        return Numbers(_held(values.low, kind), _held(values.high, kind), values.empty), NO
    low = _held(np.maximum(values.low, kind.low), kind)
    high = _held(np.minimum(values.high, kind.high), kind)
    return Numbers(low, high, values.empty | (low > high)), outside


def _held(bounds: Bounds, kind: SparkType) -> Bounds:
    """Return whole numbers in the width of the type; numbers outside it must be unused."""
    if kind.wide:
        return bounds.astype(object, copy=False)
    if bounds.dtype == object:
        return np.clip(bounds, LOWEST, HIGHEST).astype(np.int64)
    return bounds


def rescale(bounds: Bounds, shift: int, digits: int) -> Bounds:
    """Return decimals of at most `digits` digits times 10**shift, rounded HALF_UP.

    Exact: becomes an array of Python integers where 64 bits may not be enough.
    """
    if shift == 0:
        return bounds
    if shift > 0:
        wide = bounds if digits + shift <= _SAFE_DIGITS else bounds.astype(object)
        scaled: Bounds = wide * 10**shift
        return scaled
    if -shift > _SAFE_DIGITS:
        bounds = bounds.astype(object)
    unit = 10**-shift
    magnitude: Bounds = (np.abs(bounds) + unit // 2) // unit  # half away from zero; unit is even
    return np.where(bounds < 0, -magnitude, magnitude)


def truncated(bounds: Bounds, kind: SparkType) -> Bounds:
    """Return doubles as whole numbers as Java casts them: toward zero, saturated, NaN as 0."""
    clean = np.nan_to_num(np.trunc(bounds), nan=0.0, posinf=np.inf, neginf=-np.inf)
    # 2**63 - 1 as a double rounds to 2.0**63, which does not fit.
    inside = np.clip(clean, -(2.0**63), np.nextafter(2.0**63, 0.0)).astype(np.int64)
    whole = np.where(clean >= 2.0**63, HIGHEST, inside)
    return np.clip(whole, kind.low, kind.high)


def single(bounds: Bounds) -> Bounds:
    """Return doubles rounded to the nearest float, as Java's cast to float does."""
    with np.errstate(over="ignore"):
        rounded: Bounds = bounds.astype(np.float32).astype(np.float64)
    return rounded


def truncating(bounds: Bounds, unit: int) -> Bounds:
    """Return whole numbers divided by a positive unit, rounded toward zero."""
    quotient = bounds // unit
    nearer_zero: Bounds = quotient + ((bounds < 0) & (quotient * unit != bounds))
    return nearer_zero
