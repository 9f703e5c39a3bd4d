"""Large files in pieces of whole records, so that no task holds more than its share of one.

Two cuts, by the same rule. `split_file` cuts a file that is larger than a task may read, once,
before the tasks begin: CSV and JSON are read from their first byte to their last, as only that
tells which line break ends a record and on which line each piece begins; Parquet, ORC and Avro say
themselves where their row groups, stripes and blocks are. `read_parts` then gives a task what it
reads, some MiB at a time; packed files, which can only be read from their beginning, come that way
as well.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final, NoReturn

from strata.errors import InvalidRequest
from strata.ingest.land.files import (
    BOM,
    FileRange,
    Reading,
    SourceFile,
    fingerprint,
    is_packed,
    open_file,
    unpacked,
)
from strata.ingest.readers.avro import avro_layout
from strata.ingest.readers.csv import header_of
from strata.ingest.readers.parquet import orc_file, parquet_file
from strata.ingest.readers.records import CsvRecords, Elements, Ends, Lines
from strata.ingest.readers.rejects import SHOWN

PART_BYTES: Final = 16 << 20  # of a text that are read at once
RECORD_BYTES: Final = 64 << 20  # a record may not be longer
BLOCK_BYTES: Final = 4 << 20
AVRO_BYTES: Final = 4 << 20  # of Avro that are read at once: they become objects
TEXTS: Final = ("csv", "json", "jsonl")


def split_file(file: SourceFile, format: str, piece_bytes: int) -> list[SourceFile]:
    """Return a file in pieces of about so many bytes, in order; the first knows the fingerprint.

    Raises: InvalidRequest for a file that is not of its format, or has a record that is too long.
    Cost: reads the file once, and holds one piece of it.
    """
    digest = blake2b(digest_size=16)
    if format in TEXTS and not is_packed(file):
        with open_file(file) as stored:
            found = [
                FileRange(part.start, part.stop, part.stop - part.start, part.before, part.header)
                for part in _texts(file, format, _Hashing(stored, digest), piece_bytes)
            ]
        hashed = digest.hexdigest()
    else:
        cut = {"parquet": _row_groups, "orc": _stripes, "avro": _avro_blocks}.get(format)
        found = [] if cut is None or is_packed(file) else cut(file, piece_bytes)
        found = found or [FileRange(0, file.size_bytes, file.size_bytes)]
        hashed = fingerprint(file)
    first = replace(found[0], fingerprint=hashed, whole=len(found) == 1)
    return [replace(file, piece=piece) for piece in [first, *found[1:]]]


def read_parts(file: SourceFile, format: str, part_bytes: int = PART_BYTES) -> Iterator[SourceFile]:
    """Yield a text or Avro file, or a piece of one, in parts that are read; a small file is one.

    So is what is read already.

    Raises: as `split_file`.
    """
    if format == "avro":
        yield from _avro_parts(file)
        return
    read = file.piece is not None and file.piece.data is not None
    if read or (file.piece is None and not is_packed(file)):
        yield file
        return
    with _range(file) as stream:
        for part in _texts(file, format, stream, part_bytes):
            yield replace(file, piece=part)


class _Hashing:
    """A stream whose bytes are hashed on their way."""

    def __init__(self, stream: Reading, digest: Any) -> None:
        self._stream, self._digest = stream, digest

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._digest.update(data)
        return data


@contextmanager
def _range(file: SourceFile) -> Iterator[Reading]:
    """Open the bytes of a piece; of a packed file those that it holds."""
    if is_packed(file) or file.piece is None:
        with unpacked(file) as stream:
            yield stream
    else:
        with open_file(file) as stored:
            stored.seek(file.piece.start)
            yield _Limited(stored, file.piece.stop - file.piece.start)


class _Limited:
    """The next so many bytes of a stream."""

    def __init__(self, stream: Reading, left: int) -> None:
        self._stream, self._left = stream, left

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def _ends(format: str, delimiter: str, *, within: bool) -> Ends:
    if format == "json":
        return Elements(within=within)
    return CsvRecords(delimiter) if format == "csv" else Lines()


def _texts(file: SourceFile, format: str, stream: Reading, size: int) -> Iterator[FileRange]:
    """Yield the records of a text in parts of about `size` bytes; there is always one."""
    text = _Text.of(file, format)
    ends = _ends(format, file.dialect.delimiter, within=text.start > 0)
    pending, cut, lines_to_cut, lines = bytearray(), 0, 0, 0
    begin = text.start
    while block := stream.read(min(size, BLOCK_BYTES)):
        end, before_end, count = ends.take(block)
        if end:
            cut, lines_to_cut = len(pending) + end, lines + before_end
        pending += block
        lines += count
        if cut and len(pending) >= size and not text.waits(pending[:cut]):
            yield text.part(bytes(pending[:cut]), lines_to_cut, more=True)
            del pending[:cut]
            cut, lines, lines_to_cut = 0, lines - lines_to_cut, 0
        elif len(pending) - cut > max(size, RECORD_BYTES):
            _refuse(file, "a record is too long", text.units + lines_to_cut + 1, pending[cut:])
    if ends.open():
        _refuse(file, "a quoted field never ends", text.units + lines_to_cut + 1, pending[cut:])
    if pending or text.start == begin or (format == "json" and text.ends):
        yield text.part(bytes(pending), lines, more=False)


def _refuse(file: SourceFile, problem: str, line: int, record: bytes | bytearray) -> NoReturn:
    cures = {
        "a record is too long": f"at most {RECORD_BYTES >> 20} MiB; check source.format",
        "a quoted field never ends": "close the quote; a quote inside quotes is doubled",
    }
    raise InvalidRequest(
        problem, file=file.name, line=line,
        value=bytes(record[:SHOWN]).decode(errors="backslashreplace"), cure=cures[problem],
    )  # fmt: skip


@dataclass
class _Text:
    """How far a text was read, and what each part of it needs to be read by itself."""

    file: SourceFile
    format: str
    start: int  # of the next part, in bytes of the unpacked file
    units: int  # lines or elements before it
    header: bytes  # of CSV
    ends: bool  # the text goes on to the end of the file

    @staticmethod
    def of(file: SourceFile, format: str) -> "_Text":
        """Begin with a file, or with a piece of it."""
        piece = file.piece
        if piece is None or is_packed(file):
            return _Text(file, format, 0, 0, b"", ends=True)
        units = piece.before + piece.header.count(b"\n")
        ends = piece.stop >= file.size_bytes
        return _Text(file, format, piece.start, units, piece.header, ends)

    def waits(self, records: bytearray) -> bool:
        """Return whether these are only blank lines before a header."""
        if self.format != "csv" or self.start:
            return False
        return not bytes(records).removeprefix(BOM).strip(b"\r\n")

    def part(self, records: bytes, units: int, *, more: bool) -> FileRange:
        """Return the next records as a part."""
        more = more or not self.ends
        before = self.units - self.header.count(b"\n")
        data = self._data(records, more=more)
        stop = self.start + len(records)
        part = FileRange(
            self.start, stop, len(records), before, self.header,
            data=data, whole=self.start == 0 and not more,
        )  # fmt: skip
        if self.format == "csv" and self.start == 0 and more:
            text = data.removeprefix(BOM)
            self.header = text[: header_of(self.file, text)[1]]
        self.start, self.units = stop, self.units + units
        return part

    def _data(self, records: bytes, *, more: bool) -> bytes:
        if self.format != "json":
            return self.header + records
        head = b"" if self.start == 0 else b"["
        return b"".join([head, records.removesuffix(b","), b"]"]) if more else head + records


def _grouped(sizes: Sequence[tuple[int, int]], piece_bytes: int) -> list[FileRange]:
    """Return pieces of neighbours, each of some bytes and rows, numbered from 0."""
    pieces: list[FileRange] = []
    start = size = rows = before = 0
    for number, (stored, count) in enumerate(sizes):
        if number > start and size + stored > piece_bytes:
            pieces.append(FileRange(start, number, size, before))
            start, size, before = number, 0, rows
        size += stored
        rows += count
    return [*pieces, FileRange(start, len(sizes), size, before)]


def _row_groups(file: SourceFile, piece_bytes: int) -> list[FileRange]:
    with parquet_file(file) as opened:
        groups = [opened.metadata.row_group(n) for n in range(opened.metadata.num_row_groups)]
        sizes = [
            (sum(g.column(n).total_compressed_size for n in range(g.num_columns)), g.num_rows)
            for g in groups
        ]
    return _grouped(sizes, piece_bytes)


def _stripes(file: SourceFile, piece_bytes: int) -> list[FileRange]:
    """Return pieces of stripes, which are taken to be of one size; a column tells their rows."""
    with orc_file(file) as opened:
        column, stripes = opened.schema.names[:1], max(1, opened.nstripes)
        sizes = [
            (file.size_bytes // stripes, opened.read_stripe(n, columns=column).num_rows)
            for n in range(opened.nstripes)
        ]
    return _grouped(sizes, piece_bytes)


def _avro_blocks(file: SourceFile, piece_bytes: int) -> list[FileRange]:
    with open_file(file) as stream:
        header, blocks = avro_layout(file, stream)
        found = _grouped([(stop - start, rows) for start, stop, rows in blocks], piece_bytes)
    return [
        replace(piece, start=blocks[piece.start][0], stop=blocks[piece.stop - 1][1], header=header)
        for piece in found
        if blocks
    ]


def _avro_parts(file: SourceFile) -> Iterator[SourceFile]:
    if is_packed(file) or (file.piece is None and file.size_bytes <= AVRO_BYTES):
        yield file
        return
    start = 0 if file.piece is None else file.piece.start
    stop = file.size_bytes if file.piece is None else file.piece.stop
    with open_file(file) as stream:
        header, blocks = avro_layout(file, stream, start, stop)
        before, at = file.before, 0
        while at < len(blocks):
            first, end, rows = blocks[at]
            while at + 1 < len(blocks) and blocks[at + 1][1] - first <= AVRO_BYTES:
                at += 1
                end, rows = blocks[at][1], rows + blocks[at][2]
            at += 1
            stream.seek(first)
            data = header + stream.read(end - first)
            yield replace(file, piece=FileRange(first, end, end - first, before, header, data=data))
            before += rows
        if not blocks:
            yield replace(file, piece=FileRange(start, stop, 0, before, header, data=header))
