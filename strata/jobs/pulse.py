"""A sign of life: a job that has printed nothing for some seconds says what it is at.

People watch a task's log, and silence looks like a job that hangs.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Final

EVERY_SECONDS: Final = 8.0  # of silence: with the time to see that a line is due, below ten


class Pulse:
    """What a job is at, and when it last printed a line."""

    def __init__(self) -> None:
        """Begin silent; nothing is printed before `beating`."""
        self._lock = Lock()
        self._heard = time.monotonic()
        self._at: dict[str, float] = {}  # what it is at, and since when
        self._look: Callable[[], str] | None = None

    def heard(self) -> None:
        """Take note that a line was printed."""
        self._heard = time.monotonic()

    def about(self, text: str) -> None:
        """Say what the job is at from now on; a new subject begins at zero seconds."""
        with self._lock:
            self._at = {text: time.monotonic()}

    @contextmanager
    def at(self, text: str) -> Iterator[None]:
        """Say that the job is at this, too, inside the block; blocks may run side by side."""
        with self._lock:
            self._at[text] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._at.pop(text, None)

    def idle(self) -> None:
        """Say that the job is at nothing but what blocks of `at` say from now on."""
        with self._lock:
            self._at = {}

    @contextmanager
    def watching(self, look: Callable[[], str]) -> Iterator[None]:
        """Ask `look` for more on each line, such as how many tasks are done."""
        self._look = look
        try:
            yield
        finally:
            self._look = None

    @contextmanager
    def beating(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Call `tell` with a line after `EVERY_SECONDS` without one."""
        every, ended = EVERY_SECONDS, Event()
        self.about("the job")
        self.heard()

        def beat() -> None:
            while not ended.wait(max(self._heard + every - time.monotonic(), every / 10)):
                if time.monotonic() - self._heard >= every:
                    tell(self.line())
                    self.heard()

        thread = Thread(target=beat, name="pulse", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(every)  # a look that hangs must not keep the job from its end

    def line(self) -> str:
        """Return what the job is at, by name, since when, and what `look` has to say."""
        with self._lock:
            now = time.monotonic()
            at = " and at ".join(
                f"{text}, {now - began:,.0f} s" for text, began in sorted(self._at.items())
            )
        more = ""
        if (look := self._look) is not None:
            with suppress(Exception):  # a Spark that is about to stop; a line is not worth a job
                more = look()
        return f"still at {at}" + (f": {more}" if more else "")


PULSE: Final = Pulse()  # of the job that is this process
