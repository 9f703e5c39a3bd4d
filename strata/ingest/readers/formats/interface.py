"""The interface of a source format, and the look-up of a format by its name.

To add a format: a module in this folder whose `FORMAT` is an instance of a `Format`, its name in
`strata.model.spec.FORMATS`, and its row in docs/reference/sources.md. `tests/unit/ingest/readers/
test_registry.py` then says what is still missing.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Final, Literal, Protocol

from strata.ingest.land.files import SourceFile
from strata.ingest.land.source_file import Dialect, FileRange
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.guess import Guess
from strata.ingest.readers.source import RawFile
from strata.model.spec import FORMATS

KEPT: Final = "kept"  # the format of rejected rows that are not text; no shard declares it
TABLES: Final = ("append", "diff", "upsert")  # envelopes whose rows have plain columns


class Format(Protocol):
    """One source format."""

    suffixes: tuple[str, ...] = ()  # of this format's file names, as in ".csv"
    envelopes: tuple[str, ...] = TABLES  # that its rows can have
    row_text: Literal["csv", "json"] | None = None  # how one row is written; None: not as text
    joins: bool = False  # small files can be read as one text
    untyped: str = "jsonb"  # the type to propose for a column that has no value

    @abstractmethod
    def read(self, file: SourceFile, columns: SourceColumns) -> Iterator[RawFile]:
        """Yield the rows of a file or piece, not yet typed, in parts of bounded size.

        Raises: InvalidRequest for a file of the wrong shape.
        """

    @abstractmethod
    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """Return a type for each column of a file, and how many rows were examined.

        Raises: as `read`.
        """

    def ranges(self, file: SourceFile, size_bytes: int) -> Sequence[FileRange]:
        """Return an unpacked file cut into ranges of about `size_bytes`.

        Empty: the file is not cut. The first range may have the fingerprint of the file.
        Raises: InvalidRequest for a file that is not of this format, or has too long a record.
        """
        return ()

    def head(self, file: SourceFile, size_bytes: int) -> SourceFile:
        """Return the first rows of a file, of about `size_bytes`, to be looked at; or the file.

        Raises: as `ranges`.
        """
        return file

    def dialect(self, files: Sequence[SourceFile]) -> Dialect | None:
        """Return the dialect of some files; None: the format has no dialects."""
        return None

    def doubts(
        self, files: Sequence[SourceFile], dialect: Dialect | None, types: Mapping[str, str]
    ) -> Sequence[str]:
        """Return what a proposal makes of texts that may mean something else, for a person."""
        return ()

    def joined(self, texts: Sequence[bytes], dialect: Dialect) -> bytes | None:
        """Return the UTF-8 of files as that of one file; None: read each by itself."""
        return None


@cache
def format_of(name: str) -> Format:
    """Return a format by its name: one of FORMATS, or KEPT."""
    assert name in (*FORMATS, KEPT), name
    found: Format = import_module(f"strata.ingest.readers.formats.{name}").FORMAT
    return found
