"""What a task has in memory, and giving back what allocators keep of it.

Allocators keep what is freed for the next who asks: Arrow's its pages of a second ago (of an hour
in Spark's workers, see `strata.spark.session`), the C library's whatever lies below something still
in use. Where memory is little that is as much as all that is in use. To give everything back at
once costs two fifths of the time of a merge; so it is done where resident memory has come near the
limit, and has grown since the last time.

Left to itself the C library gives back larger arrays as they are freed, and pages that are taken
anew are cleared first: a twelfth of the time of a merge. So it is told to keep some.
"""

import ctypes
import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final, TypeVar

import pyarrow as pa

NEAR: Final = 1 / 2  # of the limit: from there on it is given back
GROWN: Final = 1 / 16  # of the limit: so much more than the last time, or it is not worth the while
KEPT: Final = 1 / 8  # of the limit: so much the C library may keep above what is in use
REUSED: Final = 1 / 32  # of the limit: larger arrays have pages of their own
MOST_REUSED: Final = 32 * 1024 * 1024  # what the C library takes for that
M_TRIM_THRESHOLD: Final = -1  # of mallopt(3)
M_MMAP_THRESHOLD: Final = -3

A = TypeVar("A")


class Resident:
    """Keeps what a task has in memory near what is in use; nothing where that cannot be told."""

    def __init__(self, limit_bytes: int) -> None:
        """Count from now on."""
        self._limit = limit_bytes
        self._start = resident_bytes()
        self._left = 0  # after the last time

    def settle(self) -> None:
        """Give back what is not in use, if it is time to."""
        grown = resident_bytes() - self._start
        if grown > max(NEAR * self._limit, self._left + GROWN * self._limit):
            give_back()
            self._left = resident_bytes() - self._start

    def settled(self, items: Iterable[A]) -> Iterator[A]:
        """Yield the items, settled after each was made; none is held while the next is made."""
        for item in items:
            self.settle()
            yield item
            del item


def giving_back(items: Iterable[A]) -> Iterator[A]:
    """Yield the items; what making each of them took, and it does not hold, is given back at once.

    For huge rows, of which one or two lie unused after every step.
    """
    for item in items:
        pa.default_memory_pool().release_unused()
        yield item
        del item  # not held while the next is made


def resident_bytes() -> int:
    """Return how much of this process is in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def give_back() -> None:
    """Give the system all that allocators keep without need."""
    pa.default_memory_pool().release_unused()
    if (trim := _of_libc("malloc_trim")) is not None:
        trim(0)


def keep_freed(limit_bytes: int) -> None:
    """Let the C library keep memory for the next who asks, little against a task's limit."""
    if (option := _of_libc("mallopt")) is not None:
        option(M_TRIM_THRESHOLD, int(min(KEPT * limit_bytes, 2**31 - 1)))
        option(M_MMAP_THRESHOLD, int(min(REUSED * limit_bytes, MOST_REUSED)))


@cache
def _of_libc(name: str) -> Any:
    """Return a function of the C library; None where it has no such one."""
    return getattr(ctypes.CDLL(None), name, None)
