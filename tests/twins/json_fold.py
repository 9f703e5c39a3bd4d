"""JSON statistics the slow and obvious way: parse every text, look at every value.

The twin of the compiled scanner (`strata.stats.json_scan`), limits included.
"""

import json
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from strata.stats.json_bounds import MAX_PATHS, Fields, number_bounds, string_bounds
from strata.stats.wire import Path

MAX_DEPTH = 8  # keys in a path
Chosen = Callable[[Path], bool]
NESTING = 400  # brackets
NUMBER_BYTES = 900
NAME_BYTES = 40_000


class Number(NamedTuple):
    """A number as it was read, and whether it was written as an integer."""

    value: int | float
    whole: bool


def fold_texts(
    texts: list[bytes], first: Sequence[Chosen] = (), last: Collection[Path] = ()
) -> dict[Path, Fields]:
    """Return the statistics of every path in the texts, the root first.

    Raises: ValueError when some text cannot be read, or not in one way only.
    """
    return fold([parse(text) for text in texts], first, last)


def parse(text: bytes) -> Any:
    """Return the value of a JSON text, with its numbers as `Number`."""
    orjson.loads(text)  # what is not strict JSON ends here
    try:
        value = json.loads(
            text.decode(),
            parse_int=lambda digits: _number(digits, whole=True),
            parse_float=lambda digits: _number(digits, whole=False),
            object_pairs_hook=_map,
        )
    except RecursionError as too_deep:
        raise ValueError("nested too deeply") from too_deep
    if _depth(value) >= NESTING:
        raise ValueError("nested too deeply")
    return value


def _number(digits: str, *, whole: bool) -> Number:
    if len(digits) >= NUMBER_BYTES:
        raise ValueError("a number is too long")
    return Number(orjson.loads(digits), whole)


def _map(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key occurs twice in one map")
    if any(len(key.encode()) >= NAME_BYTES for key, _ in pairs):
        raise ValueError("a name is too long")
    return dict(pairs)


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if type(value) is list else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


def fold(
    values: list[Any], first: Sequence[Chosen] = (), last: Collection[Path] = ()
) -> dict[Path, Fields]:
    """Return the statistics of every path in parsed values."""
    result: dict[Path, Fields] = {}
    queue: deque[tuple[Path, list[Any]]] = deque([((), values)])
    kept = _first(values, first)
    room = MAX_PATHS - 1 - len(kept)
    while queue:
        path, here = queue.popleft()
        maps = [value for value in here if isinstance(value, dict)]
        counts = Counter(key for one in maps for key in one)
        mine = {key for key in counts if (*path, key) in kept}
        others = {key: count for key, count in counts.items() if key not in mine}
        behind = {key for key in others if (*path, key) in last}
        keys = sorted([*mine, *_widest(others, room, behind)]) if len(path) < MAX_DEPTH else []
        room -= len(keys) - len(mine)
        result[path] = summarise(here) | {"complete": len(keys) == len(counts)}
        queue.extend(((*path, key), [one[key] for one in maps if key in one]) for key in keys)
    return result


def all_paths(values: list[Any]) -> list[Path]:
    """Return the paths that occur, outer ones first, of up to `MAX_DEPTH` keys."""
    ways: dict[Path, None] = {}  # all there are, outer ones first
    level: list[tuple[Path, Any]] = [((), value) for value in values]
    for _ in range(MAX_DEPTH):
        maps = [(path, value) for path, value in level if isinstance(value, dict)]
        level = [((*path, key), inner) for path, value in maps for key, inner in value.items()]
        ways |= dict.fromkeys(sorted({path for path, _ in level}))
    return list(ways)


def _widest(counts: Mapping[str, int], room: int, behind: Collection[str]) -> list[str]:
    """Return the keys in most rows, of equals the first by name; those `behind` come last."""
    by_rows = sorted(sorted(counts), key=lambda key: counts[key], reverse=True)
    wanted = [key for key in by_rows if key not in behind]
    return [*wanted, *(key for key in by_rows if key in behind)][: max(room, 0)]


def _first(values: list[Any], first: Sequence[Chosen]) -> set[Path]:
    """Return the paths that come first, and those above them, where not all fit."""
    ways = all_paths(values)
    found: set[Path] = set()
    if len(ways) < MAX_PATHS:
        return found
    for chosen in first:
        for path in filter(chosen, ways):
            whole = {path[:length] for length in range(1, len(path) + 1)}
            if len(found | whole) < MAX_PATHS:
                found |= whole
    return found


def summarise(values: list[Any]) -> Fields:
    """Return counts and bounds of the values of one path."""
    kinds = Counter(map(type, values))
    numbers = [value for value in values if isinstance(value, Number)]
    ints = [number.value for number in numbers if isinstance(number.value, int)]
    floats = [number.value for number in numbers if isinstance(number.value, float)]
    strings = [value for value in values if isinstance(value, str)]
    fields: Fields = {
        "present": len(values),
        "json_nulls": kinds[type(None)],
        "bools": kinds[bool],
        "trues": sum(value is True for value in values),
        "numbers": len(numbers),
        "integers": sum(number.whole for number in numbers),
        "strings": len(strings),
        "lists": kinds[list],
        "maps": kinds[dict],
    }
    fields |= number_bounds(_extremes(ints), _extremes(floats))
    return fields | string_bounds(_extremes(strings))


def _extremes(values: list[Any]) -> tuple[Any, Any] | None:
    return (min(values), max(values)) if values else None
