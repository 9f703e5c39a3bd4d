"""Read ORC files: columns by name, cast without loss; a row has a number in place of a line."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.orc as po

from strata.errors import InvalidRequest
from strata.ingest.land.files import FileRange, SourceFile, open_file
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import grouped
from strata.ingest.readers.formats.interface import Format
from strata.ingest.readers.guess import Guess
from strata.ingest.readers.source import RawFile, check_columns
from strata.ingest.readers.table import DAMAGED, WHOLE_BYTES, groups_of, guess_schema, raw_table


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
        for number in groups_of(source, file.nstripes):
            table = pa.Table.from_batches([file.read_stripe(number)])
            yield raw_table(source, table, names, optional, before=before, whole=False)
            before += table.num_rows


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


class Orc(Format):
    """ORC files."""

    suffixes = (".orc",)

    def read(self, file: SourceFile, columns: SourceColumns) -> Iterator[RawFile]:
        """See `Format`."""
        return read_orc(file, columns.names, columns.optional)

    def ranges(self, file: SourceFile, size_bytes: int) -> Sequence[FileRange]:
        """See `Format`: stripes, taken to be of one size; a column says their rows."""
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
