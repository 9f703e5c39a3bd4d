"""The slow twin of recoding: a text of one byte a character, byte by byte."""


def byte_by_byte(data: bytes, encoding: str) -> bytes:
    """Return a text as UTF-8; a forbidden byte as U+DC00 + byte would be, if UTF-8 had it."""
    found = b""
    for byte in data:
        try:
            found += bytes([byte]).decode(encoding).encode()
        except UnicodeDecodeError:
            found += bytes([0xED, 0xB0 | byte >> 6, 0x80 | byte & 0x3F])
    return found
