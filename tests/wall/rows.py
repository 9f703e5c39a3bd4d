"""Rows of the wall: a hostile value each, what the twin makes of it, and where it stands."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from strata.ingest.twin import Undecided, Unreadable


@dataclass(slots=True)
class Row:
    """One source row: `text` is the value as it stands in the file, for people."""

    id: int
    text: str
    expected: Any  # canonical form, or an Unreadable
    must: bool  # the documents promise to take it
    file: str = ""
    line: int | None = None  # physical line, or number of the row
    shown: str | None = None  # what the quarantine must show as the value, if that is known
    whole: bool = False  # the row as a whole is malformed
    cell: Any = None  # what the source needs to write it

    @property
    def readable(self) -> bool:
        """Tell whether the twin reads the value."""
        return not isinstance(self.expected, Unreadable)

    @property
    def judged(self) -> bool:
        """Tell whether the documents decide about the value."""
        return not isinstance(self.expected, Undecided)


@dataclass(slots=True)
class File:
    """A source file and its rows; `fillers` are rows of nulls, so that some row is readable."""

    name: str
    data: bytes
    rows: list[Row] = field(default_factory=list)


def outcome(read: Callable[[], Any]) -> Any:
    """Return what the twin reads, or the Unreadable that it raises."""
    try:
        return read()
    except Unreadable as error:
        return error


def frozen(value: Any) -> Any:
    """Return something hashable that is equal exactly for equal canonical forms."""
    if isinstance(value, dict):
        return ("dict", frozenset((key, frozen(part)) for key, part in value.items()))
    if isinstance(value, list):
        return ("list", tuple(frozen(part) for part in value))
    return value
