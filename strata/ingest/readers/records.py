"""Finds where the records of a text end, block by block; a file can be cut there.

Each kind of text has a scanner. It takes a file in blocks of any size, from its beginning or from
the beginning of a record. For each block it returns where the last record in it ended. It never
guesses: a line break inside quotes does not end a record, nor does a comma inside a string or a
nested value.
"""

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from strata.kernels.csv_scan import BEGIN, QUOTED, record_ends

QUOTE: Final = ord('"')
_BOM: Final = b"\xef\xbb\xbf"


class Ends(Protocol):
    """A scanner of one kind of text."""

    def take(self, block: bytes) -> tuple[int, int, int]:
        """Return where the last record of a block ended, and how many units came before.

        Shape: (bytes of the block up to that end, 0 if no record ended in it; units in those bytes;
        units in the block). The places of rows are counted in units: lines, or elements.
        """

    def open(self) -> bool:
        """Return whether the text cannot end here."""


class Lines:
    """One record per line."""

    def take(self, block: bytes) -> tuple[int, int, int]:
        """See `Ends`."""
        lines = block.count(b"\n")
        return block.rfind(b"\n") + 1, lines, lines

    def open(self) -> bool:
        """See `Ends`."""
        return False


class CsvRecords:
    """Records of CSV: lines, unless a quote is open. A unit is a line."""

    def __init__(self, delimiter: str = ",") -> None:
        """Begin at the beginning of a record."""
        self._delimiter = ord(delimiter)
        self._state = BEGIN

    def open(self) -> bool:
        """Return whether a quoted field has not ended."""
        return self._state == QUOTED

    def take(self, block: bytes) -> tuple[int, int, int]:
        """See `Ends`."""
        raw = np.frombuffer(block, np.uint8)
        found = record_ends(raw, self._state, self._delimiter)
        self._state, end, before, lines = map(int, found)
        return end, before, lines


_STRUCTURAL: Final = np.zeros(256, np.bool_)
_STRUCTURAL[list(b'"[]{},')] = True
_DEPTH: Final = np.zeros(256, np.int64)
_DEPTH[list(b"[{")] = 1
_DEPTH[list(b"]}")] = -1


class JsonElements:
    """Elements of one JSON array: the values between its commas. A unit is an element.

    A text that is not an array has no ends. Errs: cuts invalid JSON anywhere; then one of the
    pieces is invalid as well, because valid pieces between commas make a valid whole.
    """

    def __init__(self, *, within: bool = False) -> None:
        """Begin before the array, or `within` it at the beginning of an element."""
        self._depth = 1 if within else 0
        self._array: bool | None = True if within else None  # None: nothing was seen yet
        self._string = False
        self._escapes = 0  # backslashes right before the next byte

    def open(self) -> bool:
        """Return False: the parser finds a missing end."""
        return False

    def take(self, block: bytes) -> tuple[int, int, int]:
        """See `Ends`."""
        if self._array is None:
            begin = block.removeprefix(_BOM).lstrip()[:1]
            self._array = None if not begin else begin == b"["
        raw = np.frombuffer(block, np.uint8)
        if not self._array or not len(raw):
            return 0, 0, 0
        places = np.flatnonzero(_STRUCTURAL[raw])
        quotes = raw[places] == QUOTE
        if b"\\" in block or self._escapes:
            escaped = self._escaped(raw, places[quotes])
            places = np.delete(places, np.flatnonzero(quotes)[escaped])
            quotes = raw[places] == QUOTE
            trailing = len(block) - len(block.rstrip(b"\\"))
            self._escapes = trailing + (self._escapes if trailing == len(block) else 0)
        inside = (np.cumsum(quotes) + self._string) % 2 == 1
        marks = raw[places]
        depth = self._depth + np.cumsum(np.where(inside, 0, _DEPTH[marks]))
        commas = places[(marks == ord(",")) & ~inside & (depth == 1)]
        if len(places):
            self._string, self._depth = bool(inside[-1]), int(depth[-1])
        return (int(commas[-1]) + 1 if len(commas) else 0), len(commas), len(commas)

    def _escaped(
        self, raw: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return which quotes follow an odd number of backslashes."""
        number = np.arange(len(raw))
        last = np.maximum.accumulate(np.where(raw == ord("\\"), -1, number))
        before = np.where(quotes > 0, last[quotes - 1], -1)
        run = quotes - 1 - before
        run = run + np.where(before < 0, self._escapes, 0)
        odd: npt.NDArray[np.bool_] = run % 2 == 1
        return odd
