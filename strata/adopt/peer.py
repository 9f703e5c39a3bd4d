"""A table of another format, as the adoption sees it: versions, and the rows between them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from strata.adopt.inner import Path
from strata.errors import InvalidRequest, StrataError, Unavailable

REPLACE: Final = "--replace: retract what the shard holds, and take the whole table in"
GONE: Final = f"is the address right? were files removed? {REPLACE}"
CHANGE_TYPE: Final = "_change_type"  # the column of a change feed that says what a row is
Batches = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class PeerVersion:
    """One version of a table that can be read."""

    name: str  # as records have it: letters, digits, _ and -
    shown: str  # as people know it
    at_ms: int  # when it was committed; 0: unknown
    columns: pa.Schema
    # Of columns and what is inside them, where the format has them
    ids: Mapping[Path, int] = field(default_factory=dict)
    # Columns, and what is inside them, that older rows do not read as null
    defaults: frozenset[Path] = frozenset()
    handle: Any = field(default=None, compare=False)  # of the format's library


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a version, all of whose rows count."""

    address: str  # as `outside_address` returns it
    batches: Batches


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows that are added or retracted; they are read when `batches` is called."""

    version: PeerVersion  # whose columns they have
    old: bool  # whether they were read by the schema of the version that the shard holds
    sign: int | None  # of all rows; None: each row says it in CHANGE_TYPE
    batches: Batches
    # The files that it consists of; None: they cannot be taken one by one. One without an
    # address has rows that do not count, or is of another format.
    files: Callable[[], Sequence[DataFile]] | None = None


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """What turns the rows of one version into those of another."""

    how: str  # feed | files
    flows: tuple[Flow, ...]
    added: int = 0  # data files
    removed: int = 0
    rows: int | None = None  # by how many rows the versions differ; None: not known


class Peer(Protocol):
    """A table of another format."""

    @property
    def format(self) -> str:
        """Return the name of the format."""
        ...

    @property
    def address(self) -> str:
        """Return where the table is, without secrets."""
        ...

    @property
    def identity(self) -> str:
        """Return what the table has for ever, and no other table has."""
        ...

    def version(self, wanted: int | None) -> PeerVersion:
        """Return a version by its number, or the newest.

        Raises: InvalidRequest if there is none, or it cannot be read any more.
        """
        ...

    def recall(self, name: str) -> PeerVersion:
        """Return the version that a record names. Raises: InvalidRequest with its cure."""
        ...

    def overtaken(self, held: str, wanted: PeerVersion) -> bool:
        """Return whether the version that the shard holds came after the wanted one.

        Raises: InvalidRequest if the table does not have the held one any more, where that is seen.
        """
        ...

    def whole(self, version: PeerVersion) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a version."""
        ...

    def files(self, version: PeerVersion) -> Sequence[DataFile]:
        """Return the data files of a version; none if they cannot be read one by one."""
        ...

    def changes(
        self, old: PeerVersion, new: PeerVersion, *, feed: bool = True
    ) -> VersionDifference:
        """Return what changed; nothing is read yet. Without `feed` no change feed is used.

        Raises: InvalidRequest with its cure if that cannot be found out.
        """
        ...


class FeedError(Exception):
    """A change feed cannot be read, or contradicts the table's log: its files say the same."""


@contextmanager
def reading_peer(
    library: str, address: str, known: tuple[type[Exception], ...] = (), cure: str = GONE
) -> Iterator[None]:
    """Turn errors of a library into ours: those in `known` no retry mends.

    A file that is not there any more was removed by its owner, and is such an error as well.
    """
    try:
        yield
    except (FeedError, StrataError):
        raise
    except Exception as error:  # each library has errors of its own
        if isinstance(error, (FileNotFoundError, *known)):
            raise InvalidRequest(
                f"{library} cannot read this table",
                table=address,
                reason=first_words(error),
                cure=cure,
            ) from error
        raise Unavailable(
            f"{library} failed to read this table",
            certain=True,
            table=address,
            reason=first_words(error),
            cure="run again; nothing was committed",
        ) from error


def without_secrets(address: str) -> str:
    """Return an address as people may see it: without user, password and signature.

    >>> without_secrets("s3://key:secret@lake/orders?sig=abc")
    's3://lake/orders'
    """
    return re.sub(r"//[^/@]*@", "//", address.partition("?")[0])


def first_words(error: Exception) -> str:
    """Return what an error says, on one line, without colours and secrets.

    >>> first_words(OSError("no key 'a' in bucket 'k:pw@lake' of s3://k:pw@lake/t?sig=abc"))
    "no key 'a' in bucket 'lake' of s3://lake/t?…"
    """
    words = " ".join(re.sub(r"\x1b\[[\d;]*m", "", str(error)).split())
    # Libraries also name what stands behind the scheme alone.
    words = re.sub(r"//[^/@\s]*@|(?<=['\"])[^\s/@'\"]*:[^\s/@'\"]*@", _scheme, words)
    return re.sub(r"\?\S*", "?…", words)[:300]


def _scheme(user: re.Match[str]) -> str:
    return "//" if user[0].startswith("//") else ""
