"""Small blobs packed as a whole: zstd around Arrow, whose schema outweighs a few rows."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from strata.errors import Corrupt

MAGIC: Final = b"\x28\xb5\x2f\xfd"
CODEC: Final = "zstd"
UNPACKED_MAX: Final = 64 << 20  # bytes; a blob that claims more is not a small one
_STEP_BYTES: Final = 1 << 20


def pack(data: bytes) -> bytes:
    """Return packed bytes, which `unpack` reads; equal input gives equal output."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, CODEC) as out:
        out.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(data: bytes) -> bytes:
    """Return the bytes that were packed; bytes that are not packed are returned unchanged.

    Raises: Corrupt if they are damaged, or unpack to more than `UNPACKED_MAX`.
    """
    if not data.startswith(MAGIC):
        return data
    try:
        found = b"".join(unpacked_pieces(data, CODEC, UNPACKED_MAX))
    except (pa.ArrowException, OSError) as error:
        raise Corrupt("packed bytes are damaged", reason=str(error)) from error
    if len(found) > UNPACKED_MAX:
        raise Corrupt("packed bytes unpack to too many", limit=UNPACKED_MAX)
    return found


def unpacked_pieces(data: bytes, codec: str, most: int) -> Iterator[pa.Buffer]:
    """Yield what bytes unpack to, piece by piece, until there is more than `most`.

    Raises: ArrowException or OSError for damaged bytes.
    """
    # Not `read`: in PyArrow 26 it never frees the room it has made when the codec fails. In steps,
    # so that a small blob does not make room for the largest.
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while most >= 0 and (piece := stream.read_buffer(_STEP_BYTES)).size:
            most -= piece.size
            yield piece
