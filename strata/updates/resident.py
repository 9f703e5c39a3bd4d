"""Measure a task's resident memory, and give back the freed memory that allocators keep.

Allocators keep freed memory for reuse: Arrow's keeps pages for a second (an hour in Spark's
workers, see `strata.session.session`); the C library's keeps everything below a block still in use.
When memory is short, this amounts to as much as the memory in use. Always giving everything back
costs two fifths of a merge's time, so it happens only when resident memory is near the limit and
has grown since the last time.

By default the C library gives larger arrays back as soon as they are freed, and the kernel clears
pages before it hands them out again: a twelfth of a merge's time. So the library is set to keep
some.
"""

import ctypes
import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final, TypeVar

import pyarrow as pa

NEAR: Final = 1 / 2  # of the limit: give back from here on
GROWN: Final = 1 / 16  # of the limit: least growth since the last time that is worth giving back
KEPT: Final = 1 / 8  # of the limit: the C library may keep this much beyond what is in use
REUSED: Final = 1 / 32  # of the limit: larger arrays have pages of their own
MOST_REUSED: Final = 32 * 1024 * 1024  # the range that the C library accepts for it
M_TRIM_THRESHOLD: Final = -1  # of mallopt(3)
M_MMAP_THRESHOLD: Final = -3

A = TypeVar("A")


class Resident:
    """Keeps a task's resident memory near the memory in use; does nothing where that is unknown."""

    def __init__(self, limit_bytes: int) -> None:
        """Begin to measure."""
        self._limit = limit_bytes
        self._start = resident_bytes()
        self._left = 0  # resident bytes after the last time

    def settle(self) -> None:
        """Give unused memory back, if it is time to."""
        grown = resident_bytes() - self._start
        if grown > max(NEAR * self._limit, self._left + GROWN * self._limit):
            give_back()
            self._left = resident_bytes() - self._start

    def settled(self, items: Iterable[A]) -> Iterator[A]:
        """Yield the items and settle after each; none is held while the next is made."""
        for item in items:
            self.settle()
            yield item
            del item


def giving_back(items: Iterable[A]) -> Iterator[A]:
    """Yield the items, giving back after each the memory that only its making took.

    For huge rows: one or two of them lie unused after every step.
    """
    for item in items:
        pa.default_memory_pool().release_unused()
        yield item
        del item  # not held while the next is made


def resident_bytes() -> int:
    """Return the resident bytes of this process; 0 where the system does not report them."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def give_back() -> None:
    """Give the system all unused memory that allocators keep."""
    pa.default_memory_pool().release_unused()
    if (trim := _of_libc("malloc_trim")) is not None:
        trim(0)


def keep_freed(limit_bytes: int) -> None:
    """Let the C library keep freed memory for reuse, little compared with a task's limit."""
    if (option := _of_libc("mallopt")) is not None:
        option(M_TRIM_THRESHOLD, int(min(KEPT * limit_bytes, 2**31 - 1)))
        option(M_MMAP_THRESHOLD, int(min(REUSED * limit_bytes, MOST_REUSED)))


@cache
def _of_libc(name: str) -> Any:
    """Return a function of the C library; None if it lacks it."""
    return getattr(ctypes.CDLL(None), name, None)
