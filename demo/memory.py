"""How much memory the demo's processes hold at most, measured while it runs."""

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

import psutil

from demo.processes import memory_bytes

EVERY_SECONDS: Final = 5.0  # a look takes 60 ms: it adds up the pages of each process


class PeakMemory:
    """The most that this process, and those that `others` names, held at a time."""

    def __init__(self, others: Callable[[], Sequence[psutil.Process]]) -> None:
        """Ask `others` at each look: processes come and go."""
        self.peak_bytes = 0
        self._others = others
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop looking."""
        self._end.set()
        self._thread.join(timeout=10)

    def _watch(self) -> None:
        while not self._end.wait(EVERY_SECONDS):
            roots = [psutil.Process(), *self._others()]
            self.peak_bytes = max(self.peak_bytes, memory_bytes(roots))
