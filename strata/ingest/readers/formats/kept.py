"""Rejected rows of formats that are not text, as the quarantine keeps them: one row per file."""

from collections.abc import Iterator, Mapping

from strata.ingest.land.files import SourceFile
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.formats.interface import Format
from strata.ingest.readers.guess import Guess
from strata.ingest.readers.kept import read_kept
from strata.ingest.readers.source import RawFile


class KeptRow(Format):
    """A row that was kept; see `strata.ingest.readers.kept`. No shard declares it."""

    def read(self, file: SourceFile, columns: SourceColumns) -> Iterator[RawFile]:
        """See `Format`."""
        yield read_kept(file, columns.names, columns.optional, columns.relation.ids)

    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """See `Format`."""
        raise AssertionError("no shard declares this format")


FORMAT = KeptRow()
