"""Read the documents of shards from the consensus: the newest, by number, in pages.

A document may build upon earlier ones (`strata.state.versions`). A process that commits or reads
again still has the one before in memory, so only new documents are read.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from strata.errors import Corrupt
from strata.state import versions
from strata.state.state import State
from strata.state.versions import Version
from strata.store.interface import Consensus, Versioned
from strata.store.keys import state_key
from strata.store.retry import Sleep, retry

R = TypeVar("R")

TRIES: Final = 8  # attempts, if documents that the newest builds upon are dropped while it is read
DAMAGED: Final = (
    "restore this version from a backup of the database of states; "
    "see Damage in docs/reference/state.md"
)


class _DroppedError(Exception):
    """A document that another builds upon is no longer stored, or never was."""

    def __init__(self, stored: Versioned, reason: str) -> None:
        """Name the document that builds upon it."""
        super().__init__(reason)
        self.stored = stored


class Documents:
    """The documents of all shards of one consensus."""

    def __init__(self, consensus: Consensus, sleep: Sleep = time.sleep) -> None:
        """Read from `consensus`; `sleep` is replaced in tests."""
        self._consensus, self._sleep = consensus, sleep

    def head(self, name: str) -> Version | None:
        """Return the newest version of a shard, or None if there is no such shard.

        Raises: Corrupt, naming the number of the damaged or missing document.
        """
        last: Versioned | None = None
        for _ in range(TRIES):
            head = self._retry(partial(self._consensus.head, state_key(name)))
            if head is None:
                return None
            try:
                return self._version(name, head)
            except _DroppedError as error:
                if head == last:  # nobody committed meanwhile, so it is really missing
                    raise _missing(name, error) from error
                last = head
        raise Corrupt("what the newest state builds upon is dropped again and again", shard=name)

    def page(self, name: str, low: int, limit: int) -> list[State]:
        """Return up to `limit` stored states, oldest first, from number `low` on.

        Raises: as `head`.
        """
        last: Sequence[Versioned] = ()
        for _ in range(TRIES):
            stored = self._scan(name, low, limit)
            try:
                return self._states(name, stored)
            except _DroppedError as error:
                if stored == last:  # nobody drops documents now, so it is really missing
                    raise _missing(name, error) from error
                last = stored
        raise Corrupt("what states build upon is dropped again and again", shard=name)

    def _states(self, name: str, page: Sequence[Versioned]) -> list[State]:
        """Return the states of some documents. Raises: as `_version`."""
        found: list[State] = []
        before: Version | None = None
        for stored in page:
            link = _link(name, stored)
            if before is not None and link is not None and link.before == before.digest:
                before = _read(name, stored, before)
            else:
                before = self._version(name, stored)
            found.append(before.state)
        return found

    def base(self, name: str, seqno: int) -> int:
        """Return the number of the whole document that document `seqno` builds upon."""
        [stored] = self._scan(name, seqno, 1)
        link = _link(name, stored)
        return stored.seqno if link is None else link.base

    def walltime_ms(self, name: str, seqno: int) -> int:
        """Return the walltime of the state of this number. Cost: one document."""
        [stored] = self._scan(name, seqno, 1)
        found = versions.walltime_ms(stored.data)
        return _read(name, stored, None).state.walltime_ms if found is None else found

    def _version(self, name: str, stored: Versioned) -> Version:
        """Return a version; reads the documents that it builds upon unless they are cached.

        Raises: _DroppedError when one of them is missing.
        """
        link = None if versions.known(stored.data) else _link(name, stored)
        if link is None:
            return _read(name, stored, None)
        before = versions.known_by(link.before)
        if before is not None:
            return _read(name, stored, before)
        page = self._scan(name, link.base, stored.seqno - link.base)
        if [one.seqno for one in page] != list(range(link.base, stored.seqno)):
            reason = f"of {link.base} to {stored.seqno - 1} {len(page)} are stored"
            raise _DroppedError(stored, reason)
        known = (n for n in range(len(page) - 1, 0, -1) if versions.known(page[n].data))
        for one in page[next(known, 0) :]:
            before = _read(name, one, before)
        return _read(name, stored, before)

    def _scan(self, name: str, low: int, limit: int) -> Sequence[Versioned]:
        return self._retry(partial(self._consensus.scan, state_key(name), low, limit))

    def _retry(self, call: Callable[[], R]) -> R:
        return retry(call, sleep=self._sleep)


def _link(name: str, stored: Versioned) -> versions.Link | None:
    try:
        return versions.link_of(stored.data)
    except Corrupt as error:
        raise _named(name, stored, error) from error


def _read(name: str, stored: Versioned, before: Version | None) -> Version:
    try:
        version = versions.read_version(stored.data, before)
    except Corrupt as error:
        raise _named(name, stored, error) from error
    state = version.state
    if (state.seqno, state.name) != (stored.seqno, name):
        raise Corrupt(
            "a stored state belongs elsewhere",
            shard=name,
            seqno=stored.seqno,
            found=state.name,
            found_seqno=state.seqno,
            cure=DAMAGED,
        )
    return version


def _named(name: str, stored: Versioned, error: Corrupt) -> Corrupt:
    where = {"shard": name, "seqno": stored.seqno}
    return Corrupt(error.message, **where, **error.details, cure=DAMAGED)


def _missing(name: str, error: _DroppedError) -> Corrupt:
    return Corrupt(
        "states that a state builds upon are missing",
        shard=name,
        seqno=error.stored.seqno,
        reason=str(error),
        cure=DAMAGED,
    )
