"""Sync SQLite's log once for the commits of many processes, before any of them is acknowledged.

SQLite syncs within its write lock: one sync a commit, one after another, some hundreds a second.
Here it does not sync at all (`synchronous = NORMAL`). Instead, one process syncs the log after the
commits, outside the lock, for all processes that wait (group commit). The log is in the order of
the commits and valid up to its first torn frame, so one sync makes durable every commit before it.

Nobody learns of a commit before it is durable. A writer waits for a sync that began after its
commit; a reader waits for one that began after its read, unless the read version is known to be
durable.

After a sync that failed, Linux calls the next one a success, and the bytes may be lost none the
less: it takes them for written. So the log is written again, with the bytes that it has, and then
synced; meanwhile nobody may add to it. Only who had the log open learns of the failure from Linux,
and may be killed then. So each failure is counted as a sync that has begun and never ended, and so
is a sync whose process was killed: while the counters differ, the next sync writes the log again.

SQLite itself would sync the log as well, before it copies it into the database, and forget a
failure. So it copies nothing within a commit: `copy_log` does, as a sync of its own, which counts
as never ended where it fails.

All processes map a small file `-sync` beside the database. It counts the syncs begun and ended,
written only by the holder of the file's lock, and has the greatest durable number of each key. The
file may be deleted while no process runs. It starts anew after each boot of the machine, since its
content is valid only as long as the page cache.
"""

import errno
import fcntl
import mmap
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final
from weakref import WeakSet

from strata.store.local_file import give_to, open_itself

WORDS: Final = 2 + 2 * 4096  # of 8 bytes: two counters, then tags of keys, then their numbers
_SLOTS: Final = 4096
_BEGUN, _ENDED, _TAGS, _NUMBERS = 0, 1, 2, 2 + _SLOTS
_HEADER: Final = 16  # bytes that identify the boot of the machine, and the database
_POLL_S: Final = 0.0003
PATIENCE_S: Final = 2.0
TURN_S: Final = 10.0  # for who writes a commit, before the log is written again
_CHUNK: Final = 1 << 20
LOST: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})  # bytes that were to be synced
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_ALL: "Final[WeakSet[GroupSync]]" = WeakSet()


def possible() -> bool:
    """Return whether this machine identifies its boots; otherwise SQLite itself must sync."""
    return _BOOT.exists()


class GroupSync:
    """The syncs of one database file in this process. Safe for threads, not over a fork."""

    def __init__(self, database: Path) -> None:
        """Map the file beside `database`, which must exist. Raises: OSError."""
        self._database, self._log = database, Path(f"{database}-wal")
        self._doubtful = False  # a sync failed, and the log was not written again since
        self._file = open_beside(Path(f"{database}-sync"), database)
        self._log_file = -1
        self._thread = threading.Lock()
        size = _HEADER + 8 * WORDS
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            header = _header(database)
            if os.pread(self._file, _HEADER, 0) != header or os.fstat(self._file).st_size != size:
                # A hole in the file on a full disk would kill the process
                os.posix_fallocate(self._file, 0, size)
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
        """Return whether this number of this key is known to be durable; False: unknown."""
        tag, slot = _tag(key)
        return self._words[_TAGS + slot] == tag and self._words[_NUMBERS + slot] > seqno

    def wait(self, key: str, seqno: int) -> None:
        """Wait until the log, as it is at the call, is durable; then so is this number of this key.

        Raises: OSError when the log cannot be synced; then durability is unknown.
        """
        begun, patience = self._words[_BEGUN], time.monotonic() + PATIENCE_S
        while self._words[_ENDED] <= begun and not self._lead(key):
            if time.monotonic() > patience:  # the holder of the lock was stopped: go on without it
                self._sync_alone()
                return
            time.sleep(_POLL_S)
        tag, slot = _tag(key)
        if self._words[_TAGS + slot] == tag:
            self._words[_NUMBERS + slot] = max(self._words[_NUMBERS + slot], seqno + 1)

    def close(self) -> None:
        """Close the files."""
        with self._thread:
            self._words.release()
            self._map.close()
            self.abandon()

    def abandon(self) -> None:
        """Close the files in a forked child: the lock is released with the last descriptor."""
        for file in (self._file, self._log_file):
            if file >= 0:
                os.close(file)
        self._file = self._log_file = -1

    def copy_log(self) -> None:
        """Copy the log into the database, as far as readers let, unless somebody syncs now.

        It is a sync that never ends where it fails: the next one writes the log again.
        """
        with self._alone() as alone:
            words = self._words
            if not alone or words[_BEGUN] != words[_ENDED]:
                return
            number = words[_BEGUN] + 1
            words[_BEGUN] = number
            # SQLite syncs nothing where it finds nothing to copy.
            if _is_copied(self._database) and _is_synced(self._opened()):
                words[_ENDED] = number

    def _lead(self, key: str) -> bool:
        """Sync for all waiting processes; False when another one is syncing."""
        with self._alone() as alone:
            if alone:
                self._sync()
                tag, slot = _tag(key)
                if not self._words[_TAGS + slot]:  # an assigned slot belongs to its key for ever
                    self._words[_TAGS + slot] = tag
        return alone

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Hold the lock of those who sync; False when another one has it."""
        if not self._thread.acquire(blocking=False):
            yield False
            return
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._thread.release()

    def _sync(self) -> None:
        words, log = self._words, self._opened()
        doubtful = self._doubtful or words[_BEGUN] != words[_ENDED]
        number = max(words[_BEGUN], words[_ENDED]) + 1
        words[_BEGUN] = number
        if doubtful or not _is_synced(log):
            number += 1
            self._doubtful, words[_BEGUN] = True, number
            _write_log_again(self._database)
            self._doubtful = False
        words[_ENDED] = number

    def _sync_alone(self) -> None:
        """Sync beside the holder of the lock, whose own sync may have failed before it stopped."""
        words, file = self._words, os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
        try:
            if not _is_synced(file):
                self._doubtful = True
                words[_BEGUN] += 2
        finally:
            os.close(file)
        if self._doubtful or words[_BEGUN] > words[_ENDED] + 1:
            _write_log_again(self._database)

    def _opened(self) -> int:
        """Return the current log file; SQLite removes it when nobody has the database open."""
        there = os.stat(self._log)
        if self._log_file >= 0 and os.fstat(self._log_file).st_ino != there.st_ino:
            os.close(self._log_file)
            self._log_file = -1
        if self._log_file < 0:
            self._log_file = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
        return self._log_file


def _header(database: Path) -> bytes:
    identity = f"{_BOOT.read_text().strip()} {os.stat(database).st_ino} {WORDS}"
    return blake2b(identity.encode(), digest_size=_HEADER).digest()


def open_beside(file: Path, database: Path) -> int:
    """Open a file, creating it with the rights of the database if it is missing."""
    mode = database.stat().st_mode & 0o666
    opened = open_itself(file, os.O_RDWR | os.O_CREAT, mode)
    with suppress(PermissionError):  # another process has created it, with these rights
        give_to(opened, database)
        os.fchmod(opened, mode)
    return opened


def _is_synced(log: int) -> bool:
    """Sync the log; False when bytes may be lost. Raises: OSError when nothing was tried."""
    try:
        os.fdatasync(log)
    except OSError as error:
        if error.errno not in LOST:
            raise
        return False
    return True


def _is_copied(database: Path) -> bool:
    """Copy the log into the database; False when its own bytes may be lost."""
    try:
        with closing(sqlite3.connect(database, timeout=TURN_S, isolation_level=None)) as opened:
            opened.execute("PRAGMA wal_autocheckpoint = 0")
            opened.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error as error:  # on a full disk the log is whole, and copied later
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR)
        return bool(code & 0xFF != sqlite3.SQLITE_IOERR)
    return True


def _write_log_again(database: Path) -> None:
    """Write the log as it is, and sync it, while nobody may add to it or begin it anew.

    Readers do not notice. Raises: OSError where that fails as well.
    """
    try:
        with closing(sqlite3.connect(database, timeout=TURN_S, isolation_level=None)) as opened:
            opened.execute("BEGIN IMMEDIATE")
            try:
                _write_again(Path(f"{database}-wal"))
            finally:
                opened.execute("ROLLBACK")
    except sqlite3.Error as error:
        reason = f"the log could not be written again: {error}"
        raise OSError(errno.EIO, reason) from error


def _write_again(log: Path) -> None:
    file, at = os.open(log, os.O_RDWR | os.O_CLOEXEC), 0
    try:
        while data := os.pread(file, _CHUNK, at):
            at += os.pwrite(file, data, at)
        os.fdatasync(file)
    finally:
        os.close(file)


@lru_cache(4096)
def _tag(key: str) -> tuple[int, int]:
    """Return a 64-bit tag of a key, never 0, and its slot."""
    tag = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little") | 1
    return tag, (tag >> 1) % _SLOTS


def _abandon_all() -> None:
    for one in tuple(_ALL):
        one.abandon()


os.register_at_fork(after_in_child=_abandon_all)
