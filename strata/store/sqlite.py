"""SQLite as a consensus store: one file, any number of processes of one machine.

The journal is a write-ahead log. A commit is one statement, which takes SQLite's write lock, adds a
row and releases the lock. The sync that makes it durable comes afterwards, once for all waiting
processes (`strata.store.group_sync`). Where that is not possible (no Linux, a file system without
shared memory), SQLite itself syncs within its lock, with `synchronous = FULL`.

A user without write access to the file or its folder only reads: nothing is created beside the
file, and nothing is synced. While a writer has the database open, its log is read as well.
Otherwise the file is complete, and a connection that is used only once reads it as immutable.
"""

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from strata.errors import InvalidRequest, Unavailable
from strata.store import group_sync
from strata.store.cures import CURES
from strata.store.group_sync import GroupSync
from strata.store.local_file import is_absent, may, obstacle, user_name
from strata.store.turns import Turns

VERSION: Final = 1  # of the tables, in `PRAGMA user_version`
BUSY_S: Final = 10.0  # SQLite itself waits this long for a lock
PAGE_BYTES: Final = 4096
CHECKPOINT_PAGES: Final = 4000  # of the log, 16 MiB, because states are written whole
COMMIT_PAGES: Final = 4  # of the log that a commit writes beside its document
FORMAT_AT: Final = 18  # in the file's header: the version that a writer needs
WAL_FORMAT: Final = b"\x02"  # with a write-ahead log; 1: with a journal for undoing
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_REFUSED: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS strata_consensus (key TEXT NOT NULL, seqno BIGINT NOT NULL,"
    " data BLOB NOT NULL, PRIMARY KEY (key, seqno))"
)


class _Unchanging(sqlite3.Connection):
    """A connection that reads a file as immutable; it serves one query."""

    _used = False

    def used(self) -> bool:
        """Return whether this connection was used before."""
        before, self._used = self._used, True
        return before


class Sqlite:
    """The parts that differ between databases, for SQLite."""

    HEAD: Final = (
        "SELECT seqno, data FROM strata_consensus WHERE key = ? ORDER BY seqno DESC LIMIT 1"
    )
    PAGE: Final = (
        "SELECT seqno, data FROM strata_consensus WHERE key = ? AND seqno >= ?"
        " ORDER BY seqno LIMIT ?"
    )
    NEWEST: Final = "SELECT max(seqno) FROM strata_consensus WHERE key = ?"
    DROP: Final = "DELETE FROM strata_consensus WHERE key = ? AND seqno < ?"
    HOLDS: Final = "instr(one.data, ?) > 0"
    _SET: Final = (
        "INSERT INTO strata_consensus SELECT ?, ?, ?"
        " WHERE (SELECT max(seqno) FROM strata_consensus WHERE key = ?) IS ?"
    )
    ERRORS: Final = (sqlite3.Error,)

    def __init__(self, url: sa.URL) -> None:
        """Keep the address; nothing is opened yet."""
        self.url = url
        self._file = Path(url.database or "").absolute()
        self._sync: GroupSync | None = None
        self._written = self._copied = 0  # bytes: written since the log was copied, its size then
        self._turns: Turns | None = None
        self._seen: tuple[int, int] | None = None  # the file that was opened

    def engine(self) -> sa.Engine:
        """Return a pool of connections, and create the folder. Raises: Unavailable."""
        folder = self._file.parent
        try:
            folder.mkdir(stat.S_IRWXU, parents=True, exist_ok=True)
            with suppress(OSError):  # if it cannot be created, opening it raises
                # A new file is its owner's alone. An existing one keeps its rights; the log takes
                # them over.
                self._file.touch(stat.S_IRUSR | stat.S_IWUSR)
        except OSError as error:
            reason, cure = self._obstacle()
            raise Unavailable(
                "the folder of the consensus database cannot be made",
                certain=True,
                path=str(error.filename or folder),
                reason=reason or error.strerror,
                cure=cure or None,
            ) from error
        self._seen = self._seen or self._found()
        # AUTOCOMMIT: each statement is its own transaction and takes the write lock at its start.
        if self.readable_only():
            return sa.create_engine(self.url, isolation_level="AUTOCOMMIT", creator=self._read_only)
        engine = sa.create_engine(
            self.url, isolation_level="AUTOCOMMIT", connect_args={"timeout": BUSY_S}
        )
        sa.event.listen(engine, "connect", self._prepare)
        return engine

    def readable_only(self) -> bool:
        """Return whether the file exists and this user may not write it, or beside it."""
        writable = all(may(place, os.W_OK) for place in (self._file, self._file.parent))
        return not writable and os.path.exists(self._file)

    def _read_only(self) -> sqlite3.Connection:
        """Return a connection that writes nothing, neither into the file nor beside it."""
        file = self._file.as_uri()
        options: Any = {"timeout": BUSY_S, "isolation_level": None, "check_same_thread": False}
        found: sqlite3.Connection
        if Path(f"{self._file}-wal").exists():
            found = sqlite3.connect(f"{file}?mode=ro", uri=True, **options)
        else:
            options |= {"factory": _Unchanging}
            found = sqlite3.connect(f"{file}?mode=ro&immutable=1", uri=True, **options)
        return found

    def migrate(self, connection: Any) -> None:
        """Create the table if it is missing. Raises: InvalidRequest for a newer version."""
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found == VERSION:
            return
        if found > VERSION:
            raise InvalidRequest(
                "the consensus database was made by a newer version of Strata",
                found=found,
                known=VERSION,
                cure="use that version here too",
            )
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA user_version = {VERSION}")

    def compare_and_set(
        self, cursor: Any, key: str, expected: int | None, seqno: int, data: bytes
    ) -> bool:
        """Add a version if the newest is the expected one."""
        self._written += len(data) + COMMIT_PAGES * PAGE_BYTES
        try:
            return bool(cursor.execute(self._SET, (key, seqno, data, key, expected)).rowcount == 1)
        except sqlite3.IntegrityError:
            return False  # this number is taken: another writer was faster

    def settle(self, key: str, seqno: int) -> None:
        """Wait until this version, which was written or read here, is durable.

        Raises: OSError when that cannot be determined.
        """
        if self._sync is not None and not self._sync.durable(key, seqno):
            self._sync.wait(key, seqno)
            self._copy_log(self._sync)

    def _copy_log(self, sync: GroupSync) -> None:
        """Copy a long log into the database: after what this process wrote, or all together."""
        most = CHECKPOINT_PAGES * PAGE_BYTES
        with suppress(OSError):  # the version is durable; what failed is known to the next sync
            size = os.stat(f"{self._file}-wal").st_size
            if self._written >= most or size - self._copied >= most:
                self._written, self._copied = 0, size
                sync.copy_log()

    @contextmanager
    def turn(self, key: str) -> Iterator[bool]:
        """Wait for a turn at a key; see `strata.store.turns`."""
        if self._turns is None:
            with suppress(OSError):
                self._turns = Turns(Path(f"{self._file}-turn"), self._file)
        with nullcontext(False) if self._turns is None else self._turns.turn(key) as waited:
            yield waited

    def close(self) -> None:
        """Close the other files; the connections are closed already."""
        if self._sync is not None:
            self._sync.close()
        if self._turns is not None:
            self._turns.close()
        self._sync = self._turns = None

    def describe(self, cursor: Any) -> tuple[str, str]:
        """Return which database this is, and why it is not trusted."""
        found = f"SQLite {cursor.execute('SELECT sqlite_version()').fetchone()[0]}"
        if self.readable_only():  # a connection that reads a file as immutable knows no journal
            found += f", read only: user {user_name(os.geteuid())} may not write it"
            mode = "wal" if self._has_wal() else "delete"
        else:
            mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != "wal":
            return found, f"its journal is {mode}, not wal: readers keep writers waiting"
        return found, ""

    def _has_wal(self) -> bool:
        """Return whether the file's header names a write-ahead log. Raises: Unavailable."""
        try:
            with self._file.open("rb") as opened:
                return opened.read(FORMAT_AT + 1)[FORMAT_AT:] == WAL_FORMAT
        except OSError as error:
            raise Unavailable(
                "the consensus database cannot be read",
                certain=True,
                path=str(self._file),
                reason=error.strerror,
            ) from error

    def scrub(self, cursor: Any) -> str:
        """Write the file anew, without what dropped rows have left in it, and empty the log."""
        cursor.execute("VACUUM")
        busy, _, _ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            return "the write-ahead log of SQLite is in use: run again when nobody reads"
        return ""

    def check_there(self, *, certain: bool = True) -> None:
        """Refuse to go on where the file was removed or replaced since it was opened.

        SQLite goes on with a file that has no name any more, and makes a missing one anew.
        Raises: Unavailable; not `certain`: something was written there.
        """
        if self._seen is not None and self._found() != self._seen:
            raise Unavailable(
                "the file of the consensus database was removed or replaced",
                certain=certain,
                path=str(self._file),
                cure="bring it back, or mount its disk, and run again",
            )

    def _found(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def absent(self) -> bool:
        """Return whether the file is missing: then nothing is stored, and reading creates none."""
        return is_absent(self._file)

    def obstacle(self, error: BaseException) -> tuple[str, str]:
        """Return why a file cannot be opened or written, and the cure; empty if none is seen."""
        if _code(error) == sqlite3.SQLITE_FULL:
            return "", CURES[errno.ENOSPC]
        if _code(error) != sqlite3.SQLITE_CANTOPEN:
            return "", ""
        found, log = self._obstacle(), Path(f"{self._file}-wal")
        if not found[0] and self.readable_only() and log.exists():
            owner = user_name(self._file.stat().st_uid)
            return (
                f"the log {log} lies beside it, as a killed writer or a copy leaves it, and only a"
                " user who may write can take it in",
                f"run `strata shards` once as {owner}",
            )
        return found

    def _obstacle(self) -> tuple[str, str]:
        return obstacle(self._file, writes=not self.readable_only())

    def busy(self, error: BaseException) -> bool:
        """Return whether another writer interfered, so that surely nothing happened."""
        return _code(error) in _BUSY

    def broken(self, error: BaseException) -> bool:
        """Return whether the connection must not be used again."""
        return not self.busy(error)

    def stale(self, connection: Any) -> bool:
        """Return whether the connection died while idle, or has read an immutable file before."""
        return isinstance(connection, _Unchanging) and connection.used()

    def damaged(self, error: BaseException) -> bool:
        """Return whether the database is damaged."""
        return _code(error) in _DAMAGED

    def refused(self, error: BaseException) -> bool:
        """Return whether a write with this error surely did not happen."""
        return _code(error) in _REFUSED

    def _prepare(self, connection: Any, _record: object) -> None:
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        grouped = mode == "wal" and self._grouped()
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if grouped else 'FULL'}")
        # Within a commit SQLite would forget that the sync before its copy has failed.
        pages = 0 if grouped else CHECKPOINT_PAGES
        connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")

    def _grouped(self) -> bool:
        """Return whether commits are synced in groups, and open the file for it."""
        if self._sync is None and group_sync.possible() and os.path.exists(self._file):
            with suppress(OSError):
                self._sync = GroupSync(self._file)
        return self._sync is not None


def _code(error: BaseException) -> int | None:
    """Return SQLite's primary result code of an error; None for an error that is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF  # an extended code has the primary one below
