"""Reads Avro object container files: columns by name, values converted by `avro_values`."""

import bz2
import io
import lzma
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import fastavro
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException

from strata.errors import InvalidRequest
from strata.format.pack import unpacked_pieces
from strata.ingest.land.files import FileRange, SourceFile, is_packed, open_file, read_bytes
from strata.ingest.readers.avro_values import arrow_of, column, without_logical
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import grouped
from strata.ingest.readers.formats.interface import Format
from strata.ingest.readers.guess import Guess, guess_arrow
from strata.ingest.readers.kept import convert, keep_row, shown_raw
from strata.ingest.readers.source import Located, RawFile, check_columns
from strata.ingest.values.cast import Rows
from strata.ingest.values.shown import FAILS, json_text

DAMAGED: Final = (  # what a damaged file raises
    *FAILS, EOFError, zlib.error, lzma.LZMAError, SchemaParseException, SchemaResolutionError,
)  # fmt: skip
PART_BYTES: Final = 4 << 20  # read at once, as they become objects
BLOCK_BYTES: Final = 256 << 20  # of a block, unpacked
BLOCK_ROWS: Final = 10_000_000
SYNC_BYTES: Final = 16  # after each block


def read_avro(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return the columns `names`; `locate` counts records from 1 instead of lines.

    `optional` columns may be missing.

    Raises: InvalidRequest for a file that is not Avro or whose fields are not the declared ones.
    Cost: the file, or piece of it, in memory, as Python objects.
    """
    schema, records = avro_records(source)
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    check_columns(source.name, list(fields), names, optional=optional)
    columns = {
        name: column([record[name] for record in records], fields[name])
        for name in names
        if name in fields
    }

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


def avro_records(source: SourceFile) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the writer's schema with names resolved, and the records of a file as stored.

    Raises: InvalidRequest for a file that is not Avro or not of records.
    """
    data = read_bytes(source)
    _check_blocks(source, data)
    try:
        schema: Any = fastavro.reader(io.BytesIO(data)).writer_schema
        records: Any = list(fastavro.reader(io.BytesIO(without_logical(data))))
    except DAMAGED as error:
        raise _unreadable(source, str(error)) from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _unreadable(source, "its schema is no record")
    return schema, records


def _check_blocks(source: SourceFile, data: bytes) -> None:
    """Refuse blocks that hold more than a reader can: a few bytes may unpack to any size.

    Raises: InvalidRequest.
    """
    _, blocks = avro_layout(source, io.BytesIO(data), stop=len(data))
    codec = fastavro.reader(io.BytesIO(data)).codec
    for start, stop, rows in blocks:
        stream = io.BytesIO(data[start : stop - SYNC_BYTES])
        _long(stream), _long(stream)
        try:
            size = unpacked_size(codec, stream.read(), BLOCK_BYTES)
        except DAMAGED as error:
            raise _unreadable(source, str(error)) from error
        if size > BLOCK_BYTES or rows > BLOCK_ROWS:
            raise InvalidRequest(
                "a block of the file holds too much",
                file=source.name, byte=start, rows=rows, most_rows=BLOCK_ROWS,
                most_bytes=BLOCK_BYTES, cure="write it with smaller blocks",
            )  # fmt: skip


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
        return _varint(io.BytesIO(data))
    if codec == "lz4":  # fastavro puts four bytes of length in front
        return int.from_bytes(data[:4], "little")
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
        "not a readable Avro file", file=source.name, reason=reason, cure="check source.format"
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
        """Yield a file or piece in parts that are read at once."""
        if is_packed(file) or (file.piece is None and file.size_bytes <= PART_BYTES):
            yield file
            return
        start = 0 if file.piece is None else file.piece.start
        stop = file.size_bytes if file.piece is None else file.piece.stop
        with open_file(file) as stream:
            header, blocks = avro_layout(file, stream, start, stop)
            before, at = file.before, 0
            while at < len(blocks):
                first, end, rows = blocks[at]
                while at + 1 < len(blocks) and blocks[at + 1][1] - first <= PART_BYTES:
                    at += 1
                    end, rows = blocks[at][1], rows + blocks[at][2]
                at += 1
                stream.seek(first)
                data = header + stream.read(end - first)
                yield replace(
                    file, piece=FileRange(first, end, end - first, before, header, data=data)
                )
                before += rows
            if not blocks:
                yield replace(file, piece=FileRange(start, stop, 0, before, header, data=header))

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
        schema, records = avro_records(file)
        kinds = {field["name"]: arrow_of(field["type"]) for field in schema["fields"]}
        return {name: (guess_arrow(kind), True) for name, kind in kinds.items()}, len(records)


FORMAT = Avro()
