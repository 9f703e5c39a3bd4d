"""The exact fold of parsed JSON values into statistics per path and per kind.

Breadth first: all values of one path are summarised at once, then the maps among them hand the
values of each key to the next level. Every path has its presence counts, so that a missing key
is known. Two limits keep an odd document from exploding; where they cut, the map above is not
`complete`, which says that nothing is known of its other keys.
"""

import math
from collections import Counter, deque
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any, Final

from strata.stats.bounds import cut_high, cut_low
from strata.stats.wire import Path

MAX_DEPTH: Final = 8  # keys in a path
MAX_PATHS: Final = 256  # of one column, the root included
STRING_BYTES: Final = 100  # longest string bound at collection

Fields = dict[str, Any]  # the fields of `wire.JSON_PATH`; missing ones are null
Maps = list[dict[str, Any]]


def fold(values: list[Any]) -> dict[Path, Fields]:
    """Return the statistics of every path in `values`, the root first.

    `values` is what a JSON parser returns for each row. Errs: number bounds are rounded outward.
    """
    result: dict[Path, Fields] = {}
    queue: deque[tuple[Path, list[Any]]] = deque([((), values)])
    room = MAX_PATHS - 1
    while queue:
        path, here = queue.popleft()
        result[path], maps = summarise(here)
        counts: Counter[str] = Counter(chain.from_iterable(maps))
        keys = widest(counts, room) if len(path) < MAX_DEPTH else []
        room -= len(keys)
        result[path]["complete"] = len(keys) == len(counts)
        queue.extend(((*path, key), _values_at(maps, key, counts[key])) for key in keys)
    return result


def widest(counts: dict[str, int], room: int) -> list[str]:
    """Return the keys that get statistics, sorted: those in most rows if not all fit."""
    if len(counts) > room:
        return sorted(sorted(counts, key=lambda key: (-counts[key], key))[:room])
    return sorted(counts)


def summarise(values: list[Any]) -> tuple[Fields, Maps]:
    """Return counts and bounds of the values of one path, and the maps among them."""
    kinds = Counter(map(type, values))
    strings: list[str] = _only(values, kinds, str)
    maps: Maps = _only(values, kinds, dict)
    fields = {
        "present": len(values),
        "json_nulls": kinds[NoneType],
        "bools": kinds[bool],
        "trues": sum(_only(values, kinds, bool)),
        "numbers": kinds[int] + kinds[float],
        "strings": len(strings),
        "lists": kinds[list],
        "maps": len(maps),
    }
    fields |= number_bounds(
        _extremes(_only(values, kinds, int)), _extremes(_only(values, kinds, float))
    )
    fields |= string_bounds(_extremes(strings))
    return fields, maps


def number_bounds(ints: tuple[int, int] | None, floats: tuple[float, float] | None) -> Fields:
    """Return float64 bounds around the extremes of the whole and the other numbers of a path.

    A number written with a fraction or an exponent was rounded when it was read, to the nearest
    float64: it lies within one step of it, and is never an exact bound.
    """
    lows, highs = [], []
    if ints is not None:
        lows.append((_at_most(ints[0]), float(ints[0]) == ints[0]))
        highs.append((_at_least(ints[1]), float(ints[1]) == ints[1]))
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


def _only(values: list[Any], kinds: Counter[type], kind: type) -> list[Any]:
    """Return the values of exactly one type; no copy when all or none are."""
    if kinds[kind] in (0, len(values)):
        return values if kinds[kind] else []
    return [value for value in values if type(value) is kind]


def _extremes(values: list[Any]) -> tuple[Any, Any] | None:
    return (min(values), max(values)) if values else None


def _at_most(value: int) -> float:
    nearest = float(value)
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)


def _at_least(value: int) -> float:
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def _values_at(maps: Maps, key: str, count: int) -> list[Any]:
    if count == len(maps):
        return list(map(itemgetter(key), maps))
    return [one[key] for one in maps if key in one]
