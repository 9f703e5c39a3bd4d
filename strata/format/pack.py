"""Small blobs packed as a whole: zstd around Arrow, whose schemas weigh more than few rows."""

from typing import Final

import pyarrow as pa

from strata.errors import Corrupt

MAGIC: Final = b"\x28\xb5\x2f\xfd"
CODEC: Final = "zstd"
UNPACKED_MAX: Final = 64 << 20  # bytes; what claims to be more is no small blob


def pack(data: bytes) -> bytes:
    """Return bytes as `unpack` reads them; equal bytes give equal ones."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, CODEC) as out:
        out.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(data: bytes) -> bytes:
    """Return the bytes that were packed; those that are not packed as they are.

    Raises: Corrupt where they are damaged, or unpack to more than `UNPACKED_MAX`.
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
