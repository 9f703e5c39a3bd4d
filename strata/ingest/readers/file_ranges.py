"""Cuts large files into ranges of whole records, so that no task holds more than its share.

There are two cuts by the same rule. `split_file` cuts a file that is larger than a task may read,
once, before the tasks begin. It reads a text from the first byte to the last, because only that
shows which line break ends a record and on which line each range begins. Other formats say
themselves where their groups of rows are. `TextFormat.parts` then gives a task its text, some MiB
at a time. It also reads packed files, which can only be read from their beginning.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final, NoReturn

from strata.errors import InvalidRequest
from strata.ingest.land.files import (
    FileRange,
    Reading,
    SourceFile,
    fingerprint,
    is_packed,
    open_file,
    text_stream,
    unpacked,
)
from strata.ingest.land.recode import is_cut_at_bytes, recoded
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.csv_checks import escape_cure
from strata.ingest.readers.formats.interface import Format, format_of
from strata.ingest.readers.records import Ends
from strata.ingest.readers.rejects import SHOWN
from strata.ingest.readers.source import RawFile
from strata.model.charsets import UTF_8

PART_BYTES: Final = 16 << 20  # of a text, read at once
RECORD_BYTES: Final = 64 << 20  # a record may not be longer
BLOCK_BYTES: Final = 4 << 20
MOST: Final = 4 << 20  # bytes of a header
FEW_BYTES: Final = 4096  # of the beginning of a file, which mostly show that it has records


def split_file(file: SourceFile, format: str, piece_bytes: int) -> list[SourceFile]:
    """Return a file in pieces of about `piece_bytes`, in order; the first knows the fingerprint.

    Raises: InvalidRequest for a file that is not of its format, or has a record that is too long.
    Cost: reads the file once, and holds one piece of it.
    """
    found = [] if is_packed(file) else format_of(format).ranges(file, piece_bytes)
    found = found or [FileRange(0, file.size_bytes, file.size_bytes)]
    hashed = found[0].fingerprint or fingerprint(file)
    first = replace(found[0], fingerprint=hashed, whole=len(found) == 1)
    return [replace(file, piece=piece) for piece in [first, *found[1:]]]


def grouped(sizes: Sequence[tuple[int, int]], piece_bytes: int) -> list[FileRange]:
    """Return ranges of neighbouring groups, numbered from 0.

    `sizes`: bytes and rows of each group.
    """
    pieces: list[FileRange] = []
    start = size = rows = before = 0
    for number, (stored, count) in enumerate(sizes):
        if number > start and size + stored > piece_bytes:
            pieces.append(FileRange(start, number, size, before))
            start, size, before = number, 0, rows
        size += stored
        rows += count
    return [*pieces, FileRange(start, len(sizes), size, before)]


class GroupedFormat(Format):
    """A format whose files are groups of rows, and say themselves where each group is."""

    def head(self, file: SourceFile, size_bytes: int) -> SourceFile:
        """See `Format`."""
        if file.size_bytes <= size_bytes or is_packed(file):
            return file
        return replace(file, piece=self.ranges(file, size_bytes)[0])


class TextFormat(Format):
    """A format whose files are texts of records and can be cut after any record."""

    closes: bool = False  # the text after the last record must be read, too

    @abstractmethod
    def rows(self, part: SourceFile, columns: SourceColumns) -> RawFile:
        """Return the rows of one part of a file, whole in memory."""

    @abstractmethod
    def ends(self, dialect: Dialect, *, within: bool) -> Ends:
        """Return a scanner for the ends of records; `within`: it starts after a record."""

    def header(self, file: SourceFile, text: bytes) -> bytes:
        """Return the beginning of a file that is needed to read its records."""
        return b""

    def waits(self, records: bytes) -> bool:
        """Return whether the first bytes of a file hold no record yet."""
        return False

    def framed(self, records: bytes, *, first: bool, last: bool) -> bytes:
        """Return some records of a file as a text that can be read on its own."""
        return records

    def read(self, file: SourceFile, columns: SourceColumns) -> Iterator[RawFile]:
        """See `Format`."""
        for part in self.parts(file):
            raw = self.rows(part, columns)
            yield replace(raw, number=file.number, before=part.before, whole=part.is_whole)

    def parts(self, file: SourceFile, part_bytes: int = PART_BYTES) -> Iterator[SourceFile]:
        """Yield a file or piece in parts that are read at once.

        A small file is one part, and so is a loaded one.
        Raises: as `split_file`.
        """
        read = file.piece is not None and file.piece.data is not None
        if read or (file.piece is None and not is_packed(file)):
            yield file
            return
        with _range(file) as stream:
            for part in _texts(file, self, stream, part_bytes):
                yield replace(file, piece=part)

    def head(self, file: SourceFile, size_bytes: int) -> SourceFile:
        """See `Format`: of a packed file it is unpacked."""
        if file.size_bytes <= size_bytes and not is_packed(file):
            return file
        with unpacked(file) as stream:
            text = text_stream(file, stream)
            return replace(file, piece=next(_texts(file, self, text, size_bytes)))

    def ranges(self, file: SourceFile, size_bytes: int) -> Sequence[FileRange]:
        """See `Format`. A text that cannot be cut at a byte, or is not plain, is not cut."""
        if not file.dialect.is_plain or not is_cut_at_bytes(file.dialect.encoding):
            return ()
        digest = blake2b(digest_size=16)
        with open_file(file) as stored:
            found = [
                FileRange(part.start, part.stop, part.stop - part.start, part.before, part.header)
                for part in _texts(
                    file, self, _Hashing(stored, digest), size_bytes, file.dialect.encoding
                )
            ]
        return [replace(found[0], fingerprint=digest.hexdigest()), *found[1:]]


class _Hashing:
    """A stream that hashes its bytes while they are read."""

    def __init__(self, stream: Reading, digest: Any) -> None:
        self._stream, self._digest = stream, digest

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._digest.update(data)
        return data


@contextmanager
def _range(file: SourceFile) -> Iterator[Reading]:
    """Open the text of a piece; for a packed file, its unpacked text."""
    if is_packed(file) or file.piece is None:
        with unpacked(file) as stream:
            yield text_stream(file, stream)
    else:
        with open_file(file) as stored:
            stored.seek(file.piece.start)
            data = _Limited(stored, file.piece.stop - file.piece.start)
            yield text_stream(file, data, begins=not file.piece.start)


class _Limited:
    """The next bytes of a stream, up to a limit."""

    def __init__(self, stream: Reading, left: int) -> None:
        self._stream, self._left = stream, left

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def _texts(
    file: SourceFile, format: TextFormat, stream: Reading, size: int, encoding: str = UTF_8
) -> Iterator[FileRange]:
    """Yield the records of a text in parts of about `size` bytes; there is always one.

    `encoding`: of what the stream gives; the headers of the parts are UTF-8.
    """
    text = _Text.of(file, format, encoding)
    ends = format.ends(file.dialect, within=text.start > 0)
    pending, cut, lines_to_cut, lines = bytearray(), 0, 0, 0
    begin = text.start
    while block := stream.read(min(size, BLOCK_BYTES)):
        end, before_end, count = ends.take(block)
        if end:
            cut, lines_to_cut = len(pending) + end, lines + before_end
        pending += block
        lines += count
        if cut and len(pending) >= size and not (text.begins and text.waits(pending, cut)):
            yield text.part(_first(pending, cut), lines_to_cut, more=True)
            del pending[:cut]
            cut, lines, lines_to_cut = 0, lines - lines_to_cut, 0
        elif len(pending) - cut > max(size, RECORD_BYTES):
            _refuse(file, "a record is too long", text.units + lines_to_cut + 1, pending[cut:])
    if ends.open():
        _refuse(file, "a quoted field never ends", text.units + lines_to_cut + 1, pending[cut:])
    if pending or text.start == begin or (format.closes and text.ends):
        yield text.part(bytes(pending), lines, more=False)


def _first(pending: bytearray, count: int) -> bytes:
    """Return the first bytes of a text, copied once."""
    with memoryview(pending) as view:
        return bytes(view[:count])


def _refuse(file: SourceFile, problem: str, line: int, record: bytes | bytearray) -> NoReturn:
    cures = {
        "a record is too long": f"at most {RECORD_BYTES >> 20} MiB; check source.format",
        "a quoted field never ends": "close the quote; a quote inside quotes is doubled",
    }
    raise InvalidRequest(
        problem,
        file=file.name,
        line=line,
        value=bytes(record[:SHOWN]).decode(errors="backslashreplace"),
        cure=escape_cure(cures[problem], bytes(record)),
    )


@dataclass
class _Text:
    """How far a text was read, and what each part needs to be read on its own."""

    file: SourceFile
    format: TextFormat
    start: int  # of the next part, in bytes of the unpacked file
    units: int  # lines or elements before it
    header: bytes  # of CSV
    ends: bool  # the text extends to the end of the file
    encoding: str  # of the records

    @staticmethod
    def of(file: SourceFile, format: TextFormat, encoding: str) -> "_Text":
        """Begin with a file, or with a piece of it."""
        piece = file.piece
        if piece is None or is_packed(file):
            return _Text(file, format, 0, 0, b"", ends=True, encoding=encoding)
        units = piece.before + piece.header.count(b"\n")
        ends = piece.stop >= file.size_bytes
        return _Text(file, format, piece.start, units, piece.header, ends, encoding)

    @property
    def begins(self) -> bool:
        """Return whether the next part begins the file."""
        return not self.start

    def waits(self, pending: bytearray, cut: int) -> bool:
        """Return whether the first records of the file are only blank lines before a header."""
        few = self.format.waits(bytes(pending[: min(cut, FEW_BYTES)]))
        return few and self.format.waits(_first(pending, cut))

    def part(self, records: bytes, units: int, *, more: bool) -> FileRange:
        """Return the next records as a part."""
        more = more or not self.ends
        before = self.units - self.header.count(b"\n")
        data = self.header + self.format.framed(records, first=not self.start, last=not more)
        stop = self.start + len(records)
        part = FileRange(
            self.start,
            stop,
            len(records),
            before,
            self.header,
            data=data,
            whole=self.start == 0 and not more,
            ended=True,
        )
        if self.start == 0 and more:
            beginning = data if self.encoding == UTF_8 else recoded(data[:MOST], self.encoding)
            self.header = self.format.header(self.file, beginning)
        self.start, self.units = stop, self.units + units
        return part
