"""Finds where the records of a text end, block by block; a file can be cut there.

Each kind of text has a scanner. It takes a file in blocks of any size, from its beginning or from
the beginning of a record. For each block it returns where the last record in it ended. It never
guesses: a line break inside quotes does not end a record, nor does a comma inside a string or a
nested value.
"""

import re
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

QUOTE: Final = ord('"')
BREAK: Final = ord("\n")
RETURN: Final = ord("\r")
_CLOSES: Final = re.compile(rb'[^"]*+(?:""[^"]*+)*+"')
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
    """Records of CSV: lines, unless a quote is open. A unit is a line.

    As in the parser, a quote opens only at the beginning of a field; elsewhere it is a character.
    In most blocks, every other quote is at the beginning of a field or directly after the previous
    quote (doubled). Then only the parity of their number counts. Other blocks are scanned field by
    field.
    """

    def __init__(self, delimiter: str = ",") -> None:
        """Begin at the beginning of a record."""
        self._delimiter = ord(delimiter)
        self._before_field = frozenset((self._delimiter, BREAK, RETURN))
        self._opens = re.compile(b"(?<=[" + re.escape(delimiter.encode()) + b'\r\n])"')
        self._inside = False
        self._begins = True  # whether a field begins with the next byte
        self._closed = False  # whether the byte before closed a quote

    def open(self) -> bool:
        """Return whether a quoted field has not ended."""
        return self._inside

    def take(self, block: bytes) -> tuple[int, int, int]:
        """See `Ends`."""
        if not block:
            return 0, 0, 0
        if not self._inside and b'"' not in block:
            end = block.rfind(b"\n") + 1
        else:
            raw = np.frombuffer(block, np.uint8)
            quotes = np.flatnonzero(raw == QUOTE)
            plain = self.alternate(raw, quotes)
            end = self._counted(raw, quotes) if plain else self._walked(block)
        if not self._inside:
            self._closed = self._closed and block[-1] == QUOTE
            self._begins = block[-1] in self._before_field
        before = block.count(b"\n", 0, end)
        return end, before, before + block.count(b"\n", end)

    def alternate(self, raw: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64]) -> bool:
        """Return whether each opening quote may open, assuming that quotes alternate."""
        opens = quotes[1 if self._inside else 0 :: 2]
        if len(opens) and opens[0] == 0:
            if not (self._begins or self._closed):
                return False
            opens = opens[1:]
        before = raw[opens - 1]
        legal = (before == QUOTE) | (before == self._delimiter) | (before == BREAK)
        return bool((legal | (before == RETURN)).all())

    def _counted(self, raw: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64]) -> int:
        breaks = np.flatnonzero(raw == BREAK)
        outside = (np.searchsorted(quotes, breaks) + self._inside) % 2 == 0
        ends = breaks[outside]
        self._inside = bool((len(quotes) + self._inside) % 2)
        self._closed = not self._inside  # counts only if the last byte is a quote
        return int(ends[-1]) + 1 if len(ends) else 0

    def _walked(self, block: bytes) -> int:
        position = end = 0
        closed_at = -1
        if not self._inside and block[0] == QUOTE and (self._begins or self._closed):
            self._inside, position = True, 1
        while True:
            if self._inside:
                found = _CLOSES.match(block, position)
                if found is None:
                    break
                self._inside, position = False, found.end()
                closed_at = position
            found = self._opens.search(block, position)
            stop = len(block) if found is None else found.start()
            end = max(end, block.rfind(b"\n", position, stop) + 1)
            if found is None:
                break
            self._inside, position = True, found.end()
        self._closed = closed_at == len(block)
        return end


def plain_quotes(data: bytes, delimiter: str = ",") -> bool:
    """Return whether every other quote opens a field, in CSV that begins with a record."""
    raw = np.frombuffer(data, np.uint8)
    return CsvRecords(delimiter).alternate(raw, np.flatnonzero(raw == QUOTE))


def swallowing(data: bytes, delimiter: str = ",") -> int | None:
    """Return where a quoted field begins that has line breaks and goes on behind its end, if any.

    Its quote was never closed; that of a later row ends it, and the rows between are in its text.
    """
    raw = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(raw == QUOTE)
    if not CsvRecords(delimiter).alternate(raw, quotes):
        cut = re.escape(delimiter.encode())
        field = rb'("[^"]*+(?:""[^"]*+)*+"(?P<behind>[^\r\n\t "%b])?)?+[^\r\n%b]*+(?:%b|[\r\n]|\Z)'
        fields = re.finditer(field % (cut, cut, cut), data)
        found = (f.start() for f in fields if f["behind"] is not None and b"\n" in f[1])
        return next(found, None)
    opens, closes = quotes[::2], quotes[1::2]
    closes = closes[closes + 1 < len(raw)]
    ends = np.frombuffer(b'\r\n\t "' + delimiter.encode(), np.uint8)
    for number in np.flatnonzero(~np.isin(raw[closes + 1], ends)).tolist():
        first = number
        while first and opens[first] == closes[first - 1] + 1:  # a doubled quote
            first -= 1
        start = int(opens[first])
        if b"\n" in data[start : int(closes[number])]:
            return start
    return None


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
