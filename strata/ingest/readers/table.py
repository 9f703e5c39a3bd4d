"""Presents an Arrow table as the rows of a source file; there are no lines, only rows."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile
from strata.ingest.readers.cures import VARIANT, Problem, is_variant
from strata.ingest.readers.guess import Guess, guess_arrow, has_no_form
from strata.ingest.readers.kept import convert, keep_row, shown_raw
from strata.ingest.readers.rejects import SHOWN
from strata.ingest.readers.source import Located, RawFile, check_columns
from strata.ingest.values.cast import Rows
from strata.ingest.values.shown import clean, json_text, plain_row
from strata.updates.order import one_chunk

DAMAGED: Final = (pa.ArrowException, OSError, MemoryError, ValueError)  # of a damaged file
UNREADABLE: Final = "check source.format; if it is right, fetch the file again: it is damaged"
PART_BYTES: Final = 32 << 20  # in memory, for rows that are read at once
WHOLE_BYTES: Final = 256 << 20  # decoded: a whole file up to this size is read at once
SEVERAL: Final = "it has values of several types (a union)"
OTHER_KEYS: Final = "it has a map whose keys are no texts"
_TEXT_KEYS: Final = "write the keys as texts, or a list of structs; or leave it out of the file"
NO_NAMES: Final = "it has bytes or spans of time in a struct whose fields no record can name"
_OTHER_NAMES: Final = "give fields names without : , < > that differ in more than capital letters"
_A_COLUMN_EACH: Final = "write a column, or a field, for each type; or leave it out of the file"


def groups_of(source: SourceFile, count: int) -> range:
    """Return the row groups or stripes of a file or piece."""
    piece = source.piece
    return range(count) if piece is None or piece.whole else range(piece.start, piece.stop)


def raw_table(
    source: SourceFile,
    table: pa.Table,
    names: Sequence[str],
    optional: Collection[str] = (),
    *,
    before: int = 0,
    whole: bool = True,
) -> RawFile:
    """Return the rows of a table as the rows of a file, or as some of them.

    Raises: InvalidRequest if a column of the file's schema was not read, as happens with structs
    without fields.
    """
    check_columns(source.name, table.column_names, names, optional=optional)

    def locate(rows: Rows) -> list[Located]:
        texts = [json_text(plain_row(table, row)) for row in rows.tolist()]
        return [(int(row) + before + 1, text) for row, text in zip(rows, texts, strict=True)]

    there = set(table.column_names)
    return RawFile(
        file=source.name,
        count=table.num_rows,
        columns={name: one_chunk(table.column(name)) for name in names if name in there},
        convert=convert,
        shown=shown_raw,
        locate=locate,
        number=source.number,
        keep=keep_row,
        before=before,
        whole=whole,
    )


def check_count(source: SourceFile, found: int, wanted: int) -> None:
    """Refuse a file if a library returns another number of rows than its metadata say.

    Arrow ends silently where it finds no more values of one column.
    Raises: InvalidRequest.
    """
    if found != wanted:
        raise InvalidRequest(
            "the file's pages hold another number of rows than its metadata say",
            file=source.name,
            rows=found,
            wanted=wanted,
            cure="write it anew, with another library or with larger pages",
        )


def guess_schema(file: str, schema: pa.Schema) -> tuple[Mapping[str, Guess], int]:
    """Return a type for each column of a schema; no row is examined.

    Raises: InvalidRequest for what every ingest refuses: a name that stands twice, a column
    whose values no reading takes in.
    """
    check_columns(file, schema.names, schema.names)
    for field in schema:
        _check_readable(file, field)
    return {field.name: (guess_arrow(field.type), True) for field in schema}, 0


def _check_readable(file: str, column: pa.Field) -> None:
    """Refuse a column whose values no reading takes in. Raises: InvalidRequest."""
    if _has_union(column.type):
        raise _unreadable(file, column, SEVERAL, _A_COLUMN_EACH)
    if _has_other_keys(column.type):
        raise _unreadable(file, column, OTHER_KEYS, _TEXT_KEYS)
    if is_variant(column.type):
        raise _unreadable(file, column, VARIANT, Problem.VARIANT.value)
    check_form(file, column)


def check_form(file: str, column: pa.Field) -> None:
    """Refuse a column for which no type can be declared. Raises: InvalidRequest."""
    if has_no_form(column.type):
        raise _unreadable(file, column, NO_NAMES, _OTHER_NAMES)


def _unreadable(file: str, column: pa.Field, reason: str, cure: str) -> InvalidRequest:
    return InvalidRequest(
        "no value of a column can be read",
        file=file,
        column=clean(column.name),
        type=str(column.type)[:SHOWN],
        reason=reason,
        cure=cure,
    )


def _has_union(kind: pa.DataType) -> bool:
    inner = (kind.field(n).type for n in range(kind.num_fields))
    return pa.types.is_union(kind) or any(map(_has_union, inner))


def _has_other_keys(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind) and guess_arrow(kind.key_type) != "string":
        return True
    return any(_has_other_keys(kind.field(n).type) for n in range(kind.num_fields))
