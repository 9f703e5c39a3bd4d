r"""Reads CSV with escaped quotes, or with blanks around fields, as CSV that has neither.

All that is behind this room sees doubled quotes, and fields from their first letter on.

With `source.escape`, as Spark writes, `\"` within quotes is a quote and `\\` a backslash; a doubled
quote is a quote as well. A backslash before anything else has no meaning there: Spark writes none,
MySQL and others mean various letters by it. Outside quotes a backslash is a letter.

With `source.skip_blanks`, blanks and tabs before a field, and behind its closing quote, are left
out. Without it a quote behind blanks is a letter, and hides no delimiter.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from strata.errors import InvalidRequest
from strata.ingest.land.source_file import SourceFile
from strata.kernels.csv_scan import BEGIN, doubled_quotes, without_blanks

SHOWN: Final = 40  # bytes of an error
_BOM: Final = b"\xef\xbb\xbf"
Conversion = Callable[[bytes], bytes]  # of the chunks of a text, from its beginning


def plainly(file: SourceFile) -> Conversion:
    """Return what gives the chunks of a file, from its beginning, without escapes and blanks.

    It raises InvalidRequest for a backslash within quotes that has no meaning.
    """
    delimiter, skips = ord(file.dialect.delimiter), file.dialect.skip_blanks
    double = _doubling(file, delimiter, skips=skips) if file.dialect.escape else None
    skip = _skipping(delimiter) if skips else None
    begun = False

    def convert(chunk: bytes) -> bytes:
        nonlocal begun
        mark = _BOM if not begun and chunk.startswith(_BOM) else b""
        begun = True
        text = chunk[len(mark) :]
        for step in (double, skip):
            text = text if step is None else step(text)
        return mark + text

    return convert


def _doubling(file: SourceFile, delimiter: int, *, skips: bool) -> Conversion:
    state, lines = BEGIN, 1

    def double(chunk: bytes) -> bytes:
        nonlocal state, lines
        out = np.empty(len(chunk) + 1, np.uint8)
        found = doubled_quotes(np.frombuffer(chunk, np.uint8), state, delimiter, skips, out)
        state, made, wrong = map(int, found)
        if wrong >= 0:
            raise _without_meaning(file, lines, chunk, wrong)
        lines += chunk.count(b"\n")
        return out[:made].tobytes()

    return double


def _skipping(delimiter: int) -> Conversion:
    state = BEGIN

    def skip(chunk: bytes) -> bytes:
        nonlocal state
        out = np.empty(len(chunk) + 1, np.uint8)
        found = without_blanks(np.frombuffer(chunk, np.uint8), state, delimiter, out)
        state, made = map(int, found)
        return out[:made].tobytes()

    return skip


def _without_meaning(file: SourceFile, lines: int, chunk: bytes, at: int) -> InvalidRequest:
    start = max(chunk.rfind(b"\n", 0, at) + 1, at - SHOWN)
    return InvalidRequest(
        "a backslash within quotes stands before neither a quote nor a backslash",
        file=file.name,
        line=lines + chunk.count(b"\n", 0, at),
        value=chunk[start : at + 1].decode(errors="backslashreplace"),
        cure=r"write a backslash within quotes as \\, as Spark does; "
        "if backslashes escape nothing, leave source.escape out",
    )
