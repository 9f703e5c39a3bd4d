"""The line that a shell wants completed."""

import os
from typing import Final

_VARIABLE: Final = "_STRATA_COMPLETE"  # set by the completion script of each shell


def is_completion() -> bool:
    """Return whether a shell asks what may follow."""
    return _VARIABLE in os.environ


def finished_words() -> list[str]:
    """Return the words after `strata` that are typed; not the one that is being typed."""
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    words = typed.split()[1:]
    return words if typed[-1:].isspace() else words[:-1]
