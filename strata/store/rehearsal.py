"""A consensus for dry runs: what is written stays in memory, and only this object sees it."""

from contextlib import AbstractContextManager, nullcontext

from strata.store.interface import Consensus, Versioned
from strata.store.memory import MemoryConsensus


class Rehearsal:
    """A consensus whose values are another one's until they are changed here."""

    def __init__(self, real: Consensus) -> None:
        """Read from `real`, which never changes."""
        self.real, self.own = real, MemoryConsensus()

    def head(self, key: str) -> Versioned | None:
        """See `Consensus.head`."""
        return self.own.head(key) or self.real.head(key)

    def compare_and_set(self, key: str, expected: int | None, new: Versioned) -> bool:
        """See `Consensus.compare_and_set`."""
        if self.own.head(key) is None and (there := self.real.head(key)) is not None:
            self.own.compare_and_set(key, None, there)
        return self.own.compare_and_set(key, expected, new)

    def scan(self, key: str, from_seqno: int, limit: int) -> list[Versioned]:
        """See `Consensus.scan`."""
        changed = self.own.scan(key, 0, 1)
        if not changed:
            return self.real.scan(key, from_seqno, limit)
        older = self.real.scan(key, from_seqno, limit)
        before = [value for value in older if value.seqno < changed[0].seqno]
        return (before + self.own.scan(key, from_seqno, limit))[: max(limit, 0)]

    def truncate(self, key: str, seqno: int) -> int:
        """Drop nothing; see `Consensus.truncate`."""
        return 0

    def turn(self, key: str) -> AbstractContextManager[bool]:
        """See `Consensus.turn`. Nobody waits for a rehearsal."""
        return nullcontext(False)

    # Last in the class: inside it, `list` would name this method instead of the type.
    def list(self, holding: tuple[bytes, ...] = ()) -> "list[str]":
        """See `Consensus.list`."""
        changed = set(self.own.list())
        untouched = set(self.real.list(holding)) - changed
        return sorted(untouched | set(self.own.list(holding)))
