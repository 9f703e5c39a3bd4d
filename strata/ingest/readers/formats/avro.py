"""Reads Avro object container files: columns by name, values converted by `avro_values`."""

import bz2
import io
import lzma
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import fastavro
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException

from strata.errors import InvalidRequest
from strata.format.pack import unpacked_pieces
from strata.ingest.land.files import (
    FileRange,
    Reading,
    SourceFile,
    is_packed,
    open_file,
    read_bytes,
    unpacked,
)
from strata.ingest.readers.avro_blocks import CODECS, LENGTH_BYTES, length_of, with_plain_blocks
from strata.ingest.readers.avro_values import (
    DURATION,
    arrow_of,
    column,
    without_logical,
    written_out,
)
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import grouped
from strata.ingest.readers.formats.interface import Format
from strata.ingest.readers.guess import Guess, guess_arrow
from strata.ingest.readers.kept import convert, keep_row, shown_raw
from strata.ingest.readers.old_calendar import IN_AVRO, by_old_calendar, check_days
from strata.ingest.readers.source import Located, RawFile, check_columns
from strata.ingest.readers.table import UNREADABLE, check_form
from strata.ingest.values.cast import Rows
from strata.ingest.values.shown import FAILS, json_text

DAMAGED: Final = (  # what a damaged file raises
    *FAILS,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    SchemaParseException,
    SchemaResolutionError,
)
PART_BYTES: Final = 4 << 20  # stored, read at once, as they become objects
PART_UNPACKED: Final = 64 << 20
PART_ROWS: Final = 500_000
BLOCK_BYTES: Final = 256 << 20  # of a block, unpacked
BLOCK_ROWS: Final = 2_000_000
SYNC_BYTES: Final = 16  # after each block


def read_avro(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return the columns `names`; `locate` counts records from 1 instead of lines.

    `optional` columns may be missing.

    Raises: InvalidRequest for a file that is not Avro or whose fields are not the declared ones.
    Cost: the file, or piece of it, in memory, as Python objects.
    """
    schema, records, marks = avro_records(source)
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    check_columns(source.name, list(fields), names, optional=optional)
    columns = {
        name: column([record[name] for record in records], fields[name])
        for name in names
        if name in fields
    }
    if by_old_calendar(marks)[0]:
        for name, values in columns.items():
            found = values if isinstance(values, pa.Array) else [r[name] for r in records]
            check_days(source.name, name, [found], IN_AVRO)

    def locate(rows: Rows) -> list[Located]:
        return [(int(row) + source.before + 1, json_text(records[row])) for row in rows]

    return RawFile(
        file=source.name,
        count=len(records),
        columns=columns,
        convert=convert,
        shown=shown_raw,
        locate=locate,
        keep=keep_row,
    )


def avro_records(
    source: SourceFile,
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[bytes, bytes]]:
    """Return the writer's schema written out, the records of a file as stored, its marks.

    Raises: InvalidRequest for a file that is not Avro or not of records.
    """
    data = read_bytes(source)
    try:
        header = fastavro.reader(io.BytesIO(data))
        schema: Any = written_out(header.writer_schema)
        records = _records(without_logical(with_plain_blocks(data), schema))
    except DAMAGED as error:
        raise _unreadable(source, str(error)) from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _unreadable(source, "its schema is no record")
    marks = {key.encode(): str(value).encode() for key, value in header.metadata.items()}
    return schema, records, marks


def _records(data: bytes) -> list[Any]:
    """Return the records of a file; ValueError for a block that holds more than it counts."""
    found: list[Any] = []
    blocks: Iterator[Any] = fastavro.block_reader(io.BytesIO(data))
    for block in blocks:
        found += block
        if block.bytes_.read(1):
            raise ValueError("a block holds more than the records that it counts")
    return found


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a file, as it is stored."""

    start: int  # in the file; of a packed one, in its unpacked bytes
    data: bytes  # with its counts in front and the mark behind
    rows: int
    size_bytes: int  # unpacked


class _Stream:
    """A stream of bytes that gives as many as are asked for, and keeps what it gave."""

    def __init__(self, stream: Reading) -> None:
        self._stream = stream
        self.given = bytearray()

    def read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size and (more := self._stream.read(size - len(found))):
            found += more
        self.given += found
        return bytes(found)


def blocks_of(source: SourceFile) -> tuple[bytes, Iterator[Block]]:
    """Return the header of a file, and the blocks of the file or piece, one at a time.

    A few bytes may unpack to any size, or stand for any number of records: such a block is refused.
    Raises: InvalidRequest, also while the blocks are read.
    Cost: unpacks each block once, and holds one.
    """
    found = _blocks(source)
    return cast(bytes, next(found)), cast(Iterator[Block], found)


def _blocks(source: SourceFile) -> Iterator[bytes | Block]:
    packed, piece = is_packed(source), source.piece
    with unpacked(source) if packed else open_file(source) as opened:
        try:
            stream = _Stream(opened)
            codec = str(fastavro.reader(cast(Any, stream)).codec)
            _check_codec(source, codec)
            header = bytes(stream.given)
            yield header
            at, stop = len(header), None if packed else source.size_bytes
            if piece is not None and not packed:
                at, stop = max(at, piece.start), piece.stop
                cast(Any, opened).seek(at)
            while stop is None or at < stop:
                stream.given.clear()
                block = _block(source, stream, codec, at, stop)
                if block is None:
                    return
                yield block
                at += len(block.data)
        except DAMAGED as error:
            raise _unreadable(source, str(error)) from error


def _check_codec(source: SourceFile, codec: str) -> None:
    if codec not in CODECS:
        raise InvalidRequest(
            "the blocks of the file are packed in a way that is not known here",
            file=source.name,
            codec=codec,
            cure=f"write it with one of {', '.join(CODECS)}",
        )


def _block(
    source: SourceFile, stream: _Stream, codec: str, at: int, stop: int | None
) -> Block | None:
    """Return the next block of a stream, or None at its end; `stop`: where the last one ends."""
    first = stream.read(1)
    if not first:
        return None
    rows, size = _long(_After(first, stream)), _long(stream)
    behind = at + len(stream.given) + size + SYNC_BYTES
    if rows < 0 or size < 0 or (stop is not None and behind > stop):
        raise EOFError("a block ends behind the file")
    if size <= BLOCK_BYTES and rows <= BLOCK_ROWS:
        data = stream.read(size)
        if len(data) + len(stream.read(SYNC_BYTES)) < size + SYNC_BYTES:
            raise EOFError("the file ends within a block")
        unpacked_bytes = unpacked_size(codec, data, BLOCK_BYTES)
        if unpacked_bytes <= BLOCK_BYTES:
            return Block(at, bytes(stream.given), rows, unpacked_bytes)
    raise InvalidRequest(
        "a block of the file holds too much",
        file=source.name,
        byte=at,
        rows=rows,
        most_rows=BLOCK_ROWS,
        most_bytes=BLOCK_BYTES,
        cure="write it with smaller blocks",
    )


class _After:
    """A byte that was read already, and the stream after it."""

    def __init__(self, first: bytes, stream: _Stream) -> None:
        self._first, self._stream = first, stream

    def read(self, size: int) -> bytes:
        first, self._first = self._first, b""
        return first or self._stream.read(size)


def unpacked_size(codec: str, data: bytes, most: int) -> int:
    """Return how many bytes a block unpacks to, or `most` + 1 if there are more than `most`.

    Cost: unpacks the block; never holds more than `most` bytes of it.
    Raises: what the codec raises for damaged bytes.
    """
    if codec == "deflate":
        return len(zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, most + 1))
    if codec == "bzip2":
        return len(bz2.open(io.BytesIO(data)).read(most + 1))
    if codec == "xz":
        return len(lzma.open(io.BytesIO(data)).read(most + 1))
    if codec == "zstandard":
        size: int = sum(piece.size for piece in unpacked_pieces(data, "zstd", most))
        return min(size, most + 1)
    if codec == "snappy":  # states its length, and keeps to it
        return length_of(data)
    if codec == "lz4":
        return int.from_bytes(data[:LENGTH_BYTES], "little")
    return len(data)


def avro_layout(
    source: SourceFile, stream: Any, start: int = 0, stop: int | None = None
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return the header, and where each block with a byte at or after `start` begins and ends.

    Shape: (first byte, byte after the last, records) for each block, up to `stop`.
    Raises: InvalidRequest for a file that is not Avro or ends within a block.
    Cost: reads the header, and some bytes of each block.
    """
    try:
        fastavro.reader(stream)
        first = stream.tell()
        stream.seek(0)
        header: bytes = stream.read(first)
        blocks = []
        at = max(first, start)
        end = source.size_bytes if stop is None else stop
        while at < end:
            stream.seek(at)
            rows, size = _long(stream), _long(stream)
            behind = stream.tell() + size + SYNC_BYTES
            if rows < 0 or size < 0 or behind > end:
                raise EOFError("a block ends behind the file")
            blocks.append((at, behind, rows))
            at = behind
    except DAMAGED as error:
        raise _unreadable(source, str(error)) from error
    return header, blocks


def _long(stream: Any) -> int:
    """Read an Avro number: a zigzag varint."""
    value = _varint(stream)
    return (value >> 1) ^ -(value & 1)


def _varint(stream: Any) -> int:
    """Read a number of seven bits per byte, the lowest first."""
    value = shift = 0
    while byte := bytes(stream.read(1)):
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
        shift += 7
    raise EOFError("the file ends within a number")


def _unreadable(source: SourceFile, reason: str) -> InvalidRequest:
    return InvalidRequest(
        "not a readable Avro file",
        file=source.name,
        reason=reason or "a block ends within a record",  # fastavro says nothing then
        cure=UNREADABLE,
    )


class Avro(Format):
    """Avro object container files."""

    suffixes = (".avro",)

    def read(self, file: SourceFile, columns: SourceColumns) -> Iterator[RawFile]:
        """See `Format`."""
        for part in self.parts(file):
            raw = read_avro(part, columns.names, columns.optional)
            yield replace(raw, number=file.number, before=part.before, whole=part.is_whole)

    def parts(self, file: SourceFile) -> Iterator[SourceFile]:
        """Yield a file or piece in parts that are read at once.

        A part is as small in memory as it is in the file: blocks may unpack to far more.
        """
        header, blocks = blocks_of(file)
        begins, before = file.piece is None or file.piece.whole, file.before
        waiting: list[Block] = []
        stored = size = rows = 0
        for block in blocks:
            stored, size = stored + len(block.data), size + block.size_bytes
            rows += block.rows
            if waiting and (stored > PART_BYTES or size > PART_UNPACKED or rows > PART_ROWS):
                yield _part(file, header, waiting, before, whole=False)
                begins, before = False, before + rows - block.rows
                waiting, rows = [], block.rows
                stored, size = len(block.data), block.size_bytes
            waiting.append(block)
        if waiting or begins:
            yield _part(file, header, waiting, before, whole=begins)

    def ranges(self, file: SourceFile, size_bytes: int) -> Sequence[FileRange]:
        """See `Format`: ranges of blocks; each is read after the header."""
        with open_file(file) as stream:
            header, blocks = avro_layout(file, stream)
            found = grouped([(stop - start, rows) for start, stop, rows in blocks], size_bytes)
        return [
            replace(
                piece, start=blocks[piece.start][0], stop=blocks[piece.stop - 1][1], header=header
            )
            for piece in found
            if blocks
        ]

    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """See `Format`."""
        header, blocks = blocks_of(file)
        rows = sum(block.rows for block in blocks)
        schema, *_ = avro_records(_part(file, header, [], 0, whole=False))
        kinds = {field["name"]: arrow_of(field["type"]) for field in schema["fields"]}
        spans = {name for name, kind in kinds.items() if kind == DURATION}
        for name, kind in kinds.items():
            if kind is not None and name not in spans:
                check_form(file.name, pa.field(name, kind))
        guesses = {n: "interval" if n in spans else guess_arrow(k) for n, k in kinds.items()}
        return {name: (guess, True) for name, guess in guesses.items()}, rows


def _part(
    file: SourceFile, header: bytes, blocks: Sequence[Block], before: int, *, whole: bool
) -> SourceFile:
    """Return some blocks of a file as a file that is in memory."""
    data = b"".join([header, *(block.data for block in blocks)])
    start = blocks[0].start if blocks else len(header)
    size = len(data) - len(header)
    piece = FileRange(start, start + size, size, before, header, data=data, whole=whole)
    return replace(file, piece=piece)


FORMAT = Avro()
