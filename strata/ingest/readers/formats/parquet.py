"""Reads Parquet files: columns by name, cast without loss; rows have numbers instead of lines."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import InvalidRequest
from strata.ingest.land.files import FileRange, SourceFile, open_file
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import GroupedFormat, grouped
from strata.ingest.readers.guess import Guess
from strata.ingest.readers.int96 import COARSE, int96_columns, with_far_times
from strata.ingest.readers.old_calendar import check_calendar
from strata.ingest.readers.source import RawFile, check_columns
from strata.ingest.readers.spread import spread
from strata.ingest.readers.table import (
    DAMAGED,
    PART_BYTES,
    UNREADABLE,
    WHOLE_BYTES,
    check_count,
    groups_of,
    guess_schema,
    raw_table,
)

ANEW: Final = f"{UNREADABLE}; or write it anew, with another library or with larger pages"
CHECKSUM: Final = "CRC checksum"  # in what Arrow says of a damaged page


def read_parquet(
    source: SourceFile, names: Sequence[str], optional: Collection[str] = ()
) -> Iterator[RawFile]:
    """Yield the columns `names` of a file or piece; `locate` counts rows from 1 instead of lines.

    `optional` columns may be missing. Files that are large when decoded come in parts.

    Raises: InvalidRequest for a file that is not Parquet, whose columns are not the declared ones,
    that has days or times by Spark's old calendar, or if Arrow returns too few rows.
    Cost: memory of up to WHOLE_BYTES, and a page of each column.
    """
    with ExitStack() as stack:
        file = stack.enter_context(parquet_file(source))
        far = int96_columns(file.schema)
        coarse = stack.enter_context(parquet_file(source, **COARSE)) if far else None
        check_columns(source.name, file.schema_arrow.names, names, optional=optional)
        metadata, before = file.metadata, source.before
        groups = list(groups_of(source, metadata.num_row_groups))
        takes = spread(source.name, metadata, groups, partial(_texts_of, source), WHOLE_BYTES)
        rows = sum(metadata.row_group(n).num_rows for n in groups)
        if source.is_whole and takes.total <= WHOLE_BYTES:
            table = file.read()
            check_count(source, table.num_rows, rows)
            if coarse is not None:
                table = with_far_times(source.name, table, coarse.read(far), far)
            check_calendar(source.name, metadata.metadata, table, names, far)
            yield raw_table(source, table, names, optional)
            return
        # PART_BYTES on average; at most WHOLE_BYTES, even if some rows are far larger than others.
        some = min(rows * PART_BYTES // max(takes.total, 1), WHOLE_BYTES // max(takes.largest, 1))
        how = {"batch_size": max(1, some), "row_groups": groups}
        beside = repeat(None) if coarse is None else coarse.iter_batches(columns=far, **how)
        for batch, other in zip(file.iter_batches(**how), beside, strict=False):
            table = pa.Table.from_batches([batch])
            if other is not None:
                table = with_far_times(source.name, table, pa.Table.from_batches([other]), far)
            check_calendar(source.name, metadata.metadata, table, names, far)
            yield raw_table(source, table, names, optional, before=before, whole=False)
            before += table.num_rows
        check_count(source, before - source.before, rows)


def _texts_of(source: SourceFile, texts: list[str]) -> AbstractContextManager[Any]:
    """Return a context that opens a Parquet file with its texts as dictionaries."""
    return parquet_file(source, read_dictionary=texts)


@contextmanager
def parquet_file(source: SourceFile, **options: Any) -> Iterator[Any]:
    """Open a Parquet file, with options of `ParquetFile`; checksums of its pages are verified.

    Raises: InvalidRequest if it is not a Parquet file, or is damaged, also while it is read.
    """
    try:
        with (
            open_file(source) as stream,
            pq.ParquetFile(stream, page_checksum_verification=True, **options) as file,
        ):
            yield file
    except DAMAGED as error:
        raise InvalidRequest(
            "not a readable Parquet file",
            file=source.name,
            reason=str(error),
            cure="fetch it again: a page is damaged" if CHECKSUM in str(error) else ANEW,
        ) from error


class Parquet(GroupedFormat):
    """Parquet files."""

    suffixes = (".parquet",)

    def read(self, file: SourceFile, columns: SourceColumns) -> Iterator[RawFile]:
        """See `Format`."""
        return read_parquet(file, columns.names, columns.optional)

    def ranges(self, file: SourceFile, size_bytes: int) -> Sequence[FileRange]:
        """See `Format`: ranges of row groups."""
        with parquet_file(file) as opened:
            groups = [opened.metadata.row_group(n) for n in range(opened.metadata.num_row_groups)]
        # Their shares of the stored bytes; only column chunks say more, and see `spread`.
        whole = max(1, sum(group.total_byte_size for group in groups))
        sizes = [(file.size_bytes * g.total_byte_size // whole, g.num_rows) for g in groups]
        return grouped(sizes, size_bytes)

    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """See `Format`."""
        with parquet_file(file) as opened:
            found, rows = guess_schema(file.name, opened.schema_arrow)
            leaves = [opened.schema.column(n) for n in range(len(opened.schema))]
        spans = {leaf.path for leaf in leaves if leaf.converted_type == "INTERVAL"}
        return {n: ("interval", True) if n in spans else one for n, one in found.items()}, rows


FORMAT = Parquet()
