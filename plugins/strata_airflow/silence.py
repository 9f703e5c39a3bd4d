"""A line in a task's log where spark-submit prints nothing, as while its Java machine starts.

A job shows a sign of life by itself (`strata.jobs.pulse`), but only once its Python runs.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

EVERY_SECONDS: Final = 9.0  # longer than a job is silent, and below ten


class Silence:
    """How long a program has printed nothing."""

    def __init__(self, every: float = 0) -> None:
        """Begin now; a line is due after `every` seconds, by default `EVERY_SECONDS`."""
        self._every = every or EVERY_SECONDS
        self._began = self._heard = time.monotonic()

    def heard(self, lines: Iterable[Any]) -> Iterator[Any]:
        """Yield the program's lines unchanged, and note when each came."""
        for line in lines:
            self._heard = time.monotonic()
            yield line

    @contextmanager
    def broken(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Call `tell` with a line whenever nothing has come for so long, until the block ends."""
        ended = Event()
        told = self._began

        def watch() -> None:
            nonlocal told
            while not ended.wait(self._every / 20):
                now = time.monotonic()
                if now - max(self._heard, told) >= self._every:
                    told = now
                    tell(f"spark-submit has printed nothing for {now - self._heard:,.0f} s")

        thread = Thread(target=watch, name="silence", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
