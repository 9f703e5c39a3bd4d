"""Unpacks blocks of Avro for which fastavro wants libraries: snappy, zstandard and lz4.

Spark packs by snappy unless its settings say otherwise. Arrow unpacks all three, so such a file is
handed to fastavro with plain blocks.
"""

import io
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import fastavro
import pyarrow as pa

from strata.format.pack import unpacked_pieces
from strata.ingest.readers.avro_values import HEADER

CODEC: Final = "avro.codec"
PLAIN: Final = "null"
CRC_BYTES: Final = 4  # behind a block of snappy
LENGTH_BYTES: Final = 4  # in front of a block of lz4, which fastavro alone writes
SIZE_MAX: Final = 1 << 31  # of a block, unpacked; readers limit it before


def length_of(data: bytes) -> int:
    """Return the length that bytes packed by snappy state of themselves."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size
        shift += 7
    raise ValueError("a block of snappy states no length")


def _snappy(data: bytes) -> bytes:
    packed, stated = data[:-CRC_BYTES], data[-CRC_BYTES:]
    found: bytes = pa.decompress(packed, length_of(packed), "snappy", asbytes=True)
    if zlib.crc32(found).to_bytes(CRC_BYTES, "big") != stated:
        raise ValueError("a block of snappy has another checksum")
    return found


def _zstandard(data: bytes) -> bytes:
    return b"".join(unpacked_pieces(data, "zstd", SIZE_MAX))


def _lz4(data: bytes) -> bytes:
    size = int.from_bytes(data[:LENGTH_BYTES], "little")
    found: bytes = pa.decompress(data[LENGTH_BYTES:], size, "lz4_raw", asbytes=True)
    return found


_UNPACKED: Final[Mapping[str, Callable[[bytes], bytes]]] = MappingProxyType(
    {"snappy": _snappy, "zstandard": _zstandard, "lz4": _lz4}
)
CODECS: Final = (PLAIN, "deflate", "bzip2", "xz", *_UNPACKED)


def with_plain_blocks(data: bytes) -> bytes:
    """Return an Avro file with the same records whose blocks need no other library.

    Raises: what fastavro raises for an invalid header; ValueError, EOFError and those of Arrow for
    damaged blocks.
    """
    stream = io.BytesIO(data)
    header: Any = fastavro.schemaless_reader(stream, HEADER, None)
    unpack = _UNPACKED.get(header["meta"].get(CODEC, b"").decode())
    if unpack is None:
        return data
    header["meta"][CODEC] = PLAIN.encode()
    out = io.BytesIO()
    fastavro.schemaless_writer(out, HEADER, header)
    while stream.tell() < len(data):
        fastavro.schemaless_writer(out, "long", fastavro.schemaless_reader(stream, "long", None))
        block: Any = fastavro.schemaless_reader(stream, "bytes", None)
        fastavro.schemaless_writer(out, "bytes", unpack(block))
        out.write(stream.read(len(header["sync"])))
    return out.getvalue()
