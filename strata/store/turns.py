"""Turns: writers of a contended key wait in a queue, so that none of them starves.

Turns are never needed for correctness, which the compare-and-set ensures. A writer whose turn does
not come within `PATIENCE_S` goes ahead, and the number of a dead process is passed over.

This queue is for the processes of one machine: they draw numbers from a mapped file under its lock,
as at a counter, and are served in order.
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

from strata.store.local_file import give_to, open_itself

PATIENCE_S: Final = 2.0  # to wait for the one before; a live process takes some milliseconds
_SLOTS: Final = 1024  # keys that share a slot merely wait for each other
_POLL_S: Final = 0.0005  # pause for each process ahead in the queue: a commit takes longer
_FAR: Final = 32


class Turns:
    """The queues of one database on one machine. Safe for threads, not over a fork."""

    def __init__(self, file: Path, rights_of: Path | None = None) -> None:
        """Map the file; create it with the rights of `rights_of` if it is missing.

        Raises: OSError.
        """
        mode = 0o600 if rights_of is None else rights_of.stat().st_mode & 0o666
        self._file = open_itself(file, os.O_RDWR | os.O_CREAT, mode)
        with suppress(PermissionError):  # another process has created it, with these rights
            if rights_of is not None:
                give_to(self._file, rights_of)
            os.fchmod(self._file, mode)
        size = 16 * _SLOTS
        try:
            os.posix_fallocate(
                self._file, 0, size
            )  # writing into a hole of the file on a full disk would kill the process
            self._map = mmap.mmap(self._file, size)
        except OSError:
            os.close(self._file)
            raise
        # Of each slot: last number drawn, last number served
        self._words = memoryview(self._map).cast("Q")
        self._thread = threading.Lock()

    @contextmanager
    def turn(self, key: str) -> Iterator[bool]:
        """Wait until all earlier processes are done; the next may go when the block ends.

        Yields whether there were any.
        """
        at = 2 * (int.from_bytes(blake2b(key.encode(), digest_size=4).digest()) % _SLOTS)
        with self._thread:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                served = self._words[at + 1]  # before others see this number
                number = self._words[at] = max(self._words[at], served) + 1
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        waits = served < number - 1
        self._await(at + 1, number - 1)
        try:
            yield waits
        finally:
            # Two processes at once may lose the greater number: then one waits a little longer.
            self._words[at + 1] = max(self._words[at + 1], number)

    def close(self) -> None:
        """Close the file."""
        self._words.release()
        self._map.close()
        os.close(self._file)

    def _await(self, at: int, number: int) -> None:
        served, patience = self._words[at], time.monotonic() + PATIENCE_S
        while served < number:
            if time.monotonic() > patience:
                return
            # A process far behind polls rarely: sixteen that poll all the time would delay the
            # first.
            time.sleep(_POLL_S * min(number - served, _FAR))
            now = self._words[at]
            if now != served:
                served, patience = now, time.monotonic() + PATIENCE_S
