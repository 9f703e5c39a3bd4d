"""Reads ORC files: columns by name, cast without loss; a row has a number instead of a line."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as po

from strata.errors import InvalidRequest
from strata.ingest.land.files import FileRange, SourceFile, open_file
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import grouped
from strata.ingest.readers.formats.interface import Format
from strata.ingest.readers.guess import Guess
from strata.ingest.readers.source import RawFile, check_columns
from strata.ingest.readers.spread import gathered
from strata.ingest.readers.table import (
    DAMAGED,
    PART_BYTES,
    WHOLE_BYTES,
    groups_of,
    guess_schema,
    raw_table,
)

ORC_ROWS: Final = 512  # read at once, however large they are


def read_orc(
    source: SourceFile, names: Sequence[str], optional: Collection[str] = ()
) -> Iterator[RawFile]:
    """Yield the columns `names`; otherwise as `read_parquet`.

    A whole file is read a few rows at a time, because a repeated text takes no room in it. For a
    piece, one stripe is held.
    """
    with orc_file(source) as file:
        check_columns(source.name, file.schema.names, names, optional=optional)
        before, rows = source.before, file.nrows
        stripes = groups_of(source, file.nstripes)
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


@contextmanager
def orc_file(source: SourceFile) -> Iterator[Any]:
    """Open an ORC file. Raises: InvalidRequest if it is not ORC, also while it is read."""
    try:
        with open_file(source) as stream:
            yield po.ORCFile(stream)
    except DAMAGED as error:
        raise InvalidRequest(
            "not a readable ORC file",
            file=source.name,
            reason=str(error),
            cure="check source.format",
        ) from error


class Orc(Format):
    """ORC files."""

    suffixes = (".orc",)

    def read(self, file: SourceFile, columns: SourceColumns) -> Iterator[RawFile]:
        """See `Format`."""
        return read_orc(file, columns.names, columns.optional)

    def ranges(self, file: SourceFile, size_bytes: int) -> Sequence[FileRange]:
        """See `Format`: stripes, assumed to be of equal size; a column gives their rows."""
        with orc_file(file) as opened:
            column, stripes = opened.schema.names[:1], max(1, opened.nstripes)
            sizes = [
                (file.size_bytes // stripes, opened.read_stripe(n, columns=column).num_rows)
                for n in range(opened.nstripes)
            ]
        return grouped(sizes, size_bytes)

    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """See `Format`."""
        with open_file(file) as stream:
            return guess_schema(po.ORCFile(stream).schema)


FORMAT = Orc()
