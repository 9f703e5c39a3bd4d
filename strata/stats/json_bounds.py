"""Turn the values of JSON paths into bounds, and choose the paths to keep."""

import math
from collections.abc import Collection
from operator import itemgetter
from typing import Any, Final, TypeVar

from strata.stats.bounds import cut_high, cut_low

MAX_PATHS: Final = 256  # of one column, the root included
STRING_BYTES: Final = 100  # longest string bound at collection

Fields = dict[str, Any]  # the fields of `wire.JSON_PATH`; missing ones are null
N = TypeVar("N", int, float)


def widest(counts: dict[str, int], room: int, last: Collection[str] = ()) -> list[str]:
    """Return the sorted keys that get statistics: those in the most rows if not all fit.

    `last`: keys that come behind all others.
    """
    if len(counts) > room:
        return sorted(sorted(counts, key=lambda key: (key in last, -counts[key], key))[:room])
    return sorted(counts)


def number_bounds(ints: tuple[int, int] | None, floats: tuple[float, float] | None) -> Fields:
    """Return float64 bounds around the extremes of a path's whole numbers and of its other numbers.

    A number written with a fraction or an exponent was rounded to the nearest float64 on reading.
    The written number lies within one step of it, so the float64 is never an exact bound.
    """
    lows, highs = [], []
    if ints is not None:
        lows.append((at_most(ints[0]), float(ints[0]) == ints[0]))
        highs.append((at_least(ints[1]), float(ints[1]) == ints[1]))
    if floats is not None:
        lows.append((math.nextafter(floats[0], -math.inf), False))
        highs.append((math.nextafter(floats[1], math.inf), False))
    if not lows:
        return {"num_exact": False}
    low, high = min(lows, key=itemgetter(0)), max(highs, key=itemgetter(0))
    return {"num_low": low[0], "num_high": high[0], "num_exact": low[1] and high[1]}


def string_bounds(extremes: tuple[str, str] | None) -> Fields:
    """Return the bounds of a path's strings, cut to `STRING_BYTES`."""
    if extremes is None:
        return {"str_low_exact": False, "str_high_exact": False}
    low, high = extremes
    low_cut, high_cut = cut_low(low, STRING_BYTES), cut_high(high, STRING_BYTES)
    return {
        "str_low": low_cut,
        "str_high": high_cut,
        "str_low_exact": low_cut == low,
        "str_high_exact": high_cut == high,
    }


def at_most(value: int) -> float:
    """Return the greatest float64 that is not above a whole number."""
    nearest = float(value)
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)


def at_least(value: int) -> float:
    """Return the least float64 that is not below a whole number."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)
