"""One sync of SQLite's log for the commits of many processes, before any of them is acknowledged.

SQLite syncs within its write lock: one sync a commit, one after another, some hundreds a second.
Here it does not sync at all (`synchronous = NORMAL`); who has committed gets the log synced
*afterwards*, outside of the lock, by one process for all that wait (group commit). The log is
written in the order of the commits and valid up to its first torn frame, so that one sync makes
durable whatever was committed before it began.

Nothing is told to anybody before it is durable: a writer waits for a sync that began after its
commit, a reader for one that began after its read, unless what it read is known to be durable.

Beside the database lies a small file `-sync`, mapped by all: how many syncs have begun and ended,
written only by who holds the file's lock; and for each key the greatest number that is durable.
The file may be deleted while nobody runs. It is begun anew when the machine was started anew,
since what it says holds only as long as the page cache.
"""

import fcntl
import mmap
import os
import threading
import time
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final
from weakref import WeakSet

WORDS: Final = 2 + 2 * 4096  # of 8 bytes: two counters, then tags of keys, then their numbers
_SLOTS: Final = 4096
_BEGUN, _ENDED, _TAGS, _NUMBERS = 0, 1, 2, 2 + _SLOTS
_HEADER: Final = 16  # bytes: of which start of the machine, and of which database, this tells
_POLL_S: Final = 0.0003
PATIENCE_S: Final = 2.0
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_ALL: "Final[WeakSet[GroupSync]]" = WeakSet()


def possible() -> bool:
    """Tell whether this machine can say when it was started; else SQLite itself must sync."""
    return _BOOT.exists()


class GroupSync:
    """The syncs of one database file in this process. Safe for threads, not over a fork."""

    def __init__(self, database: Path) -> None:
        """Map the file beside `database`, which must exist. Raises: OSError."""
        self._log = Path(f"{database}-wal")
        self._file = open_beside(Path(f"{database}-sync"), database)
        self._log_file = -1
        self._thread = threading.Lock()
        size = _HEADER + 8 * WORDS
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            header = _header(database)
            if os.pread(self._file, _HEADER, 0) != header or os.fstat(self._file).st_size != size:
                os.posix_fallocate(self._file, 0, size)  # a hole on a full disk would kill us
                os.pwrite(self._file, bytes(size), 0)
                os.pwrite(self._file, header, 0)
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._map = mmap.mmap(self._file, size)
        except OSError:
            os.close(self._file)
            raise
        self._words = memoryview(self._map)[_HEADER:].cast("Q")
        _ALL.add(self)

    def durable(self, key: str, seqno: int) -> bool:
        """Tell whether this number of this key is known to be durable; False: nobody knows."""
        tag, slot = _tag(key)
        return self._words[_TAGS + slot] == tag and self._words[_NUMBERS + slot] > seqno

    def wait(self, key: str, seqno: int) -> None:
        """Return when what was in the log at the call is durable; so is this number of this key.

        Raises: OSError when the log cannot be synced: then it is not known.
        """
        begun, patience = self._words[_BEGUN], time.monotonic() + PATIENCE_S
        while self._words[_ENDED] <= begun and not self._lead(key):
            if time.monotonic() > patience:  # who holds the lock was stopped: need it not
                _sync_alone(self._log)
                return
            time.sleep(_POLL_S)
        tag, slot = _tag(key)
        if self._words[_TAGS + slot] == tag:
            self._words[_NUMBERS + slot] = max(self._words[_NUMBERS + slot], seqno + 1)

    def close(self) -> None:
        """Give the files back."""
        with self._thread:
            self._words.release()
            self._map.close()
            self.abandon()

    def abandon(self) -> None:
        """Close the files in a child of the process that opened them: a lock goes with the last."""
        for file in (self._file, self._log_file):
            if file >= 0:
                os.close(file)
        self._file = self._log_file = -1

    def _lead(self, key: str) -> bool:
        """Sync for all who wait; False when another is at it."""
        if not self._thread.acquire(blocking=False):
            return False
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            try:
                self._sync()
                tag, slot = _tag(key)
                if not self._words[_TAGS + slot]:  # once given, a slot is that key's for ever
                    self._words[_TAGS + slot] = tag
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._thread.release()
        return True

    def _sync(self) -> None:
        number = max(self._words[_BEGUN], self._words[_ENDED]) + 1
        self._words[_BEGUN] = number
        os.fdatasync(self._opened())
        self._words[_ENDED] = number

    def _opened(self) -> int:
        """Return the log as it is now: when nobody has the database open, SQLite removes it."""
        there = os.stat(self._log)
        if self._log_file >= 0 and os.fstat(self._log_file).st_ino != there.st_ino:
            os.close(self._log_file)
            self._log_file = -1
        if self._log_file < 0:
            self._log_file = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
        return self._log_file


def _header(database: Path) -> bytes:
    told = f"{_BOOT.read_text().strip()} {os.stat(database).st_ino} {WORDS}"
    return blake2b(told.encode(), digest_size=_HEADER).digest()


def open_beside(file: Path, database: Path) -> int:
    """Open a file that is made if it is not there, for those who may use the database."""
    mode = database.stat().st_mode & 0o666
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    with suppress(PermissionError):  # somebody else made it, with these rights
        os.fchmod(opened, mode)
    return opened


def _sync_alone(log: Path) -> None:
    file = os.open(log, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fdatasync(file)
    finally:
        os.close(file)


@lru_cache(4096)
def _tag(key: str) -> tuple[int, int]:
    """Return 64 bits that stand for a key, never 0, and its slot."""
    tag = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little") | 1
    return tag, (tag >> 1) % _SLOTS


def _abandon_all() -> None:
    for one in tuple(_ALL):
        one.abandon()


os.register_at_fork(after_in_child=_abandon_all)
