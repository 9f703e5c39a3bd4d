"""Blob and Consensus in memory, for tests and for experiments in one process.

`memory://name` means the same store everywhere in the process. Safe for threads.
"""

import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Final

from strata.errors import InvalidRequest
from strata.store.interface import BlobInfo, Versioned
from strata.store.keys import check_key, check_prefix, check_range, content_hash
from strata.store.named import other_bytes
from strata.store.reference import ReferringBlob


class MemoryBlob(ReferringBlob):
    """Write-once bytes in a dictionary."""

    def __init__(self) -> None:
        """Start empty."""
        self.live: dict[str, tuple[bytes, int]] = {}  # key -> (bytes, modified ms)
        self.deleted: dict[str, tuple[bytes, int]] = {}
        self._references = OrderedDict()
        self._lock = Lock()

    def _stored(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        check_range(start, length)
        found = self.live.get(check_key(key))
        if found is None:
            return None
        return found[0][start : None if length is None else start + length]

    def set(self, key: str, data: bytes) -> None:
        """See `Blob.set`."""
        check_key(key)
        with self._lock:
            found = self.live.setdefault(key, (bytes(data), time.time_ns() // 1_000_000))
        if found[0] != data:
            raise other_bytes(key, content_hash(data), key=key)

    def overwrite(self, key: str, data: bytes) -> None:
        """See `Overwriting.overwrite`."""
        with self._lock:
            self.live[check_key(key)] = (bytes(data), time.time_ns() // 1_000_000)

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """See `Blob.list`."""
        check_prefix(prefix)
        with self._lock:
            found = sorted((k, v) for k, v in self.live.items() if k.startswith(prefix))
        for key, (data, modified_ms) in found:
            yield BlobInfo(key, len(data), modified_ms)

    def delete(self, key: str) -> int | None:
        """See `Blob.delete`."""
        check_key(key)
        with self._lock:
            found = self.live.pop(key, None)
            if found is None:
                return None
            self.deleted[key] = found
        return len(found[0])

    def restore(self, key: str) -> None:
        """See `Blob.restore`."""
        check_key(key)
        with self._lock:
            if key in self.live:
                return
            if key not in self.deleted:
                raise InvalidRequest("nothing is left to restore", key=key)
            self.live[key] = self.deleted.pop(key)

    def expunge(self, key: str) -> int:
        """See `Expunging.expunge`."""
        with self._lock:
            gone = self.deleted.pop(check_key(key), None)
        return 0 if gone is None else len(gone[0])

    def set_aside(self, prefix: str) -> Iterator[BlobInfo]:
        """See `Expunging.set_aside`."""
        with self._lock:
            found = sorted((k, v) for k, v in self.deleted.items() if k.startswith(prefix))
        for key, (data, modified_ms) in found:
            yield BlobInfo(key, len(data), modified_ms)


class MemoryConsensus:
    """Versioned heads in a dictionary of lists."""

    def __init__(self) -> None:
        """Start empty."""
        self.log: dict[str, list[Versioned]] = {}
        self._lock = Lock()

    def head(self, key: str) -> Versioned | None:
        """See `Consensus.head`."""
        log = self.log.get(key)
        return log[-1] if log else None

    def compare_and_set(self, key: str, expected: int | None, new: Versioned) -> bool:
        """See `Consensus.compare_and_set`."""
        check_step(key, expected, new)
        with self._lock:
            log = self.log.setdefault(key, [])
            if (log[-1].seqno if log else None) != expected:
                return False
            log.append(new)
            return True

    def scan(self, key: str, from_seqno: int, limit: int) -> list[Versioned]:
        """See `Consensus.scan`."""
        log = self.log.get(key, [])
        start = bisect_left(log, from_seqno, key=lambda value: value.seqno)
        return log[start : start + max(limit, 0)]

    def truncate(self, key: str, seqno: int) -> int:
        """See `Consensus.truncate`."""
        with self._lock:
            log = self.log.get(key)
            check_truncation(key, log[-1].seqno if log else None, seqno)
            kept = [value for value in log or () if value.seqno >= seqno]
            dropped = len(log or ()) - len(kept)
            self.log[key] = kept
            return dropped

    def turn(self, key: str) -> AbstractContextManager[bool]:
        """See `Consensus.turn`. Threads of one process do not wait."""
        return nullcontext(False)

    # Last in the class: inside it, `list` would name this method instead of the type.
    def list(self, holding: tuple[bytes, ...] = ()) -> "list[str]":
        """See `Consensus.list`."""
        heads = ((key, log[-1].data) for key, log in self.log.items() if log)
        return sorted(k for k, data in heads if not holding or any(one in data for one in holding))


def check_step(key: str, expected: int | None, new: Versioned) -> None:
    """Refuse a value whose number does not grow; shared by all consensus stores.

    Raises: InvalidRequest.
    """
    if new.seqno < 0 or (expected is not None and new.seqno <= expected):
        raise InvalidRequest("a new seqno must grow", key=key, expected=expected, new=new.seqno)


def check_truncation(key: str, head: int | None, seqno: int) -> None:
    """Refuse to drop the head; shared by all consensus stores.

    Raises: InvalidRequest.
    """
    if head is None:
        raise InvalidRequest("no such key to truncate", key=key)
    if seqno > head:
        raise InvalidRequest("truncation would drop the head", key=key, head=head, seqno=seqno)


_BLOBS: Final[dict[str, MemoryBlob]] = {}
_CONSENSUS: Final[dict[str, MemoryConsensus]] = {}


def memory_blob(name: str) -> MemoryBlob:
    """Return this process's blob store of this name, created at the first call."""
    return _BLOBS.setdefault(name, MemoryBlob())


def memory_consensus(name: str) -> MemoryConsensus:
    """Return this process's consensus store of this name, created at the first call."""
    return _CONSENSUS.setdefault(name, MemoryConsensus())


def drop_memory(name: str) -> None:
    """Drop this process's stores of this name."""
    _BLOBS.pop(name, None)
    _CONSENSUS.pop(name, None)
