"""Stores that fail on purpose: a wrapper over Blob and Consensus for tests.

Outcomes are drawn one a call, from a list (a test that steers) or from a seed (a test that
soaks), and when they run out everything works. What a caller cannot tell apart is all here: a
request that was lost and a reply that was lost look the same.

`interlude` is what happens at a call that is `INTERRUPTED`: another's whole operation between
two steps of this one. So one thread and one seed give what several processes would, again and
again the same.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

from strata.errors import Unavailable
from strata.store.interface import (
    Blob,
    BlobInfo,
    Consensus,
    Expunging,
    Overwriting,
    Referring,
    Versioned,
)
from strata.store.retry import Sleep

T = TypeVar("T")

DELAY_S: Final = 0.005
WRITES: Final = ("set", "compare_and_set")


class Outcome(StrEnum):
    """What becomes of one call."""

    WORKS = "works"
    REFUSED = "refused"  # fails, and the caller knows that nothing happened
    REQUEST_LOST = "request lost"  # fails: nothing happened, the caller cannot know
    REPLY_LOST = "reply lost"  # fails: it happened, the caller cannot know
    DELAYED = "delayed"
    DUPLICATED = "duplicated"  # the network repeats the request; the caller hears of the second
    TORN = "torn"  # a read that ends early and does not say so; a write is refused half-way
    FULL = "full"  # no room: writes are refused, all else works
    INTERRUPTED = "interrupted"  # somebody else does a whole operation just before
    CRASH_BEFORE = "crash before"  # the process dies, nothing happened
    CRASH_AFTER = "crash after"  # the process dies, it happened


class CrashError(BaseException):
    """The process dies here; no `except Exception` may save it."""


class Faults:
    """The outcomes to come, shared by the wrappers of one test."""

    def __init__(self, outcomes: Iterable[Outcome] = (), sleep: Sleep = time.sleep) -> None:
        """Draw from `outcomes`; when they are used up, everything works."""
        self._outcomes = iter(outcomes)
        self._sleep = sleep
        self._lock = threading.Lock()
        self.interlude: Callable[[], None] = _nothing
        self.drawn: Counter[Outcome] = Counter()

    def plan(self, outcomes: Iterable[Outcome]) -> None:
        """Forget what was to come and draw from `outcomes`."""
        self._outcomes = iter(outcomes)

    def call(self, work: Callable[[], T], what: str) -> T:
        """Return `work()`, or fail before or after it as the next outcome says."""
        with self._lock:  # a reader fetches several parts at once
            outcome = next(self._outcomes, Outcome.WORKS)
            self.drawn[outcome] += 1
        self._before(outcome, what)
        result = work()
        if outcome is Outcome.DUPLICATED:
            result = work()
        if outcome is Outcome.TORN and isinstance(result, bytes):
            return cast(T, result[: len(result) // 2])
        if outcome is Outcome.CRASH_AFTER:
            raise CrashError(what)
        if outcome is Outcome.REPLY_LOST:
            raise Unavailable("injected loss of the reply", certain=False, call=what)
        return result

    def _before(self, outcome: Outcome, what: str) -> None:
        """Fail, wait, or let another be faster."""
        refused = outcome is Outcome.REFUSED or (
            what in WRITES and outcome in (Outcome.FULL, Outcome.TORN)
        )
        if outcome is Outcome.CRASH_BEFORE:
            raise CrashError(what)
        if refused or outcome is Outcome.REQUEST_LOST:
            raise Unavailable("injected failure", certain=refused, call=what)
        if outcome is Outcome.DELAYED:
            self._sleep(DELAY_S)
        if outcome is Outcome.INTERRUPTED:
            self.interlude()


def _nothing() -> None:
    """Do nothing: an interlude that nobody has planned."""


def seeded(seed: int, shares: Mapping[Outcome, float]) -> Iterator[Outcome]:
    """Yield outcomes for ever, each as often as its share says; the rest works."""
    source = random.Random(seed)
    outcomes = [*shares, Outcome.WORKS]
    weights = [*shares.values(), 1 - sum(shares.values())]
    while True:
        yield source.choices(outcomes, weights)[0]


class FaultyBlob:
    """A blob store that fails as planned."""

    def __init__(self, inner: Blob, faults: Faults) -> None:
        """Wrap `inner`."""
        self.inner = inner
        self.faults = faults

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """See `Blob.get`."""
        return self.faults.call(lambda: self.inner.get(key, start, length), "get")

    def set(self, key: str, data: bytes) -> None:
        """See `Blob.set`."""
        self.faults.call(lambda: self.inner.set(key, data), "set")

    def overwrite(self, key: str, data: bytes) -> None:
        """See `Overwriting.overwrite`."""
        self.faults.call(lambda: cast(Overwriting, self.inner).overwrite(key, data), "overwrite")

    def referred(self, key: str) -> Any:
        """See `Referring.referred`."""
        return self.faults.call(lambda: cast(Referring, self.inner).referred(key), "get")

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """See `Blob.list`. As with all stores, nothing is asked before the first blob is taken."""
        yield from self._listed(lambda: self.inner.list(prefix), "list")

    def delete(self, key: str) -> int | None:
        """See `Blob.delete`."""
        return self.faults.call(lambda: self.inner.delete(key), "delete")

    def restore(self, key: str) -> None:
        """See `Blob.restore`."""
        self.faults.call(lambda: self.inner.restore(key), "restore")

    def expunge(self, key: str) -> int:
        """See `Expunging.expunge`."""
        return self.faults.call(lambda: cast(Expunging, self.inner).expunge(key), "expunge")

    def set_aside(self, prefix: str) -> Iterator[BlobInfo]:
        """See `Expunging.set_aside`. It fails as `list` does."""
        inner = cast(Expunging, self.inner)
        yield from self._listed(lambda: inner.set_aside(prefix), "set_aside")

    def _listed(self, work: Callable[[], Iterator[BlobInfo]], what: str) -> Iterator[BlobInfo]:
        found = self.faults.call(lambda: tuple(work()), what)
        yield from found


class FaultyConsensus:
    """A consensus store that fails as planned."""

    def __init__(self, inner: Consensus, faults: Faults) -> None:
        """Wrap `inner`."""
        self.inner = inner
        self.faults = faults

    def head(self, key: str) -> Versioned | None:
        """See `Consensus.head`."""
        return self.faults.call(lambda: self.inner.head(key), "head")

    def compare_and_set(self, key: str, expected: int | None, new: Versioned) -> bool:
        """See `Consensus.compare_and_set`."""
        return self.faults.call(
            lambda: self.inner.compare_and_set(key, expected, new), "compare_and_set"
        )

    def scan(self, key: str, from_seqno: int, limit: int) -> list[Versioned]:
        """See `Consensus.scan`."""
        return self.faults.call(lambda: self.inner.scan(key, from_seqno, limit), "scan")

    def truncate(self, key: str, seqno: int) -> int:
        """See `Consensus.truncate`."""
        return self.faults.call(lambda: self.inner.truncate(key, seqno), "truncate")

    def turn(self, key: str) -> AbstractContextManager[bool]:
        """See `Consensus.turn`. Never fails: nobody needs it."""
        return self.inner.turn(key)

    # Last in the class: below it, `list` in an annotation would name this method.
    def list(self, holding: tuple[bytes, ...] = ()) -> "list[str]":
        """See `Consensus.list`."""
        return self.faults.call(lambda: self.inner.list(holding), "list")


class Beaten(FaultyConsensus):
    """A consensus in which somebody else is faster so many times."""

    def __init__(self, real: Consensus, times: int) -> None:
        """Lose the first `times` races, and no other one."""
        super().__init__(real, Faults())
        self._times = times

    def compare_and_set(self, key: str, expected: int | None, new: Versioned) -> bool:
        """See `Consensus`."""
        self._times -= 1
        return self._times < 0 and super().compare_and_set(key, expected, new)
