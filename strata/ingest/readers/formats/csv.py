"""Reads CSV: columns by name, fields as text. A header has the names, or the source declares them.

Commas, or the declared delimiter, separate fields. The quote is `"`, doubled inside quotes; a
quoted field may contain line breaks. Blank lines are skipped. An unquoted field is null if it is
empty or NA, or one of the declared texts; quoted fields are text, unless the type of their column
has none. A row with more or fewer fields
than the header is malformed.

Arrow parses; `csv_lines` finds the line of a row again, only when a row is rejected.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import StringIO
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from strata.errors import InvalidRequest
from strata.ingest.land.files import BOM, SourceFile, read_text
from strata.ingest.land.recode import said_header, shown_text
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.csv_checks import (
    check_delimiter,
    check_escapes,
    check_quotes,
    check_swallowed,
    delimiter_of,
    header_of,
)
from strata.ingest.readers.csv_doubts import (
    WORDS,
    doubted_backslashes,
    doubted_file,
    doubted_nulls,
    doubted_numbers,
    doubted_rows,
    null_words,
)
from strata.ingest.readers.csv_ends import ONE_MORE, field_names, without_end
from strata.ingest.readers.csv_lines import located_records
from strata.ingest.readers.file_ranges import TextFormat
from strata.ingest.readers.found_numerals import (
    Marks,
    doubted_marks,
    marks_of,
    plainly_written,
)
from strata.ingest.readers.guess import ROWS, Guess, guess_texts, without_words
from strata.ingest.readers.json_table import is_utf8
from strata.ingest.readers.records import CsvRecords, Ends
from strata.ingest.readers.rejects import Reject, details
from strata.ingest.readers.source import WRONG_SHAPE_ROWS, Located, Raw, RawFile, check_columns
from strata.ingest.values.cast import Cast, Rows, from_text
from strata.ingest.values.numerals import from_marked
from strata.model.spec import POINT
from strata.model.types import ColumnType
from strata.updates.order import one_chunk

BLOCK_BYTES: Final = 64 << 20  # a record may not be longer
MIN_BLOCK_BYTES: Final = 1 << 16
_BREAKS: Final = re.compile(rb"[\r\n]*+")


def read_csv(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return the columns `names` as text, and the rows that have the wrong number of fields.

    `optional` columns may be missing.

    Raises: InvalidRequest for a file whose header is not exactly the declared columns, whose
    quotes never end, end late, or are escaped by backslashes, or that has no row that fits the
    header.
    Cost: the file, or piece of it, in memory.
    """
    data = read_text(source)
    header, body = header_of(source, data)
    check_delimiter(source, data, header, names)
    check_columns(
        source.name, field_names(header), names, optional=optional, **_where_names_are(source)
    )
    check_quotes(source, data)
    check_escapes(source, data)
    check_swallowed(source, data)
    table, invalid = _parse(source, data[body:], header)
    reasons = {row.number - 1: _count(row) for row in invalid}  # by record after the header
    total = table.num_rows + len(reasons)
    table = without_end(source, data, table, reasons)
    skipped = sorted(reasons)
    lines = located_records(source, data, skipped, total)
    line = one_line(header, source.dialect.delimiter)
    encoding = source.dialect.encoding
    malformed = [
        Reject(source.name, at, None, None, reasons[one], text, said_header(line, text, encoding))
        for one, (at, text) in zip(skipped, lines, strict=True)
    ]
    if source.is_whole and not table.num_rows and len(malformed) >= WRONG_SHAPE_ROWS:
        raise InvalidRequest(
            "no row of the file fits its header",
            **details(malformed[0]),
            cure=ONE_MORE
            if invalid and all(row.actual_columns == len(header) + 1 for row in invalid)
            else "quoted with double quotes; check source.format and source.delimiter",
        )

    def locate(rows: Rows) -> list[Located]:
        records = np.delete(np.arange(total), skipped)
        return located_records(source, data, records[rows].tolist(), total)

    there = set(table.column_names)
    return RawFile(
        file=source.name,
        count=table.num_rows,
        columns={name: one_chunk(table.column(name)) for name in names if name in there},
        convert=_convert(source.dialect),
        shown=partial(_shown, encoding=encoding),
        locate=locate,
        malformed=malformed,
        header=line,
        nulls=source.dialect.nulls,
        encoding=encoding,
    )


def _where_names_are(source: SourceFile) -> dict[str, Any]:
    return {"line": 1} if source.has_header else {"by_source": True}


def _convert(dialect: Dialect) -> Callable[[Raw, ColumnType], Cast]:
    """Return what types fields: numbers by the marks that the dialect has."""
    if (dialect.decimal, dialect.thousands) == (POINT, ""):
        return from_text
    return partial(from_marked, decimal=dialect.decimal, thousands=dialect.thousands)


def one_line(header: Sequence[str], delimiter: str) -> str:
    """Return names as the header of a file."""
    text = StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="").writerow(header)
    return text.getvalue()


def csv_texts(source: SourceFile) -> pa.Table:
    """Return all columns of a file as text, empty fields as null, only rows that fit the header.

    Bytes that are not UTF-8 are replaced.

    Raises: InvalidRequest for a file without a header.
    """
    data = read_text(source)
    header, body = header_of(source, data)
    check_columns(source.name, field_names(header), field_names(header), **_where_names_are(source))
    rows = data[body:]
    if not is_utf8(rows):  # ingest rejects such rows; see `doubts`
        rows = rows.decode(errors="replace").encode()
    return _parse(source, rows, header)[0].select(range(len(field_names(header))))


def _parse(
    source: SourceFile, body: bytes, header: Sequence[str]
) -> tuple[pa.Table, list[pacsv.InvalidRow]]:
    """Return all fields as bytes, and the rows left out for their number of fields."""
    invalid: list[pacsv.InvalidRow] = []

    def skip(row: pacsv.InvalidRow) -> str:
        invalid.append(row)
        return "skip"

    if not is_utf8(body):  # Arrow forgets a row with too many fields if it is not UTF-8
        return _parse_bytes(source, body, header)
    kinds = {name: pa.binary() for name in header}
    if _is_blank(body):
        return pa.table({name: pa.array([], kind) for name, kind in kinds.items()}), []
    if body.startswith(BOM):
        body = BOM + body  # Arrow takes one for a mark, and here it is a letter of the first field
    if not body.endswith((b"\n", b"\r")):
        body += b"\n"  # Arrow takes an empty field at the very end for quoted, behind a quoted one
    block = max(MIN_BLOCK_BYTES, min(len(body) + 1, BLOCK_BYTES))
    try:
        table = pacsv.read_csv(
            pa.BufferReader(body),
            # One thread: tasks run in parallel anyway, and only so do rows get their numbers.
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
    """Return the same for a text that is not UTF-8: each byte is parsed as a character.

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


def _count(row: pacsv.InvalidRow) -> str:
    return f"{row.actual_columns} fields where the header has {row.expected_columns}"


def _is_blank(text: bytes) -> bool:
    """Return whether a text has nothing but line breaks."""
    blank = _BREAKS.match(text)
    return blank is not None and blank.end() == len(text)


def _shown(values: Raw, row: int, encoding: str) -> str | None:
    value = values[row].as_py()
    return None if value is None else shown_text(value, encoding)


def rows_as_texts(file: SourceFile, delimiter: str, rows: int) -> pa.Table:
    """Return the first rows as text; only empty fields are null."""
    dialect = replace(file.dialect, delimiter=delimiter, nulls=("",))
    return csv_texts(replace(file, dialect=dialect)).slice(0, rows)


def _columns(tables: Sequence[pa.Table], words: Collection[str]) -> dict[str, pa.Array]:
    """Return the texts of each column in some files, those that mean null as null."""
    found: dict[str, list[pa.Array]] = {}
    for table in tables:
        for name in table.column_names:
            found.setdefault(name, []).append(without_words(table[name], words))
    return {name: pa.concat_arrays(arrays) for name, arrays in found.items()}


def _plainly(table: pa.Table, marks: Marks) -> pa.Table:
    """Return a table of texts with its numbers written with a point."""
    texts = [column.combine_chunks().cast(pa.string()) for column in table.columns]
    plain = [plainly_written(one, marks, ("", *WORDS)) for one in texts]
    return pa.Table.from_arrays(plain, table.column_names)


class Csv(TextFormat):
    """CSV; a range of it begins with the header of the file."""

    suffixes = (".csv", ".tsv")
    row_text = "csv"
    joins = True
    untyped = "string"

    def rows(self, part: SourceFile, columns: SourceColumns) -> RawFile:
        """See `TextFormat`."""
        return read_csv(part, columns.names, columns.optional)

    def ends(self, dialect: Dialect, *, within: bool) -> Ends:
        """See `TextFormat`."""
        return CsvRecords(dialect.delimiter)

    def header(self, file: SourceFile, text: bytes) -> bytes:
        """See `TextFormat`."""
        text = text.removeprefix(BOM)
        return text[: header_of(file, text)[1]]

    def waits(self, records: bytes) -> bool:
        """See `TextFormat`: the records are only blank lines."""
        return _is_blank(records.removeprefix(BOM))

    def head(self, file: SourceFile, size_bytes: int) -> SourceFile:
        """See `Format`: its delimiter says where a quote may open."""
        dialect = replace(file.dialect, delimiter=delimiter_of(file))
        return super().head(replace(file, dialect=dialect), size_bytes)

    def dialect(self, files: Sequence[SourceFile]) -> Dialect:
        """See `Format`: the first file's delimiter, and all null words that any file has."""
        delimiter = delimiter_of(files[0])
        tables = [rows_as_texts(file, delimiter, ROWS) for file in files]
        marks = marks_of(_columns(tables, ("", *WORDS)).values())
        words = set[str]().union(*(null_words(_plainly(table, marks)) for table in tables))
        marked = replace(files[0].dialect, decimal=marks[0], thousands=marks[1])
        return replace(marked, delimiter=delimiter, nulls=("", *sorted(words)))

    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """See `Format`."""
        marks = file.dialect.decimal, file.dialect.thousands
        table = _plainly(rows_as_texts(file, file.dialect.delimiter, ROWS), marks)
        nulls = file.dialect.nulls
        found = {n: guess_texts(without_words(table[n], nulls)) for n in table.column_names}
        return found, table.num_rows

    def doubts(
        self, files: Sequence[SourceFile], dialect: Dialect | None, types: Mapping[str, str]
    ) -> Sequence[str]:
        """See `Format`: bytes that are no UTF-8, words that are null, numbers that are versions."""
        assert dialect is not None
        found: dict[str, None] = {}
        lost: Counter[tuple[str, str]] = Counter()
        marks = dialect.decimal, dialect.thousands
        tables = []
        for file in files:
            found |= dict.fromkeys(doubted_file(file, types))
            tables.append(rows_as_texts(file, dialect.delimiter, ROWS))
            found |= dict.fromkeys(doubted_rows(file, tables[-1]))
            marked = replace(file, dialect=dialect)
            found |= dict.fromkeys(doubted_backslashes(marked, tables[-1]))
            table = _plainly(tables[-1], marks)
            for name in table.column_names:
                texts = table[name].cast(pa.string())
                for note, count in doubted_nulls(texts, types[name], dialect.nulls):
                    lost[name, note] += count
                if types[name] in ("float64", "numeric"):
                    found |= dict.fromkeys(doubted_numbers(name, table[name]))
        nulls = [f"{name}: {note.format(count)}" for (name, note), count in lost.items()]
        columns = _columns(tables, dialect.nulls)
        return (*nulls, *found, *doubted_marks(columns, types, marks))

    def joined(self, texts: Sequence[bytes], dialect: Dialect) -> bytes | None:
        """See `Format`: a header that is one line, and records that end where their text does."""
        if dialect.header:
            return _joined_records(texts, dialect)
        header, _, _ = texts[0].partition(b"\n")
        if not header.strip() or header.startswith(BOM) or not _ends(header + b"\n", dialect):
            return None
        bodies = []
        for text in texts:
            first, _, body = text.partition(b"\n")
            body = _ended(body)
            if first != header or _has_lone_returns(text) or not _ends(body, dialect):
                return None
            bodies.append(body)
        return b"\n".join([header, b"".join(bodies)])


def _joined_records(texts: Sequence[bytes], dialect: Dialect) -> bytes | None:
    """Return the records of files without headers as one text; None: each is read by itself."""
    bodies = [_ended(text) for text in texts]
    for body in bodies:
        if body.startswith(BOM) or _has_lone_returns(body) or not _ends(body, dialect):
            return None
    return b"".join(bodies)


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") or not text else text + b"\n"


def _has_lone_returns(text: bytes) -> bool:
    return b"\r" in text and text.count(b"\r") > text.count(b"\r\n")


def _ends(text: bytes, dialect: Dialect) -> bool:
    """Return whether a text with a line break at its end has no quote that is open there."""
    if b'"' not in text:
        return True
    records = CsvRecords(dialect.delimiter)
    return records.take(text)[0] == len(text)


FORMAT = Csv()
