"""Remarks beside an answer, on standard error: what is going on, and what to know about it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from strata.model.shown import visible


def remark(text: str) -> None:
    """Print one remark."""
    sys.stderr.write(visible(text) + "\n")


def watched() -> bool:
    """Return whether a person watches standard error."""
    return sys.stderr.isatty()


@contextmanager
def busy(text: str) -> Iterator[None]:
    """Show a person that something is going on until the block ends."""
    if not watched():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(visible(text))):
        yield
