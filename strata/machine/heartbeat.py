"""A move that is repeated while a block works: writers' leases and readers' holds live by it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from strata.errors import Conflict, StrataError, Unavailable

BEATS: Final = 3  # in a lease: two renewals may fail in a row


@contextmanager
def beating(name: str, lease_ms: int, renew: Callable[[], object]) -> Iterator[None]:
    """Call `renew` after each third of a lease, in a thread of this name, until the block ends.

    Where the store is away, or others are faster, the next beat tries again. Any other error ends
    the beat: the lease has expired, or the shard is gone, and the next commit says so.
    """
    ended = Event()

    def beat() -> None:
        while not ended.wait(lease_ms / BEATS / 1000):
            try:
                renew()
            except (Unavailable, Conflict):
                continue
            except StrataError:
                return

    thread = Thread(target=beat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
