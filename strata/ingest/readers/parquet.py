"""Read Parquet and ORC files: columns by name, cast without loss; there are no lines, only rows."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, open_file
from strata.ingest.readers.kept import convert, keep_row, shown_raw
from strata.ingest.readers.source import Located, RawFile, check_columns
from strata.ingest.values.cast import Rows
from strata.ingest.values.shown import json_text, plain_row
from strata.updates.order import one_chunk

DAMAGED: Final = (pa.ArrowException, OSError, MemoryError, ValueError)  # of a damaged file
PART_BYTES: Final = 32 << 20  # of decoded rows that are read at once
WORD_BYTES: Final = 8
WHOLE_BYTES: Final = 256 << 20  # decoded: up to so many, a file that is no piece is read at once


def read_parquet(
    source: SourceFile, names: Sequence[str], optional: Collection[str] = ()
) -> Iterator[RawFile]:
    """Yield the columns `names` of a file or piece; `locate` counts rows from 1 in place of lines.

    Those that are `optional` may be missing. What is large when it is decoded comes in parts.

    Raises: InvalidRequest for a file that is no Parquet or whose columns are not the declared.
    Cost: about PART_BYTES, or a whole file of up to WHOLE_BYTES, and a page of each column.
    """
    with parquet_file(source) as file:
        check_columns(source.name, file.schema_arrow.names, names, optional=optional)
        groups = _groups(source, file.metadata.num_row_groups)
        sizes = [file.metadata.row_group(n) for n in groups]
        # What repeats takes no room in the file: a value is at least a word in memory.
        cells = sum(group.num_rows for group in sizes) * len(file.schema_arrow.names)
        decoded = max(sum(group.total_byte_size for group in sizes), cells * WORD_BYTES)
        if source.is_whole and decoded <= WHOLE_BYTES:
            yield raw_table(source, file.read(), names, optional)
            return
        before = source.before
        rows = sum(group.num_rows for group in sizes)
        some = max(1, rows * PART_BYTES // max(decoded, 1))
        for batch in file.iter_batches(batch_size=some, row_groups=list(groups)):
            table = pa.Table.from_batches([batch])
            yield raw_table(source, table, names, optional, before=before, whole=False)
            before += table.num_rows


def read_orc(
    source: SourceFile, names: Sequence[str], optional: Collection[str] = ()
) -> Iterator[RawFile]:
    """Yield the columns `names`, of a piece stripe by stripe; otherwise as `read_parquet`."""
    with orc_file(source) as file:
        check_columns(source.name, file.schema.names, names, optional=optional)
        if source.is_whole and source.size_bytes <= WHOLE_BYTES:
            yield raw_table(source, file.read(), names, optional)
            return
        before = source.before
        for number in _groups(source, file.nstripes):
            table = pa.Table.from_batches([file.read_stripe(number)])
            yield raw_table(source, table, names, optional, before=before, whole=False)
            before += table.num_rows


def _groups(source: SourceFile, count: int) -> range:
    """Return the row groups or stripes of a file or piece."""
    piece = source.piece
    return range(count) if piece is None or piece.whole else range(piece.start, piece.stop)


@contextmanager
def parquet_file(source: SourceFile) -> Iterator[Any]:
    """Open a Parquet file. Raises: InvalidRequest for what is none, also while it is read."""
    try:
        with open_file(source) as stream, pq.ParquetFile(stream) as file:
            yield file
    except DAMAGED as error:
        raise InvalidRequest(
            "not a readable Parquet file",
            file=source.name, reason=str(error), cure="check source.format",
        ) from error  # fmt: skip


@contextmanager
def orc_file(source: SourceFile) -> Iterator[Any]:
    """Open an ORC file. Raises: InvalidRequest for what is none, also while it is read."""
    try:
        with open_file(source) as stream:
            yield po.ORCFile(stream)
    except DAMAGED as error:
        raise InvalidRequest(
            "not a readable ORC file",
            file=source.name, reason=str(error), cure="check source.format",
        ) from error  # fmt: skip


def raw_table(
    source: SourceFile,
    table: pa.Table,
    names: Sequence[str],
    optional: Collection[str] = (),
    *,
    before: int = 0,
    whole: bool = True,
) -> RawFile:
    """Return the rows of a table as those of a file, or as some of them.

    Raises: InvalidRequest where a column that the file's schema has is not read: one of structs
    without fields holds nothing.
    """
    check_columns(source.name, table.column_names, names, optional=optional)

    def locate(rows: Rows) -> list[Located]:
        texts = [json_text(plain_row(table, row)) for row in rows.tolist()]
        return [(int(row) + before + 1, text) for row, text in zip(rows, texts, strict=True)]

    return RawFile(
        file=source.name,
        count=table.num_rows,
        columns={
            name: one_chunk(table.column(name)) for name in names if name in table.column_names
        },
        convert=convert,
        shown=shown_raw,
        locate=locate,
        number=source.number,
        keep=keep_row,
        before=before,
        whole=whole,
    )
