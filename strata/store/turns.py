"""Turns: who wants to change a contended key waits in a queue, so that nobody starves.

Never needed for correctness, which is the compare-and-set's: a turn that is not given within
`PATIENCE_S` is taken, and what a dead process drew is passed over.

Between the processes of one machine: numbers are drawn from a mapped file under its lock, as at
a counter, and served in order.
"""

import fcntl
import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 2.0  # for the one before; the living take some milliseconds
_SLOTS: Final = 1024  # keys that share one only wait for each other
_POLL_S: Final = 0.0005  # for each who is before one: a commit takes longer
_FAR: Final = 32


class Turns:
    """The queues of one database on one machine. Safe for threads, not over a fork."""

    def __init__(self, file: Path, rights_of: Path | None = None) -> None:
        """Map the file, which is made if it is not there, with the rights of `rights_of`.

        Raises: OSError.
        """
        mode = 0o600 if rights_of is None else rights_of.stat().st_mode & 0o666
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        with suppress(PermissionError):  # somebody else made it, with these rights
            os.fchmod(self._file, mode)
        size = 16 * _SLOTS
        try:
            os.posix_fallocate(
                self._file, 0, size
            )  # a hole, on a full disk, kills who writes there
            self._map = mmap.mmap(self._file, size)
        except OSError:
            os.close(self._file)
            raise
        self._words = memoryview(self._map).cast("Q")  # of each slot: drawn last, served last
        self._thread = threading.Lock()

    @contextmanager
    def turn(self, key: str) -> Iterator[bool]:
        """Wait until those who came before are done; the next may go when the block ends.

        Gives whether there was anybody.
        """
        at = 2 * (int.from_bytes(blake2b(key.encode(), digest_size=4).digest()) % _SLOTS)
        with self._thread:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                number = self._words[at] = max(self._words[at], self._words[at + 1]) + 1
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        waits = self._words[at + 1] < number - 1
        self._await(at + 1, number - 1)
        try:
            yield waits
        finally:
            # Two at once may lose the greater number: somebody waits a little longer.
            self._words[at + 1] = max(self._words[at + 1], number)

    def close(self) -> None:
        """Give the file back."""
        self._words.release()
        self._map.close()
        os.close(self._file)

    def _await(self, at: int, number: int) -> None:
        served, patience = self._words[at], time.monotonic() + PATIENCE_S
        while served < number:
            if time.monotonic() > patience:
                return
            # Who is far behind looks seldom: sixteen that look all the time keep the first waiting.
            time.sleep(_POLL_S * min(number - served, _FAR))
            now = self._words[at]
            if now != served:
                served, patience = now, time.monotonic() + PATIENCE_S
