"""Unpacks .xz within a limit of memory: a small file may ask for a window of gigabytes.

Python's own reader has no limit. It also ends at the padding that may stand between two streams,
and at anything else behind the first one, as if the file were over.
"""

import io
import lzma
from typing import Any, Final

WINDOW_BYTES: Final = 128 << 20  # `xz -9` asks for 65 MiB
READ_BYTES: Final = 1 << 16


class XzStream(io.RawIOBase):
    """The unpacked bytes of one or more .xz streams, from the first to the last.

    Raises: lzma.LZMAError for what is no stream, is damaged, or asks for more than WINDOW_BYTES;
    EOFError where the last stream is cut.
    """

    def __init__(self, stored: Any) -> None:
        """Begin at the first byte of a file."""
        self._stored = stored
        self._packed = b""  # read, and not unpacked
        self._stream: lzma.LZMADecompressor | None = None
        self._begun = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer, or a part of it, with the next bytes; 0: the end."""
        room = memoryview(buffer).cast("B")
        while self._stream is not None or self._next():
            assert self._stream is not None
            if self._stream.eof:
                self._packed, self._stream = self._stream.unused_data, None
                continue
            if self._stream.needs_input and not self._packed:
                self._packed = self._stored.read(READ_BYTES)
                if not self._packed:
                    raise EOFError("the file ends in the middle of a stream")
            data = self._unpacked(self._stream, len(room))
            if data:
                room[: len(data)] = data
                return len(data)
        return 0

    def _next(self) -> bool:
        """Begin the next stream, behind padding; return whether there is one."""
        while True:
            if self._begun:
                self._packed = self._packed.lstrip(b"\0")
            if self._packed:
                break
            self._packed = self._stored.read(READ_BYTES)
            if not self._packed:
                if self._begun:
                    return False
                raise EOFError("the file is empty")
        self._begun = True
        self._stream = lzma.LZMADecompressor(memlimit=WINDOW_BYTES)
        return True

    def _unpacked(self, stream: lzma.LZMADecompressor, most: int) -> bytes:
        packed, self._packed = self._packed, b""
        try:
            return stream.decompress(packed, most)
        except lzma.LZMAError as error:
            if "limit" not in str(error):
                raise
            raise lzma.LZMAError(
                f"it asks for a window of more than {WINDOW_BYTES >> 20} MiB; "
                "pack it by xz -9 or less"
            ) from error
