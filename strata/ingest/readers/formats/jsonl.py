"""JSON lines: one object per line."""

from collections.abc import Mapping, Sequence

from strata.ingest.land.files import BOM, SourceFile
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import TextFormat
from strata.ingest.readers.guess import Guess
from strata.ingest.readers.messages import MESSAGES, guess_messages
from strata.ingest.readers.objects import read_lines
from strata.ingest.readers.records import Ends, Lines
from strata.ingest.readers.source import RawFile
from strata.model.spec import ENVELOPES


class JsonLines(TextFormat):
    """JSON lines."""

    suffixes = (".jsonl", ".ndjson")
    envelopes = ENVELOPES
    row_text = "json"
    joins = True

    def rows(self, part: SourceFile, columns: SourceColumns) -> RawFile:
        """See `TextFormat`."""
        return MESSAGES[columns.source.envelope].read(part, columns, False)

    def ends(self, dialect: Dialect, *, within: bool) -> Ends:
        """See `TextFormat`."""
        return Lines()

    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """See `Format`."""
        return guess_messages(read_lines(file), envelope)

    def joined(self, texts: Sequence[bytes], dialect: Dialect) -> bytes | None:
        """See `Format`."""
        if any(text.startswith(BOM) for text in texts):
            return None
        return b"".join(text if text.endswith(b"\n") else text + b"\n" for text in texts)


FORMAT = JsonLines()
