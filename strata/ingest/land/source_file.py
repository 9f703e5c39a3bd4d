"""A source file, or a piece of one, as tasks pass it on."""

from dataclasses import dataclass

from strata.model.charsets import UTF_8
from strata.model.spec import DELIMITER, NULLS, POINT, SourceSpec


@dataclass(frozen=True, slots=True)
class Dialect:
    """The dialect of a source's CSV."""

    delimiter: str = DELIMITER
    nulls: tuple[str, ...] = NULLS  # unquoted fields that are null
    encoding: str = UTF_8  # of the files
    decimal: str = POINT  # before the fraction of a number
    thousands: str = ""  # between groups of three digits; empty: nothing
    header: tuple[str, ...] = ()  # the names of fields; empty: they are in the first line
    escape: str = ""  # before a quote within quotes; empty: it is doubled
    skip_blanks: bool = False  # before a field, and behind its closing quote

    @property
    def is_plain(self) -> bool:
        """Return whether a text is read as it is, without another form in between."""
        return not (self.escape or self.skip_blanks)

    @staticmethod
    def of(source: SourceSpec) -> "Dialect":
        """Return what a source declares."""
        return Dialect(
            source.delimiter,
            source.nulls,
            source.encoding,
            source.decimal,
            source.thousands,
            source.header,
            source.escape,
            source.skip_blanks,
        )


@dataclass(frozen=True, slots=True)
class FileRange:
    """Some records of a file that are read without the others."""

    start: int  # first byte; row group of Parquet, stripe of ORC
    stop: int
    size_bytes: int
    before: int = 0  # offset for the number of a line, an element or a row
    header: bytes = b""  # of the file; its records cannot be read without it
    fingerprint: str = ""  # of the whole file, in its first piece
    data: bytes | None = None  # header and records; None: not read yet
    whole: bool = False  # it is all of the file
    ended: bool = False  # its text was read to the end of its last record


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to ingest."""

    path: str  # absolute; on S3 the address
    name: str  # for people: relative to the landing root if it is below it
    size_bytes: int  # as stored, possibly compressed
    time_ms: int | None = None  # the time its path carries; None: not looked for, or none
    changed_ns: int = 0  # when the store last changed it, or its inode; 0: not known
    version: str = ""  # on S3: the ETag
    piece: FileRange | None = None  # None: all of it
    number: int = 0  # of the file in its batch
    dialect: Dialect = Dialect()  # of CSV

    def of_time(self, time_ms: int) -> "SourceFile":
        """Return the file with its time; like `replace`, but several times as fast."""
        return SourceFile(
            self.path,
            self.name,
            self.size_bytes,
            time_ms,
            self.changed_ns,
            self.version,
            self.piece,
            self.number,
            self.dialect,
        )

    def numbered(self, number: int) -> "SourceFile":
        """Return the file with its number in the batch; likewise."""
        return SourceFile(
            self.path,
            self.name,
            self.size_bytes,
            self.time_ms,
            self.changed_ns,
            self.version,
            self.piece,
            number,
            self.dialect,
        )

    @property
    def before(self) -> int:
        """Return the offset for the number of a line, an element or a row."""
        return 0 if self.piece is None else self.piece.before

    @property
    def is_whole(self) -> bool:
        """Return whether it is judged as a whole file, not as some of its rows."""
        return self.piece is None or self.piece.whole

    @property
    def has_header(self) -> bool:
        """Return whether the names of its fields are in its text; else they are declared."""
        return not self.dialect.header or (self.piece is not None and bool(self.piece.header))

    @property
    def load_bytes(self) -> int:
        """Return how many stored bytes must be read."""
        return self.size_bytes if self.piece is None else self.piece.size_bytes

    @property
    def suffixes(self) -> list[str]:
        """Return the suffixes of its name, in lower case."""
        name = self._last_name()
        return [f".{word.lower()}" for word in name.split(".")[1:]] if name[-1:] != "." else []

    @property
    def suffix(self) -> str:
        """Return the last suffix of its name, in lower case; empty if it has none."""
        _, dot, last = self._last_name().rpartition(".")  # called for a million files
        return f".{last.lower()}" if dot and last else ""

    def _last_name(self) -> str:
        path = self.path.partition("?")[0] if self.path.startswith("s3://") else self.path
        return path.rstrip("/").rpartition("/")[2].lstrip(".")
