"""Read Parquet and ORC files: columns by name, cast without loss; there are no lines, only rows."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as po
import pyarrow.parquet as pq

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, open_file
from strata.ingest.readers.kept import convert, keep_row, shown_raw
from strata.ingest.readers.source import Located, RawFile, check_columns
from strata.ingest.readers.spread import gathered, spread
from strata.ingest.values.cast import Rows
from strata.ingest.values.shown import json_text, plain_row
from strata.updates.order import one_chunk

DAMAGED: Final = (pa.ArrowException, OSError, MemoryError, ValueError)  # of a damaged file
PART_BYTES: Final = 32 << 20  # of decoded rows that are read at once
ORC_ROWS: Final = 512  # that are read at once, however large they are
WHOLE_BYTES: Final = 256 << 20  # decoded: up to so many, a file that is no piece is read at once


def read_parquet(
    source: SourceFile, names: Sequence[str], optional: Collection[str] = ()
) -> Iterator[RawFile]:
    """Yield the columns `names` of a file or piece; `locate` counts rows from 1 in place of lines.

    Those that are `optional` may be missing. What is large when it is decoded comes in parts.

    Raises: InvalidRequest for a file that is no Parquet or whose columns are not the declared.
    Cost: memory of up to WHOLE_BYTES, and a page of each column.
    """
    with parquet_file(source) as file:
        check_columns(source.name, file.schema_arrow.names, names, optional=optional)
        metadata, before = file.metadata, source.before
        groups = list(_groups(source, metadata.num_row_groups))
        takes = spread(source.name, metadata, groups, partial(_texts_of, source), WHOLE_BYTES)
        if source.is_whole and takes.total <= WHOLE_BYTES:
            yield raw_table(source, file.read(), names, optional)
            return
        rows = max(1, sum(metadata.row_group(n).num_rows for n in groups))
        # On average a part; where some rows are far larger than others, never more than a whole.
        some = min(rows * PART_BYTES // max(takes.total, 1), WHOLE_BYTES // max(takes.largest, 1))
        for batch in file.iter_batches(batch_size=max(1, some), row_groups=groups):
            table = pa.Table.from_batches([batch])
            yield raw_table(source, table, names, optional, before=before, whole=False)
            before += table.num_rows


def _texts_of(source: SourceFile, texts: list[str]) -> AbstractContextManager[Any]:
    """Return a Parquet file whose texts are dictionaries, to be opened."""
    return parquet_file(source, read_dictionary=texts)


def read_orc(
    source: SourceFile, names: Sequence[str], optional: Collection[str] = ()
) -> Iterator[RawFile]:
    """Yield the columns `names`; otherwise as `read_parquet`.

    A file that is whole is read by a few rows at a time, since a text that repeats takes no room in
    it. Of a piece a stripe is held.
    """
    with orc_file(source) as file:
        check_columns(source.name, file.schema.names, names, optional=optional)
        before, rows = source.before, file.nrows
        stripes = _groups(source, file.nstripes)
        if source.is_whole:
            found = _few_rows_at_a_time(source, file.schema)
        else:
            found = (pa.Table.from_batches([file.read_stripe(number)]) for number in stripes)
        for table in found:
            whole = source.is_whole and table.num_rows == rows
            yield raw_table(source, table, names, optional, before=before, whole=whole)
            before += table.num_rows


def _few_rows_at_a_time(source: SourceFile, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of an ORC file: up to WHOLE_BYTES as one table, more in PART_BYTES each."""
    with open_file(source) as stream:
        fragment = ds.OrcFileFormat().make_fragment(stream)
        batches = fragment.to_batches(batch_size=ORC_ROWS, batch_readahead=0, use_threads=False)
        yield from gathered(batches, schema, WHOLE_BYTES, PART_BYTES)


def _groups(source: SourceFile, count: int) -> range:
    """Return the row groups or stripes of a file or piece."""
    piece = source.piece
    return range(count) if piece is None or piece.whole else range(piece.start, piece.stop)


@contextmanager
def parquet_file(source: SourceFile, **options: Any) -> Iterator[Any]:
    """Open a Parquet file, with options of `ParquetFile`.

    Raises: InvalidRequest for what is no Parquet file, also while it is read.
    """
    try:
        with open_file(source) as stream, pq.ParquetFile(stream, **options) as file:
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
