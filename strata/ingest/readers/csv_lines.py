"""Finds the lines of records in a CSV text again; used only when a row is rejected."""

import re
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from strata.ingest.land.files import SourceFile
from strata.ingest.readers.records import plain_quotes
from strata.ingest.readers.source import Located

Starts = npt.NDArray[np.int64]


def located_records(
    source: SourceFile, data: bytes, records: Sequence[int], total: int
) -> list[Located]:
    """Return line and text of records, counted from 0 after the header."""
    if not records:
        return []
    delimiter = source.dialect.delimiter
    slow = partial(slow_line_starts, delimiter=delimiter)
    plain = plain_quotes(data, delimiter) and data.count(b"\r") == data.count(b"\r\n")
    for find in (line_starts, slow) if plain else (slow,):
        starts = find(data)
        if len(starts) == total + 1:
            break
    else:
        return [(None, "")] * len(records)
    stops = [*starts[1:].tolist(), len(data)]
    breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    found: list[Located] = []
    for record in records:
        start, stop = int(starts[record + 1]), stops[record + 1]
        text = data[start:stop].rstrip(b"\r\n").decode(errors="surrogateescape")
        found.append((int(np.searchsorted(breaks, start)) + source.before + 1, text))
    return found


def line_starts(data: bytes) -> Starts:
    """Return where each record that is not blank begins, in bytes; the header is the first.

    A line break ends a record when the quotes before it are balanced. The parser does the same,
    unless a quote is inside an unquoted field (then `slow_line_starts` is right).
    """
    raw = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(raw == ord("\n"))
    quotes = np.flatnonzero(raw == ord('"'))
    ends = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
    starts, stops = np.r_[0, ends + 1], np.r_[ends, len(data)]
    full = stops > starts
    starts, stops = starts[full], stops[full]
    only_return = (stops - starts == 1) & (raw[starts] == ord("\r"))
    kept: Starts = starts[~only_return]
    return kept


def slow_line_starts(data: bytes, delimiter: str = ",") -> Starts:
    """Return the same as `line_starts`, for any file, one record at a time, like the parser.

    A quote opens only at the beginning of a field; anything after the closing quote is text. A lone
    carriage return also ends a record.
    """
    other = b"[^\\r\\n" + re.escape(delimiter.encode()) + b"]*+"
    field = b'(?:"[^"]*+(?:""[^"]*+)*+"?)?+' + other
    record = re.compile(field + b"(?:" + re.escape(delimiter.encode()) + field + b")*+")
    starts: list[int] = []
    position = 0
    while position < len(data):
        found = record.match(data, position)
        assert found is not None
        if found.end() > position:
            starts.append(position)
        position = found.end() + (2 if data.startswith(b"\r\n", found.end()) else 1)
    return np.array(starts, np.int64)
