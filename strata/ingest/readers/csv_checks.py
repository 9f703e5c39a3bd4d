"""The header of CSV, and what is refused before its rows are parsed.

Each check finds a file that the parser would read otherwise than it was meant.
"""

import csv
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, beginning, read_text
from strata.ingest.land.recode import shown_text
from strata.ingest.readers.records import CsvRecords
from strata.ingest.readers.rejects import SHOWN
from strata.ingest.values.shown import clean
from strata.kernels.csv_scan import swallowing
from strata.model.charsets import UTF_8

HEADER_BYTES: Final = 1 << 20
LOOKED: Final = 20  # records, to find the separator
SEPARATORS: Final = (",", ";", "\t", "|", "\x01")  # the last one is Hive's
ENCODINGS: Final = {UTF_8: "UTF-8"}  # as errors call them
ESCAPE_CURE: Final = "declare how quotes within quotes are written: source.escape: '\\'"
EXCEL: Final = re.compile("(?i)sep=.?")  # names the delimiter


class _Lines:
    """The lines of a text with their ends, and how many were taken."""

    def __init__(self, text: str) -> None:
        self.position = 0
        self._text = text

    def __iter__(self) -> "_Lines":
        return self

    def taken(self) -> str:
        """Return the text that was given out so far."""
        return self._text[: self.position]

    def __next__(self) -> str:
        if self.position >= len(self._text):
            raise StopIteration
        start, end = self.position, self._text.find("\n", self.position) + 1
        self.position = end or len(self._text)
        return self._text[start : self.position]


def header_of(source: SourceFile, data: bytes) -> tuple[list[str], int]:
    """Return the names in the header and where the next record begins; see `_named`.

    Declared names are those of a file that has none, and its first record is where it begins.
    """
    if not source.has_header:
        return list(source.dialect.header), 0
    record, end = first_record(source, data)
    return _named(source, record), end


def first_record(source: SourceFile, data: bytes) -> tuple[list[str], int]:
    """Return the fields of the first record that has any, and where the next one begins.

    Raises: InvalidRequest for a text without records, or that does not begin as CSV.
    """
    try:
        lines = _Lines(data[:HEADER_BYTES].decode("utf-8", errors="surrogateescape"))
        for record in csv.reader(lines, delimiter=source.dialect.delimiter):
            if record:
                text = lines.taken()
                end = len(text.encode("utf-8", errors="surrogateescape"))
                return record, end
    except csv.Error as error:
        raise InvalidRequest(
            "not a readable CSV header",
            file=source.name,
            line=1,
            reason=str(error),
            cure="end each line with LF or CRLF, not with CR alone; close what is quoted",
        ) from error
    raise InvalidRequest(
        "the file is empty: it has no header",
        file=source.name,
        cure="give it a header, or remove it",
    )


def delimiter_of(file: SourceFile) -> str:
    """Return the separator that most of the first records agree on, else the one of most fields.

    They agree on the number of declared names, or of fields in the first of them. A separator may
    stand in quotes, and so may a line break, which another separator makes an error.
    Raises: InvalidRequest for a file without records, and for one that begins as no CSV does.
    """
    data = read_text(beginning(file, HEADER_BYTES))
    text = data[:HEADER_BYTES].decode("utf-8", errors="surrogateescape")

    def agreed(delimiter: str) -> tuple[bool, int, bool, int]:
        records: list[list[str]] = []
        with suppress(csv.Error):
            some = csv.reader(_Lines(text), delimiter=delimiter)
            records += filter(None, islice(some, LOOKED))
        first = records[0] if records else []
        if len(first) < 2:
            return False, 0, False, len(first)
        wanted = len(file.dialect.header or first)
        whole = all(field.count('"') % 2 == 0 for field in first)  # a half has one of two quotes
        return True, sum(len(r) == wanted for r in records), whole, len(first)

    found = max(SEPARATORS, key=agreed)
    if not agreed(found)[-1]:
        first_record(file, data)
    return found


def _named(source: SourceFile, header: Sequence[str]) -> list[str]:
    """Return the names of columns: one without a name, the first being 0, is _c0, as in Spark.

    The row names of R and the index of pandas stand in such a column.

    Raises: InvalidRequest for a name that is not of the encoding, and for a line without names.
    """
    if EXCEL.fullmatch(header[0]) or not any(name.strip() for name in header):
        raise InvalidRequest(
            "the first line is no header",
            file=source.name,
            line=1,
            value=source.dialect.delimiter.join(header)[:SHOWN],
            cure="begin with the names of the columns; what Excel writes as sep=; is declared: "
            "source.delimiter",
        )
    encoding = source.dialect.encoding
    found = [name if name.strip() else f"_c{number}" for number, name in enumerate(header)]
    if source.dialect.header and not header[-1]:  # as it is kept beside a rejected row
        found[-1] = ""
    for name in found:
        if clean(name) != name:
            raise InvalidRequest(
                f"the header is not {ENCODINGS.get(encoding, encoding)}",
                file=source.name,
                line=1,
                column=shown_text(name[:SHOWN].encode(errors="surrogateescape"), encoding),
                cure="declare how the file is written, as in source.encoding: windows-1252",
            )
    return found


def check_quotes(source: SourceFile, data: bytes) -> None:
    """Refuse a file whose last quote is never closed: the parser would swallow the rest."""
    if source.piece is not None and source.piece.ended:
        return
    records = CsvRecords(source.dialect.delimiter)
    last, lines, _ = records.take(data)
    if records.open():
        raise InvalidRequest(
            "a quoted field never ends",
            file=source.name,
            line=source.before + lines + 1,
            value=data[last : last + SHOWN].decode(errors="backslashreplace"),
            cure=escape_cure("close the quote; a quote inside quotes is doubled", data[last:]),
        )


def escape_cure(cure: str, text: bytes) -> str:
    """Return a cure of a text, and the other one if it may have quotes that are escaped."""
    return f"{cure}; or {ESCAPE_CURE}" if b'\\"' in text else cure


def check_swallowed(source: SourceFile, data: bytes) -> None:
    """Refuse a file in which rows are in the text of a field; see `swallowing`."""
    raw = np.frombuffer(data, np.uint8)
    start = swallowing(raw, ord(source.dialect.delimiter)) if b'"' in data else -1
    if start < 0:
        return
    raise InvalidRequest(
        "a quoted field of several lines goes on behind its closing quote",
        file=source.name,
        line=source.before + data.count(b"\n", 0, start) + 1,
        value=data[start : start + SHOWN].decode(errors="backslashreplace"),
        cure=escape_cure(
            "close the quote where the field ends; a quote inside quotes is doubled", data[start:]
        ),
    )


def check_delimiter(
    source: SourceFile, data: bytes, header: Sequence[str], names: Sequence[str]
) -> None:
    """Refuse a header of one field that another delimiter cuts into declared columns."""
    if len(header) > 1 or len(names) <= 1:
        return
    for other in SEPARATORS:
        found, _ = header_of(_cut_by(source, other), data)
        if len(set(found) & set(names)) > 1:
            raise InvalidRequest(
                "the fields of the file are separated otherwise than declared",
                file=source.name,
                line=1,
                value=clean(header[0][:SHOWN]),
                cure=f"source.delimiter: {json.dumps(other)}",
            )


def _cut_by(source: SourceFile, delimiter: str) -> SourceFile:
    return replace(source, dialect=replace(source.dialect, delimiter=delimiter))


def check_escapes(source: SourceFile, data: bytes) -> None:
    r"""Refuse a file that writes a quote within quotes as `\"`, and does not declare it.

    Read as CSV, such a field ends at the quote, and what follows is put behind it.
    """
    if b"\\" not in data or b'\\"' not in data:  # one byte is sought much faster than two
        return
    delimiter = re.escape(source.dialect.delimiter.encode())
    field = (
        rb'(?:"[^"]*+(?:""[^"]*+)*+"(?:(?<=\\")(?P<behind>[^\r\n%b]))?)?+[^\r\n%b]*+(?:%b|[\r\n]|\Z)'
        % (delimiter, delimiter, delimiter)
    )
    for found in re.finditer(field, data):
        if found["behind"] is not None:
            raise InvalidRequest(
                "a quote within quotes is escaped by a backslash",
                file=source.name,
                line=source.before + data.count(b"\n", 0, found.start()) + 1,
                value=found[0][:SHOWN].decode(errors="backslashreplace"),
                cure=ESCAPE_CURE
                if not source.dialect.escape
                else "close the quote where the field ends",
            )
