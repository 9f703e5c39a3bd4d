"""What the end of an ORC file says, and Arrow does not: its calendar, and the zone of its clock.

Source: the specification of ORC v1: the footer is a message of Protobuf in compressed chunks, and
so is that of each stripe.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from strata.format.pack import unpacked_pieces

MOST_BYTES: Final = 64 << 20  # of a footer, unpacked
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # Protobuf's forms
STRIPES, CALENDAR = 3, 11  # fields of the footer
OFFSET, INDEX_BYTES, DATA_BYTES, FOOTER_BYTES = 1, 2, 3, 4  # of a stripe, in the footer
ZONE: Final = 3  # of the footer of a stripe
PROLEPTIC: Final = 2
LITERALS_MORE: Final = 15  # in a token of LZ4: the length goes on behind it
LEAST_MATCH: Final = 4


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The facts of a file that its rows do not show."""

    proleptic: bool  # days are counted by today's calendar for ever; False: nothing says so
    zones: tuple[str, ...]  # of the writers' clocks, by which times without a zone are stored


def orc_tail(stream: Any, opened: Any) -> OrcTail:
    """Return the facts of a file; `opened`: the same as an `ORCFile`.

    Raises: ValueError, OSError and errors of Arrow for a damaged file.
    """
    try:
        return _tail(stream, opened)
    except (IndexError, TypeError, AttributeError, zlib.error) as error:
        raise ValueError(f"its footer is damaged: {error}") from error


def _tail(stream: Any, opened: Any) -> OrcTail:
    codec = str(opened.compression).lower()
    behind = opened.file_length - 1 - opened.file_postscript_length
    footer = _message(stream, behind - opened.file_footer_length, opened.file_footer_length, codec)
    calendar, zones = 0, []
    for number, value in footer:
        if number == CALENDAR:
            calendar = value
        elif number == STRIPES:
            stripe = dict(_fields(value))
            start = sum(stripe.get(part, 0) for part in (OFFSET, INDEX_BYTES, DATA_BYTES))
            facts = dict(_message(stream, start, stripe.get(FOOTER_BYTES, 0), codec))
            zones.append(facts.get(ZONE, b"").decode())
    return OrcTail(calendar == PROLEPTIC, tuple(sorted({zone for zone in zones if zone})))


def _message(stream: Any, start: int, length: int, codec: str) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message that lies in a file, in chunks."""
    if not 0 <= length <= MOST_BYTES or start < 0:
        raise ValueError("a footer of an impossible length")
    stream.seek(start)
    data = stream.read(length)
    if codec == "uncompressed":
        return _fields(data)
    found, at = bytearray(), 0
    while at + 3 <= len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + (head >> 1)]
        found += chunk if head & 1 else _unpacked(chunk, codec)
        at += 3 + (head >> 1)
        if len(found) > MOST_BYTES:
            raise ValueError("a footer that is too long")
    return _fields(bytes(found))


def _unpacked(chunk: bytes, codec: str) -> bytes:
    if codec == "zlib":
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk, MOST_BYTES + 1)
    if codec == "zstd":
        return b"".join(unpacked_pieces(chunk, "zstd", MOST_BYTES))
    size = _varint(chunk, 0)[0] if codec == "snappy" else _lz4_size(chunk)
    if size > MOST_BYTES:
        raise ValueError("a footer that is too long")
    name = "snappy" if codec == "snappy" else "lz4_raw"
    found: bytes = pa.Codec(name).decompress(chunk, size, asbytes=True)
    return found


def _lz4_size(chunk: bytes) -> int:
    """Return how many bytes a block of LZ4 unpacks to; nothing in it says so."""
    at = size = 0
    while at < len(chunk):
        token = chunk[at]
        literals, at = _length(chunk, at + 1, token >> 4)
        at, size = at + literals, size + literals
        if at < len(chunk):
            match, at = _length(chunk, at + 2, token & LITERALS_MORE)
            size += match + LEAST_MATCH
    return size


def _length(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    if length == LITERALS_MORE:
        while chunk[at] == 0xFF:
            length, at = length + 0xFF, at + 1
        length, at = length + chunk[at], at + 1
    return length, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field that is a number or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        form = tag & 7
        if form == VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif form == BYTES:
            length, at = _varint(data, at)
            yield tag >> 3, data[at : at + length]
            at += length
        elif form in (FIXED64, FIXED32):
            at += 8 if form == FIXED64 else 4
        else:
            raise ValueError("a footer of another form")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
