"""Find parts that a store lacks, and parts named twice, by a number of 8 bytes for each name.

A shard of ten million parts has names of a gigabyte, twice: those listed and those in manifests.
Equal names have equal numbers. Different ones have different numbers but for one chance in 2^64,
which nobody can bring about, because Python draws the key of its hashes anew for each process. So a
part without the number of a listed one is surely not listed, and a part whose number nothing else
has is surely named once. Where two numbers are equal, the names themselves are compared.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from strata.kernels.arrays import Bools, Ints

Named: TypeAlias = tuple[int, int, str]  # a batch by its place, a run of it, a part


class Numbered:
    """The numbers of many names."""

    def __init__(self) -> None:
        """Begin without names."""
        self._numbers = array("q")

    def add(self, names: Sequence[str]) -> Ints:
        """Add names; return their numbers."""
        found = name_numbers(names)
        self._numbers.frombytes(found.tobytes())
        return found

    def sorted(self) -> Ints:
        """Return all numbers in order; nothing is added afterwards."""
        found: Ints = np.frombuffer(self._numbers, np.int64)
        found.sort()  # in place
        return found

    def twice(self) -> Ints:
        """Return the numbers that occur more than once; nothing is added afterwards."""
        found = self.sorted()
        again: Ints = np.unique(found[1:][found[1:] == found[:-1]])
        return again


def name_numbers(names: Sequence[str]) -> Ints:
    """Return a number for each name. Shape: one element a name."""
    return np.fromiter(map(hash, names), np.int64, len(names))


def numbers_in(asked: Ints, known: Ints) -> Bools:
    """Return which numbers are among others. Shape: `known` is in order."""
    if not len(known):
        return np.zeros(len(asked), np.bool_)
    found: Bools = known[np.minimum(np.searchsorted(known, asked), len(known) - 1)] == asked
    return found


def named_again(named: Iterable[Named]) -> Iterator[tuple[str, int, list[int]]]:
    """Yield each part that two batches name, or one run twice: how often, and by which batches.

    Two runs of a batch may name the same part: older versions of ingest gave runs with equal rows
    the same part, and its rows count once for each run.
    """
    times = Counter(named)
    owners: dict[str, list[int]] = {}
    count: Counter[str] = Counter()
    wrong = dict.fromkeys(key for (_, _, key), n in times.items() if n > 1)
    for (batch, _, key), n in times.items():
        count[key] += n
        mine = owners.setdefault(key, [])
        if batch not in mine:
            mine.append(batch)
    for key, mine in owners.items():
        if key in wrong or len(mine) > 1:
            yield key, count[key], mine
