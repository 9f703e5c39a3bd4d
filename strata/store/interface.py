"""The two seams: `Blob` holds immutable bytes by key, `Consensus` a versioned head by key.

Every implementation passes the same suite, `tests/conformance/`. Errors: `Unavailable`, whose
`certain` says whether the call surely did not happen; others only if a method lists them. Keys are
relative, `/`-separated, and made only by `strata.store.keys`.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """The entry of one blob in a listing."""

    key: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Versioned:
    """One value of a consensus key."""

    seqno: int
    data: bytes


@runtime_checkable
class Blob(Protocol):
    """Write-once bytes by key."""

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Return the bytes [start, start+length) of a blob; None if the blob is missing.

        A range past the end is cut; `length` None reads to the end.
        """
        ...

    def set(self, key: str, data: bytes) -> None:
        """Store `data` under a new key, all or nothing, durable on return.

        Storing the same bytes again succeeds without effect.
        Raises: InvalidRequest when the key holds other bytes, which stay; Corrupt where its name
        was made from `data`: what is stored is damaged.
        """
        ...

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """Yield the blobs whose key starts with `prefix`, in key order."""
        ...

    def delete(self, key: str) -> int | None:
        """Remove a blob and return its size; None if there was none, which is no error."""
        ...

    def restore(self, key: str) -> None:
        """Bring back a deleted blob; no effect if it exists.

        Raises: InvalidRequest when nothing is left to restore.
        """
        ...


class Draft(Protocol):
    """A blob being written, whose key depends on its bytes."""

    @property
    def file(self) -> Any:
        """The file for the bytes: a Python file object, or one of Arrow's."""
        ...

    def guarded(self) -> AbstractContextManager[None]:
        """Wrap writes to `file`: errors of the system are raised as `Unavailable`."""
        ...

    def finish(self) -> tuple[str, int]:
        """Return the content hash and the number of all bytes; no more may follow."""
        ...

    def keep(self, key: str) -> None:
        """Store the finished bytes as `Blob.set` does; it may be retried like that."""
        ...

    def drop(self) -> None:
        """Discard the bytes unless they are stored; no effect the second time."""
        ...


@runtime_checkable
class Drafting(Protocol):
    """A `Blob` that accepts bytes before all of them exist: `strata.store.draft`."""

    def draft(self) -> Draft:
        """Begin a blob."""
        ...


@runtime_checkable
class Expunging(Protocol):
    """A `Blob` that can remove deleted bytes for good, and can say what it has set aside."""

    def expunge(self, key: str) -> int:
        """Remove what a deletion of this key has set aside; return the bytes freed.

        A blob that exists stays. Repeating it has no effect.
        """
        ...

    def set_aside(self, prefix: str) -> Iterator[BlobInfo]:
        """Yield the deleted blobs that can still be restored, by their key, in key order."""
        ...


@runtime_checkable
class Overwriting(Protocol):
    """A `Blob` that can hold documents that change, beside the blobs of shards, which never do."""

    def overwrite(self, key: str, data: bytes) -> None:
        """Store `data` under a key, all or nothing, in the place of other bytes, if any."""
        ...


@runtime_checkable
class Referring(Protocol):
    """A `Blob` that may refer to files outside: `strata.store.reference`."""

    def referred(self, key: str) -> Any:
        """Return the `Reference` that a blob is; None if all its bytes are in the store."""
        ...


@runtime_checkable
class Purges(Protocol):
    """A blob store that sets deleted blobs aside until they are purged."""

    def purge(self, before_ms: int) -> int:
        """Remove for good the blobs deleted before `before_ms`; return the bytes freed."""
        ...


@runtime_checkable
class Rooted(Protocol):
    """A blob store below a folder, which somebody may move away, or whose disk may be missing."""

    @property
    def place(self) -> str:
        """Return the path of the folder."""
        ...

    def is_there(self) -> bool:
        """Return whether the folder is there; before the first write it is not."""
        ...


@runtime_checkable
class Scrubbing(Protocol):
    """A `Consensus` that can overwrite what dropped values have left in its files."""

    def scrub(self) -> str:
        """Rewrite the files without dropped values; return what is out of reach, or ""."""
        ...


@runtime_checkable
class Consensus(Protocol):
    """A linearizable versioned head by key."""

    def head(self, key: str) -> Versioned | None:
        """Return the newest value, or None if the key was never set."""
        ...

    def compare_and_set(self, key: str, expected: int | None, new: Versioned) -> bool:
        """Make `new` the head if the head's seqno is `expected` (None: no value yet).

        Returns False if the head has another seqno. `new.seqno` must be greater than `expected`.
        Raises: InvalidRequest if it is not; Unavailable(certain=False) when the reply is lost.
        """
        ...

    def scan(self, key: str, from_seqno: int, limit: int) -> list[Versioned]:
        """Return up to `limit` values with seqno >= `from_seqno`, in order."""
        ...

    def truncate(self, key: str, seqno: int) -> int:
        """Drop the values below `seqno` and return how many.

        Raises: InvalidRequest when that would drop the head or the key is unknown.
        """
        ...

    def turn(self, key: str) -> AbstractContextManager[bool]:
        """Wait for a turn to change a contended key; the next turn begins when the block ends.

        Yields whether others were queued before. Turns exist only for fairness: two writers may
        have one at once, and nobody has to take one.
        """
        ...

    def list(self, holding: tuple[bytes, ...] = ()) -> list[str]:
        """Return the sorted keys: all, or those whose newest value contains one of some bytes.

        Cost: at most one look at the index and one newest value a key, however many are stored.
        """
        ...
