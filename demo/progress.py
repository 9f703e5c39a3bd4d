"""What a person sees while the demo works: one line a stage, the present one alive.

On a terminal the present stage has a spinner, its time and the last line of the job's log. Where
the output is kept (CI, a file), a line is printed when something changes and now and then.
"""

import sys
import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

QUIET_SECONDS: Final = 20.0  # between two lines that say nothing but "still working"
WIDTH: Final = 112


def duration(seconds: float) -> str:
    """Return seconds as people say them.

    >>> duration(4.2), duration(75)
    ('4 s', '1 min 15 s')
    """
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


class Progress:
    """The stages of one demo, as they go by."""

    def __init__(self) -> None:
        """Write to standard output; nothing is shown before `stage`."""
        self.console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
        self.times: dict[str, float] = {}
        self._alive = self.console.is_terminal
        self._live: Live | None = None
        self._stage = ""
        self._detail = ""
        self._started = time.monotonic()
        self._said = 0.0

    def __enter__(self) -> Self:
        """Take the terminal's last line."""
        if self._alive:
            self._live = Live(console=self.console, refresh_per_second=8, transient=True)
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back."""
        self.done(failed=kind is not None)
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def stage(self, name: str) -> None:
        """End the present stage well, and begin another."""
        self.done()
        self._stage, self._detail = name, ""
        self._started = self._said = time.monotonic()
        if self._live is None:
            self.console.print(f"  {name} ...")

    def detail(self, text: str) -> None:
        """Say what goes on within the stage."""
        text = " ".join(text.split())
        now = time.monotonic()
        changed = text != self._detail
        self._detail = text
        if self._live is not None:
            self._live.update(self._line())
        elif changed and now - self._said > QUIET_SECONDS:
            self._said = now
            self.console.print(f"      {duration(now - self._started):>12}  {text[: WIDTH - 22]}")

    def done(self, *, failed: bool = False) -> None:
        """End the present stage, if there is one, and keep how long it took."""
        if not self._stage:
            return
        seconds = time.monotonic() - self._started
        self.times[self._stage] = seconds
        mark = Text("✗", "red") if failed else Text("✓", "green")
        self.console.print(Text.assemble("  ", mark, f" {self._stage:<58} {duration(seconds):>12}"))
        self._stage = ""
        if self._live is not None:
            self._live.update("")

    def _line(self) -> Table:
        grid = Table.grid(padding=(0, 1))
        elapsed = duration(time.monotonic() - self._started)
        grid.add_row(Spinner("dots"), f"{self._stage}  [{elapsed}]")
        grid.add_row("", Text(self._detail, "dim", overflow="ellipsis", no_wrap=True))
        return grid
