"""Read Parquet files: columns by name, cast without loss; a row has a number in place of a line."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import InvalidRequest
from strata.ingest.land.files import FileRange, SourceFile, open_file
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import grouped
from strata.ingest.readers.formats.interface import Format
from strata.ingest.readers.guess import Guess
from strata.ingest.readers.source import RawFile, check_columns
from strata.ingest.readers.table import DAMAGED, WHOLE_BYTES, groups_of, guess_schema, raw_table

PART_BYTES: Final = 32 << 20  # of decoded rows that are read at once
WORD_BYTES: Final = 8


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
        groups = groups_of(source, file.metadata.num_row_groups)
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


class Parquet(Format):
    """Parquet files."""

    suffixes = (".parquet",)

    def read(self, file: SourceFile, columns: SourceColumns) -> Iterator[RawFile]:
        """See `Format`."""
        return read_parquet(file, columns.names, columns.optional)

    def ranges(self, file: SourceFile, size_bytes: int) -> Sequence[FileRange]:
        """See `Format`: ranges of row groups."""
        with parquet_file(file) as opened:
            groups = [opened.metadata.row_group(n) for n in range(opened.metadata.num_row_groups)]
            sizes = [
                (sum(g.column(n).total_compressed_size for n in range(g.num_columns)), g.num_rows)
                for g in groups
            ]
        return grouped(sizes, size_bytes)

    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """See `Format`."""
        with open_file(file) as stream:
            return guess_schema(pq.read_schema(stream))


FORMAT = Parquet()
