"""Try again while the outside is unavailable, with growing, jittered pauses.

This is only for calls that may be repeated after any outcome of the first attempt: reads, and
writes of write-once blobs. A compare-and-set may not; `strata.machine.machine` reads back instead.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from strata.errors import Unavailable
from strata.store.interface import Blob, BlobInfo

T = TypeVar("T")
ENDS: Final = (KeyboardInterrupt, SystemExit)  # what a signal raises, anywhere
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """The number of attempts, and the pauses between them."""

    attempts: int = 6
    first_ms: int = 20  # upper end of the first pause; doubles with every attempt
    ceiling_ms: int = 2_000

    def pause_s(self, attempt: int) -> float:
        """Return the pause after the failed `attempt` (from 0), in seconds.

        Drawn uniformly from zero to the ceiling of that attempt, so that competitors spread.
        """
        return random.uniform(0, min(self.ceiling_ms, self.first_ms * 2**attempt)) / 1000


DEFAULT: Final = Patience()


def retry(call: Callable[[], T], policy: Patience = DEFAULT, sleep: Sleep = time.sleep) -> T:
    """Return `call()`, tried again while it raises `Unavailable`.

    Raises: Unavailable, the last one, when the attempts are used up.
    """
    for attempt in range(policy.attempts - 1):
        try:
            return call()
        except Unavailable:
            sleep(policy.pause_s(attempt))
    return call()


def relisted(
    blob: Blob, prefix: str, policy: Patience = DEFAULT, sleep: Sleep = time.sleep
) -> Iterator[BlobInfo]:
    """Yield the blobs below a prefix; where a listing breaks off, the next goes on behind its end.

    `Blob.list` asks nothing before its first blob is taken, so `retry` around the call is no help.

    Raises: Unavailable, the last one, after as many listings without a further blob as attempts.
    Memory: one blob, where the whole listing need not be kept.
    """
    last, seen, failed = "", "", 0  # the last key; that of the listings that broke off
    while True:
        try:
            for info in blob.list(prefix):
                if info.key > seen:
                    last, failed = info.key, 0
                    yield info
        except Unavailable:
            seen, failed = last, failed + 1
            if failed >= policy.attempts:
                raise
            sleep(policy.pause_s(failed - 1))
        else:
            return


def although_ended(call: Callable[[], object]) -> None:
    """Give something back; once more if a signal comes meanwhile, which then ends the process."""
    try:
        call()
    except ENDS:
        call()
        raise
