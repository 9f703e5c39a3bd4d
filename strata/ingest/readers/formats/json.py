"""JSON: each file is one array of objects, or a single object."""

from collections.abc import Mapping, Sequence

from strata.ingest.land.files import SourceFile
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import TextFormat
from strata.ingest.readers.guess import Guess
from strata.ingest.readers.messages import MESSAGES, guess_messages
from strata.ingest.readers.objects import read_array
from strata.ingest.readers.records import Ends, JsonElements
from strata.ingest.readers.rows_inside import note_of_rows
from strata.ingest.readers.source import RawFile
from strata.model.spec import ENVELOPES


class JsonArray(TextFormat):
    """JSON arrays; a range of an array is an array of some of its elements."""

    suffixes = (".json",)
    envelopes = ENVELOPES
    row_text = "json"
    closes = True

    def rows(self, part: SourceFile, columns: SourceColumns) -> RawFile:
        """See `TextFormat`."""
        return MESSAGES[columns.source.envelope].read(part, columns, True)

    def ends(self, dialect: Dialect, *, within: bool) -> Ends:
        """See `TextFormat`."""
        return JsonElements(within=within)

    def framed(self, records: bytes, *, first: bool, last: bool) -> bytes:
        """See `TextFormat`."""
        head = b"" if first else b"["
        return head + records if last else b"".join([head, records.removesuffix(b","), b"]"])

    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """See `Format`."""
        return guess_messages(read_array(file), envelope)

    def doubts(
        self, files: Sequence[SourceFile], dialect: Dialect | None, types: Mapping[str, str]
    ) -> Sequence[str]:
        """See `Format`: one object that holds what look like rows."""
        found = (note_of_rows(read_array(file).values, file.name) for file in files)
        return [note for note in found if note is not None][:1]


FORMAT = JsonArray()
