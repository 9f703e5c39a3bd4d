"""Slow twin: missing parts and parts named twice, by their names, all of them in memory."""

from collections import Counter
from collections.abc import Collection, Sequence

Listed = Sequence[tuple[int, str]]  # the run and the key of each part of a batch


def missing(batches: Sequence[Listed], there: Collection[str]) -> list[list[str]]:
    """Return the parts of each batch that are not stored."""
    return [[key for _, key in parts if key not in there] for parts in batches]


def named_twice(batches: Sequence[Listed]) -> list[dict[str, int]]:
    """Return the parts that two batches name, or one run twice, by batch: how often.

    Two runs of a batch may name the same part.
    """
    own = [{key for _, key in parts} for parts in batches]
    again = {key for parts in batches for (_, key), n in Counter(parts).items() if n > 1}
    shared = again | {key for key, n in Counter(k for keys in own for k in keys).items() if n > 1}
    times = Counter(key for parts in batches for _, key in parts)
    return [{key: times[key] for key in keys & shared} for keys in own]
