"""Small blobs packed as a whole: zstd around Arrow, whose schema outweighs a few rows."""

from typing import Final

import pyarrow as pa

from strata.errors import Corrupt

MAGIC: Final = b"\x28\xb5\x2f\xfd"
CODEC: Final = "zstd"
UNPACKED_MAX: Final = 64 << 20  # bytes; a blob that claims more is not a small one


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
        with pa.CompressedInputStream(pa.BufferReader(data), CODEC) as stream:
            found: bytes = stream.read(UNPACKED_MAX + 1)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt("packed bytes are damaged", reason=str(error)) from error
    if len(found) > UNPACKED_MAX:
        raise Corrupt("packed bytes unpack to too many", limit=UNPACKED_MAX)
    return found
