"""Ranges from statistics: the bounds of each side, and the number of values."""

import re
from dataclasses import dataclass

import numpy as np

from strata.expr.sparktype import SparkType, spark_type
from strata.expr.spec import (
    NO,
    YES,
    Bounds,
    Flags,
    Numbers,
    both,
    either,
    integers,
    negated,
    uniform,
)


def same_type(declared: str, found: str) -> bool:
    """Return whether a DDL type equals an expression's type, which Spark spells differently."""
    if spark_type(declared) == spark_type(found):
        return True
    one, other = (re.sub(r"[\s`]", "", text) for text in (declared, found))
    return one == other and "<" in one


@dataclass(frozen=True, slots=True)
class Population:
    """The number of values, where it is known, and where there may be any."""

    count: Bounds
    known: Flags
    some: Flags


@dataclass(frozen=True, slots=True)
class Side:
    """One end of the ranges, as the statistics give it."""

    values: Bounds
    known: Flags


def ranged(low: Side, high: Side, kind: SparkType, none: Flags, nan: Flags) -> Numbers:
    """Return ranges, opened to the type's limits where an end is unknown or invalid."""
    if kind.family == "float":
        least, most = np.array([-np.inf]), np.array([np.inf])
    else:
        least, most = integers(kind.low, kind), integers(kind.high, kind)
        nan = NO
    bottom, top = (side.values.astype(least.dtype, copy=False) for side in (low, high))
    low_known, high_known = low.known, high.known
    if kind.family == "decimal":  # its Arrow type may hold more digits than declared
        low_known = both(low_known, (bottom >= least) & (bottom <= most))
        high_known = both(high_known, (top >= least) & (top <= most))
    sound, known = bottom <= top, both(low_known, high_known)  # also false for NaN
    if uniform(both(known, sound)) is YES:
        return Numbers(bottom, top, none, nan)
    twisted = both(known, ~sound)
    if kind.family == "float":
        odd = either(both(low_known, np.isnan(bottom)), both(high_known, np.isnan(top)))
        twisted, nan = either(twisted, odd), either(nan, odd)
    straight = negated(twisted)
    bottom = np.where(both(low_known, straight), bottom, least)
    top = np.where(both(high_known, straight), top, most)
    return Numbers(bottom, top, none, nan)
