"""Random lists and maps of parts, for `tests/spark/ranges.py`; their statistics are collected.

In every part lengths, nulls and the span of the elements are drawn anew: lists that are all
empty, all null or of one length, elements that are one value, NaN or null.
"""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from strata.format.encodings import arrow_type
from strata.model.schema import Column, Relation
from strata.stats import collect, concat
from strata.stats.wire import parse_inside

TYPES = {
    "li": "list<int32>",
    "ld": "list<float64>",
    "ls": "list<string>",
    "lr": "list<record<k: string, x: int32>>",
    "ll": "list<list<int16>>",
    "mi": "map<int32>",
    "ms": "map<string>",
    "mr": "map<record<k: string, x: int32>>",
}
_KEYS = ("a", "b", "k1", "k2", "k9", "é")
_UNKNOWN = 0.03  # of the places: their statistics are taken away


def nested_columns(
    rng: random.Random, relation: Relation, rows_a_part: int, count: int
) -> tuple[dict[str, pa.Array], dict[str, Any]]:
    """Return the columns of `TYPES` by name, and their statistics by theirs."""
    arrays, stats = {}, {}
    for name in TYPES:
        column = relation.by_name[name]
        kind = arrow_type(column.type)
        parts = [pa.array(_values(rng, name, rows_a_part), kind) for _ in range(count)]
        arrays[name] = pa.concat_arrays(parts)
        stats |= collected(column, parts, rng)
    return arrays, stats


def collected(column: Column, parts: list[pa.Array], rng: random.Random) -> dict[str, Any]:
    """Return the statistics of one column's parts, some of them taken away."""
    relation = Relation(0, (column,), (column.id,), ())
    rows = [collect(pa.table([part], names=[str(column.id)]), relation) for part in parts]
    found = concat(rows, [len(part) for part in parts])
    return {
        name: _some(found[name].combine_chunks(), rng)
        for name in found.column_names
        if parse_inside(name) is not None
    }


def _some(stats: pa.StructArray, rng: random.Random) -> pa.StructArray:
    gone = pa.array([rng.random() < _UNKNOWN for _ in range(len(stats))])
    fields = [stats.field(i) for i in range(stats.type.num_fields)]
    return pa.StructArray.from_arrays(fields, fields=list(stats.type), mask=gone)


def _values(rng: random.Random, name: str, rows: int) -> list[object]:
    make = _SOURCES[name[1]](rng)
    if name == "ll":
        make = _lists(rng, make, nulls=rng.choice((0.0, 0.2)))
    if name[0] == "m":
        return [_map(rng, make) for make in [_nullable(rng, make)] for _ in range(rows)]
    one = _lists(rng, _nullable(rng, make), nulls=rng.choice((0.0, 0.0, 0.1, 1.0)))
    return [one() for _ in range(rows)]


def _lists(
    rng: random.Random, make: Callable[[], object], *, nulls: float
) -> Callable[[], list[object] | None]:
    shortest = rng.choice((0, 0, 1, 2, 3))
    longest = shortest + rng.choice((0, 1, 3))
    if rng.random() < 0.1:
        shortest = longest = 0

    def one() -> list[object] | None:
        if rng.random() < min(nulls, 0.97):
            return None
        return [make() for _ in range(rng.randint(shortest, longest))]

    return one


def _map(rng: random.Random, make: Callable[[], object]) -> list[tuple[str, object]] | None:
    if rng.random() < 0.05:
        return None
    first = rng.randrange(len(_KEYS))
    keys = _KEYS[first : first + rng.choice((0, 1, 1, 2, 3))]
    return [(key, make()) for key in keys]


def _nullable(rng: random.Random, make: Callable[[], object]) -> Callable[[], object]:
    nulls = rng.choice((0.0, 0.0, 0.1, 0.5, 1.0))
    return lambda: None if rng.random() < nulls else make()


def _integers(rng: random.Random) -> Callable[[], object]:
    low = rng.choice((-5, 0, 2, 5, 100, -(2**15), 2**15 - 3))
    high = min(low + rng.choice((0, 0, 3, 50)), 2**15 - 1)
    return lambda: rng.randint(low, high)


def _floats(rng: random.Random) -> Callable[[], object]:
    low, nans = rng.choice((-2.5, 0.0, 3.0, 1e300)), rng.choice((0.0, 0.0, 0.3, 1.0))
    high = low + rng.choice((0.0, 1.5, 10.0))
    return lambda: float("nan") if rng.random() < nans else rng.uniform(low, high)


def _texts(rng: random.Random) -> Callable[[], object]:
    texts = rng.choice((("a", "ab", "abc"), ("b",), ("", "a%", "é", "zz"), ("k1", "k2", "k9")))
    return lambda: rng.choice(texts)


def _structs(rng: random.Random) -> Callable[[], object]:
    text, number = _texts(rng), _integers(rng)
    return lambda: {"k": rng.choice((text(), text(), None)), "x": number()}


_SOURCES: dict[str, Callable[[random.Random], Callable[[], object]]] = {
    "i": _integers,
    "d": _floats,
    "s": _texts,
    "r": _structs,
    "l": _integers,
}
