"""Read CSV with a header: columns by name, fields as text.

Separated by commas, or by what the source declares, quoted with `"`, which is doubled inside
quotes; a quoted field may hold line breaks. Blank lines are skipped. An unquoted empty field and an
unquoted NA, or what the source declares, are null; quoted they are text. A row with more or fewer
fields than the header is malformed.

Arrow parses; `line_starts` finds the line of a row again, and only when a row is rejected.
"""

import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from io import StringIO
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, read_text
from strata.ingest.readers.json_table import is_utf8
from strata.ingest.readers.records import CsvRecords, plain_quotes
from strata.ingest.readers.rejects import SHOWN, Reject, details
from strata.ingest.readers.source import WRONG_SHAPE_ROWS, Located, Raw, RawFile, check_columns
from strata.ingest.values.cast import Rows, from_text
from strata.updates.order import one_chunk

BLOCK_BYTES: Final = 64 << 20  # a record may not be longer
MIN_BLOCK_BYTES: Final = 1 << 16
HEADER_BYTES: Final = 1 << 20

Starts = npt.NDArray[np.int64]


def read_csv(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return the columns `names` as text, and the rows that have the wrong number of fields.

    Those that are `optional` may be missing.

    Raises: InvalidRequest for a file whose header is not exactly the declared columns, whose
    last quote never ends, or of which no row fits the header.
    Cost: the file, or piece of it, in memory.
    """
    data = read_text(source)
    header, body = header_of(source, data)
    check_columns(source.name, header, names, optional=optional, line=1)
    _check_quotes(source, data)
    table, invalid = _parse(source, data[body:], header)
    skipped = [row.number - 1 for row in invalid]  # among the records after the header
    total = table.num_rows + len(skipped)
    lines = _located(source, data, skipped, total)
    line = _one_line(header, source.dialect.delimiter)
    malformed = [
        replace(_malformed(source, row, where), header=line)
        for row, where in zip(invalid, lines, strict=True)
    ]
    if source.is_whole and not table.num_rows and len(malformed) >= WRONG_SHAPE_ROWS:
        raise InvalidRequest(
            "no row of the file fits its header",
            **details(malformed[0]),
            cure="quoted with double quotes; check source.format and source.delimiter",
        )

    def locate(rows: Rows) -> list[Located]:
        records = np.delete(np.arange(total), skipped)
        return _located(source, data, records[rows].tolist(), total)

    return RawFile(
        file=source.name,
        count=table.num_rows,
        columns={
            name: one_chunk(table.column(name)) for name in names if name in table.column_names
        },
        convert=from_text,
        shown=_shown,
        locate=locate,
        malformed=malformed,
        header=line,
    )


def _one_line(header: Sequence[str], delimiter: str) -> str:
    text = StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="").writerow(header)
    return text.getvalue()


def csv_texts(source: SourceFile) -> pa.Table:
    """Return all columns of a file as text, null where nothing stands; rows that fit its header.

    Raises: InvalidRequest for a file without header.
    """
    data = read_text(source)
    header, body = header_of(source, data)
    table, _ = _parse(source, data[body:], header)
    return table


def line_starts(data: bytes) -> Starts:
    """Return where each record that is not blank begins, in bytes; the header is the first.

    A line break ends a record when the quotes before it are balanced. That is what the parser
    does, unless a quote stands inside an unquoted field (then `slow_line_starts` is right).
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
    """Return the same as `line_starts`, for any file, a record at a time, as the parser reads it.

    A quote opens only at the beginning of a field; what stands behind the closing one is text. A
    lone carriage return ends a record, too.
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


class _Lines:
    """The lines of a text with their ends, and how far they were taken."""

    def __init__(self, text: str) -> None:
        self.position = 0
        self._text = text

    def __iter__(self) -> "_Lines":
        return self

    def taken(self) -> str:
        """Return what was given out so far."""
        return self._text[: self.position]

    def __next__(self) -> str:
        if self.position >= len(self._text):
            raise StopIteration
        start, end = self.position, self._text.find("\n", self.position) + 1
        self.position = end or len(self._text)
        return self._text[start : self.position]


def header_of(source: SourceFile, data: bytes) -> tuple[list[str], int]:
    """Return the names in the header and where the next record begins."""
    try:
        lines = _Lines(data[:HEADER_BYTES].decode("utf-8", errors="surrogateescape"))
        for record in csv.reader(lines, delimiter=source.dialect.delimiter):
            if record:
                text = lines.taken()
                return record, len(text.encode("utf-8", errors="surrogateescape"))
    except csv.Error as error:
        raise InvalidRequest(
            "not a readable CSV header", file=source.name, line=1, reason=str(error)
        ) from error
    raise InvalidRequest(
        "the file is empty: it has no header",
        file=source.name, cure="give it a header, or remove it",
    )  # fmt: skip


def _check_quotes(source: SourceFile, data: bytes) -> None:
    """Refuse a file whose last quote is never closed: the parser would swallow the rest."""
    records = CsvRecords(source.dialect.delimiter)
    last, lines, _ = records.take(data)
    if records.open():
        raise InvalidRequest(
            "a quoted field never ends",
            file=source.name, line=source.before + lines + 1,
            value=data[last : last + SHOWN].decode(errors="backslashreplace"),
            cure="close the quote; a quote inside quotes is doubled",
        )  # fmt: skip


def _parse(
    source: SourceFile, body: bytes, header: Sequence[str]
) -> tuple[pa.Table, list[pacsv.InvalidRow]]:
    """Return all fields as bytes, and the rows left out because of their number of fields."""
    invalid: list[pacsv.InvalidRow] = []

    def skip(row: pacsv.InvalidRow) -> str:
        invalid.append(row)
        return "skip"

    if not is_utf8(body):  # Arrow forgets a row with too many fields if it is no UTF-8
        return _parse_bytes(source, body, header)
    kinds = {name: pa.binary() for name in header}
    if not body.strip(b"\r\n"):
        return pa.table({name: pa.array([], kind) for name, kind in kinds.items()}), []
    block = max(MIN_BLOCK_BYTES, min(len(body) + 1, BLOCK_BYTES))
    try:
        table = pacsv.read_csv(
            pa.BufferReader(body),
            # One thread: tasks run side by side, and rows get their numbers only so.
            pacsv.ReadOptions(use_threads=False, block_size=block, column_names=list(header)),
            pacsv.ParseOptions(
                delimiter=source.dialect.delimiter,
                newlines_in_values=True,
                invalid_row_handler=skip,
            ),
            pacsv.ConvertOptions(
                check_utf8=False,
                column_types=kinds,
                null_values=list(source.dialect.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise InvalidRequest(
            "not readable as CSV", file=source.name, reason=str(error), cure="check source.format"
        ) from error
    return table, invalid


def _parse_bytes(
    source: SourceFile, body: bytes, header: Sequence[str]
) -> tuple[pa.Table, list[pacsv.InvalidRow]]:
    """Return the same of a text that is no UTF-8: each byte is parsed as a character.

    Cost: the fields as Python objects.
    """
    nulls = tuple(word.encode().decode("latin-1") for word in source.dialect.nulls)
    spelt = replace(source, dialect=replace(source.dialect, nulls=nulls))
    table, invalid = _parse(spelt, body.decode("latin-1").encode(), header)
    columns = [
        pa.array([v and v.decode().encode("latin-1") for v in column.to_pylist()], pa.binary())
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, table.column_names), invalid


def _located(source: SourceFile, data: bytes, records: Sequence[int], total: int) -> list[Located]:
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


def _malformed(source: SourceFile, row: pacsv.InvalidRow, where: Located) -> Reject:
    reason = f"{row.actual_columns} fields where the header has {row.expected_columns}"
    return Reject(source.name, where[0], None, None, reason, where[1])


def _shown(values: Raw, row: int) -> str | None:
    value = values[row].as_py()
    return None if value is None else value.decode(errors="backslashreplace")
