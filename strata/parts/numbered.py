"""Many names as numbers of 8 bytes each: to find those that are missing, or there twice.

A shard of ten million parts has names of a gigabyte, twice: those listed and those in manifests.
Equal names have equal numbers. Different ones have different numbers but for one chance in 2^64,
which nobody can bring about, because Python draws the key of its hashes anew for each process. So a
part without the number of a listed one is surely not listed, and a part whose number nothing else
has is surely named once. Where two numbers are equal, the names themselves are compared.
"""

from array import array
from collections.abc import Sequence

import numpy as np

from strata.kernels.arrays import Bools, Ints


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
