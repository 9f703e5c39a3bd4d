"""Arrow tables as bytes; small ones are packed as a whole, for their schema outweighs a few rows.

A packed table has plain columns, which are read where they lie. Columns of others are compressed
one by one, so that a reader decompresses only those that it needs. Earlier versions compressed both
ways at once; that is read, too.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from strata.errors import Corrupt

MAGIC: Final = b"\x28\xb5\x2f\xfd"
CODEC: Final = "zstd"
UNPACKED_MAX: Final = 64 << 20  # bytes; a blob that claims more is not a small one
_STEP_BYTES: Final = 1 << 20
_ALONE_BYTES: Final = 4 << 20  # a smaller table is read sooner by one thread than by several


def encode_table(table: pa.Table, packed_max: int, piece_rows: int | None = None) -> bytes:
    """Return a table as an Arrow file; equal tables give equal bytes.

    It is packed if it then takes at most `packed_max` bytes beforehand. `piece_rows`: rows of each
    piece that can be read by itself; None: one piece.
    """
    if table.nbytes <= packed_max:
        plain = _arrow_file(table, None, piece_rows)
        if len(plain) <= packed_max:
            return pack(plain)
    data = _arrow_file(table, CODEC, piece_rows)
    return pack(data) if len(data) <= packed_max else data


def _arrow_file(table: pa.Table, codec: str | None, piece_rows: int | None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=piece_rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def open_table(
    data: bytes, columns: Sequence[int] | None = None, *, threads: bool = True
) -> pa.ipc.RecordBatchFileReader:
    """Open bytes of `encode_table` that are unpacked; `columns`: the numbers of those to read."""
    several = threads and len(data) > _ALONE_BYTES
    options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=several)
    return pa.ipc.open_file(pa.BufferReader(data), options=options)


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
