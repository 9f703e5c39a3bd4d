r"""Reads CSV that writes a quote within quotes as `\"`, as Spark does, as CSV that doubles it.

All that is behind this room sees doubled quotes. Within quotes `\"` is a quote, `\\` a backslash,
and a doubled quote is a quote as well. A backslash before anything else has no meaning there: Spark
writes none, MySQL and others mean various letters by it. Outside quotes a backslash is a letter.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from strata.errors import InvalidRequest
from strata.ingest.land.source_file import SourceFile
from strata.kernels.csv_scan import BEGIN, doubled_quotes

SHOWN: Final = 40  # bytes of an error
_BOM: Final = b"\xef\xbb\xbf"


def doubling(file: SourceFile) -> Callable[[bytes], bytes]:
    """Return what gives the chunks of a file, from its beginning, with doubled quotes.

    It raises InvalidRequest for a backslash within quotes that has no meaning.
    """
    delimiter = ord(file.dialect.delimiter)
    state, lines, begun = BEGIN, 1, False

    def double(chunk: bytes) -> bytes:
        nonlocal state, lines, begun
        mark = _BOM if not begun and chunk.startswith(_BOM) else b""
        begun = True
        text = np.frombuffer(chunk, np.uint8)[len(mark) :]
        out = np.empty(len(text) + 1, np.uint8)
        state, made, wrong = map(int, doubled_quotes(text, state, delimiter, out))
        if wrong >= 0:
            raise _without_meaning(file, lines, chunk, wrong + len(mark))
        lines += chunk.count(b"\n")
        return mark + out[:made].tobytes()

    return double


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
