"""The slow twins of recoding: byte by byte, and the whole text at once."""

import codecs
from typing import Any


def at_once(data: bytes, encoding: str) -> bytes:
    """Return a text as UTF-8, from one call of Python's decoder."""
    wide = encoding.startswith(("utf-16", "utf-32"))
    text = data.decode(encoding, "twin.unit" if wide else "twin.byte")
    return text.encode("utf-8", "surrogatepass")


def _byte(error: Any) -> tuple[str, int]:
    return chr(0xDC00 | error.object[error.start]), error.start + 1


def _unit(error: Any) -> tuple[str, int]:
    return "".join(chr(0xDC00 | b) for b in error.object[error.start : error.end]), error.end


codecs.register_error("twin.byte", _byte)
codecs.register_error("twin.unit", _unit)


def byte_by_byte(data: bytes, encoding: str) -> bytes:
    """Return a text as UTF-8; a forbidden byte as U+DC00 + byte would be, if UTF-8 had it."""
    found = b""
    for byte in data:
        try:
            found += bytes([byte]).decode(encoding).encode()
        except UnicodeDecodeError:
            found += bytes([0xED, 0xB0 | byte >> 6, 0x80 | byte & 0x3F])
    return found
