"""Rows as answers: a table of the first ones, or all of them as CSV, JSON, Parquet or Arrow.

Texts for people and for CSV and JSON show times as ISO 8601, nested values as JSON and bytes as
hexadecimal digits behind a backslash and x. Parquet and Arrow hold the values as they are. CSV has
each text as it is; the format `spreadsheet` is CSV in which no text is a formula, for those who
open it in such a program.
"""

import csv
import io
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from strata.cli.tables import Table
from strata.cli.visible import shown_time
from strata.errors import InvalidRequest
from strata.format.values.beyond import python_values
from strata.model.near import one_of
from strata.model.shown import as_json_value, visible
from strata.store.whole_file import written_whole

FIRST: Final = 20  # rows of a table without --limit
FORMATS: Final = ("table", "csv", "spreadsheet", "json", "parquet", "arrow")
BINARY: Final = ("parquet", "arrow")
SUFFIXES: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
}
TIME: Final = "t"  # the last column but one of every read
_LIKE_NULL: Final = ("", "NA")  # texts that sources of CSV take for null where they are not quoted
_QUOTED: Final = frozenset('",\r\n')
# A spreadsheet runs a text that begins so as a formula; some do so behind blanks
_FORMULA: Final = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_NUMBER: Final = re.compile(r"[-+]?\d+(\.\d+)?(E[-+]?\d+)?", re.ASCII)  # such as a decimal
_TEXT_ROWS: Final = 1024  # rows that become text at a time

Batches = Iterator[pa.RecordBatch]
Sink = Callable[[pa.RecordBatch], None]


@dataclass(frozen=True)
class Output:
    """What a reader wants of the rows."""

    format: str | None = None
    limit: int | None = None  # 0: all
    count: bool = False
    out: Path | None = None
    document_only: bool = False  # --json

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.format is not None and self.format not in FORMATS:
            cure = one_of(self.format, FORMATS)
            raise InvalidRequest("unknown format", format=self.format, cure=cure)
        if self.count and (self.out is not None or self.format is not None):
            raise InvalidRequest("--count prints a number", cure="drop --format and --out")
        if self.document_only and self.format not in (None, "table") and self.out is None:
            raise InvalidRequest(
                "--json and --format both want standard output",
                cure="drop --json, or name a file with --out",
            )
        if self.out is not None and self.kind == "table":
            raise InvalidRequest(
                "a table is for a terminal",
                cure="--format csv, spreadsheet, json, parquet or arrow",
            )
        if self.out is None and self.kind in BINARY and sys.stdout.isatty():
            raise InvalidRequest(
                f"{self.kind} is not for a terminal", cure="--out FILE, or send it into a pipe"
            )

    @property
    def kind(self) -> str:
        """Return the format: as given, else that of the file's name, else Parquet or a table."""
        if self.format is not None:
            return self.format
        if self.out is None:
            return "table"
        return SUFFIXES.get(self.out.suffix.lower(), "parquet")

    @property
    def shows_table(self) -> bool:
        """Return whether the answer is a table of rows."""
        return self.out is None and self.kind == "table" and not (self.count or self.document_only)

    @property
    def rows_max(self) -> int | None:
        """Return how many rows are needed: of a table one more, to know of it. None: all."""
        if self.shows_table:
            shown = FIRST if self.limit is None else self.limit
            return shown + 1 if shown else None
        return self.limit or None

    def write(self, batches: Batches, schema: pa.Schema) -> int:
        """Write rows where they are wanted, if anywhere, and return how many there were."""
        rows = first(batches, self.rows_max)
        if self.out is not None:
            return _to_file(rows, schema, self.out, self.kind)
        if self.count or self.document_only:
            return sum(batch.num_rows for batch in rows)
        return _written(rows, schema, sys.stdout.buffer, self.kind, safe=sys.stdout.isatty())

    def table(self, batches: Batches, schema: pa.Schema) -> tuple[Table, bool]:
        """Return the first rows as a table, and whether there are more."""
        most = self.rows_max
        lines = [line for batch in first(batches, most) for line in _texts(batch)]
        shown = lines if most is None else lines[: most - 1]
        table = Table("", tuple(schema.names), tuple(map(tuple, shown)), data=True)
        return table, len(lines) > len(shown)


def first(batches: Batches, rows: int | None) -> Batches:
    """Yield at most `rows` rows, and ask for no batch after them. None: all."""
    left = math.inf if rows is None else rows
    if left <= 0:
        return
    for batch in batches:
        taken = batch if batch.num_rows <= left else batch.slice(0, int(left))
        left -= taken.num_rows
        yield taken
        if left <= 0:
            return


def _to_file(batches: Batches, schema: pa.Schema, out: Path, kind: str) -> int:
    """Write rows to a file, all or nothing."""
    with written_whole(out, "the output") as file:
        return _written(batches, schema, file, kind, safe=False)


def _written(batches: Batches, schema: pa.Schema, file: IO[bytes], kind: str, *, safe: bool) -> int:
    rows = 0
    with _SINKS[kind](file, schema, safe) as sink:
        for batch in batches:
            sink(batch)
            rows += batch.num_rows
    with suppress(ValueError):  # closed by its writer
        file.flush()
    return rows


@contextmanager
def _parquet(file: IO[bytes], schema: pa.Schema, safe: bool) -> Iterator[Sink]:
    with pq.ParquetWriter(pa.PythonFile(file, "w"), schema, compression="zstd") as writer:
        yield writer.write_batch


@contextmanager
def _arrow(file: IO[bytes], schema: pa.Schema, safe: bool) -> Iterator[Sink]:
    with pa.ipc.new_stream(file, schema) as writer:
        yield writer.write_batch


@contextmanager
def _spreadsheet(file: IO[bytes], schema: pa.Schema, safe: bool) -> Iterator[Sink]:
    with _csv(file, schema, safe, formulas=False) as sink:
        yield sink


@contextmanager
def _csv(
    file: IO[bytes], schema: pa.Schema, safe: bool, *, formulas: bool = True
) -> Iterator[Sink]:
    def send(lines: Iterator[list[Any]] | list[list[Any]]) -> None:
        text = io.StringIO()
        plain_lines = csv.writer(text, lineterminator="\n")
        for values in lines:
            line = values if formulas else list(map(_no_formula, values))
            # Of what ends a line, Python's writer quotes only its own.
            if any(one in _LIKE_NULL or "\r" in one for one in line if isinstance(one, str)):
                text.write(",".join(map(_field, line)) + "\n")
            else:
                plain_lines.writerow(line)
        file.write(_safe(text.getvalue(), safe).encode())

    send([schema.names])
    yield lambda batch: send(_texts(batch))


def _field(value: Any) -> str:
    """Return a field of CSV: null is nothing, and a text that looks like null is quoted.

    >>> [_field(value) for value in (None, "", "NA", 'a"b', 1.5)]
    ['', '""', '"NA"', '"a""b"', '1.5']
    """
    if not isinstance(value, str):
        return "" if value is None else str(value)
    if value in _LIKE_NULL or not _QUOTED.isdisjoint(value):
        return '"' + value.replace('"', '""') + '"'
    return value


def _no_formula(value: Any) -> Any:
    """Return a text that a spreadsheet would run behind an apostrophe; other values as they are.

    >>> [_no_formula(value) for value in ("=1+1", " @x", "-1+1", "a=b", "-1.50", -1, None)]
    ["'=1+1", "' @x", "'-1+1", 'a=b', '-1.50', -1, None]
    """
    if not isinstance(value, str) or not value.lstrip(" ").startswith(_FORMULA):
        return value
    return value if _NUMBER.fullmatch(value) else f"'{value}"


@contextmanager
def _json(file: IO[bytes], schema: pa.Schema, safe: bool) -> Iterator[Sink]:
    def send(batch: pa.RecordBatch) -> None:
        lines = (
            orjson.dumps(dict(zip(schema.names, values, strict=True)), default=str).decode()
            for values in _values(batch)
        )
        for some in iter(lambda: list(islice(lines, _TEXT_ROWS)), []):
            file.write(_safe("".join(f"{line}\n" for line in some), safe, json=True).encode())

    yield send


_SINKS: Final = {
    "parquet": _parquet,
    "arrow": _arrow,
    "csv": _csv,
    "spreadsheet": _spreadsheet,
    "json": _json,
}


def _safe(text: str, safe: bool, *, json: bool = False) -> str:
    """Return text as a terminal may have it."""
    if not safe:
        return text
    return safe_json(text) if json else visible(text, lines=True)


def safe_json(text: str) -> str:
    """Return JSON lines in which characters that are not printable are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    """Return a character as JSON escapes it."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _texts(batch: pa.RecordBatch) -> Iterator[list[Any]]:
    """Yield rows as texts and numbers; null is None."""
    for values in _values(batch):
        yield [
            orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
            if isinstance(value, dict | list)
            else value
            for value in values
        ]


def _values(batch: pa.RecordBatch) -> Iterator[list[Any]]:
    """Yield rows as values of JSON."""
    names = batch.schema.names
    for start in range(0, batch.num_rows, _TEXT_ROWS):
        some = batch.slice(start, _TEXT_ROWS)
        columns = [
            [
                shown_time(value) if name == TIME and at == len(names) - 2 else as_json_value(value)
                for value in python_values(some.column(at))
            ]
            for at, name in enumerate(names)
        ]
        yield from (list(row) for row in zip(*columns, strict=True))
