"""Reads texts in other encodings as UTF-8, some of their bytes at a time.

All that is behind this room sees UTF-8. A byte that its encoding forbids is never replaced: it
becomes the three bytes that UTF-8 would give the half of a character U+DC00 + byte, which no UTF-8
has. So the field is no text, its row is rejected, and the byte is known (`forbidden`). In encodings
of one byte for most characters that byte alone is taken, so that a line break behind it still ends
the row; in UTF-16 and UTF-32 it is the whole unit.
"""

import codecs
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from strata.errors import InvalidRequest
from strata.ingest.land.source_file import SourceFile
from strata.model.charsets import UTF_8

MARKS: Final = {  # with which files begin; the longer ones first
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: UTF_8,
}
MARK_BYTES: Final = 4
NEED_A_MARK: Final = ("utf-16", "utf-32")  # without one, each machine reads them otherwise
_STATEFUL: Final = ("hz", "iso2022")  # letters of ASCII switch the meaning of what follows
CHUNK_BYTES: Final = 1 << 20
_CURE: Final = "declare source.encoding as the file is written, and retry; or mend the file"
_HALF: Final = 0xDC00
_FORBIDDEN: Final = re.compile(rb"\xed([\xb0-\xb3])([\x80-\xbf])")  # U+DC00 to U+DCFF
_SAID: Final = re.compile("\0encoding=([a-z0-9-]+);(.*)", re.DOTALL)
_BYTE, _UNIT, _BACK = "strata.byte", "strata.unit", "strata.back"  # of handlers of errors


def _one_byte(error: Any) -> tuple[str, int]:
    """Return the half that stands for a forbidden byte, and where reading goes on."""
    return chr(_HALF + error.object[error.start]), error.start + 1


def _whole_unit(error: Any) -> tuple[str, int]:
    bytes_of_it = error.object[error.start : error.end]
    return "".join(chr(_HALF + byte) for byte in bytes_of_it), error.end


def _as_it_was(error: Any) -> tuple[bytes, int]:
    """Return the byte that a half stands for. Raises: the error, for any other character."""
    byte = ord(error.object[error.start]) - _HALF
    if not 0 <= byte <= 255:
        raise error
    return bytes([byte]), error.start + 1


codecs.register_error(_BYTE, _one_byte)
codecs.register_error(_UNIT, _whole_unit)
codecs.register_error(_BACK, _as_it_was)


def is_wide(encoding: str) -> bool:
    """Return whether all characters of an encoding have two or four bytes."""
    return encoding.startswith(("utf-16", "utf-32"))


def decoder_of(encoding: str) -> Any:
    """Return what decodes a text chunk by chunk, forbidden bytes as halves of characters."""
    return codecs.getincrementaldecoder(encoding)(_UNIT if is_wide(encoding) else _BYTE)


class Converted:
    """A text that is made from the chunks of another one."""

    def __init__(
        self,
        stream: Any,
        convert: Callable[[bytes], bytes],
        check: Callable[[bytes], None] | None = None,
    ) -> None:
        """Begin where the stream is; `check` sees its first bytes, if it is at its beginning.

        `convert` takes each chunk, and an empty one at the end.
        """
        self._stream, self._convert, self._check = stream, convert, check
        self._made = bytearray()
        self._ended = False

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; none: the end."""
        while not self._ended and (size < 0 or len(self._made) < size):
            chunk = self._stream.read(CHUNK_BYTES)
            if self._check is not None:
                self._check(chunk)
                self._check = None
            self._ended = not chunk
            self._made += self._convert(chunk)
        count = len(self._made) if size < 0 else size
        found = bytes(self._made[:count])
        del self._made[:count]
        return found


def utf8_of(encoding: str) -> Callable[[bytes], bytes]:
    """Return what gives the chunks of a text in an encoding as UTF-8; the last one is empty."""
    decoder = decoder_of(encoding)
    return lambda chunk: _utf8(decoder.decode(chunk) if chunk else _rest(decoder))


def recoded(data: bytes, encoding: str) -> bytes:
    """Return a text in an encoding as UTF-8; forbidden bytes become what `forbidden` finds.

    Cost: the text in memory, and once more as UTF-8.
    """
    if encoding == UTF_8:
        return data
    convert, starts = utf8_of(encoding), range(0, len(data), CHUNK_BYTES)
    return b"".join([*(convert(data[at : at + CHUNK_BYTES]) for at in starts), convert(b"")])


def _rest(decoder: Any) -> str:
    """Return the end of a text.

    Of several bytes that are no letter, Python's decoders of several bytes a letter give the
    handler of errors one, and keep those behind it.
    """
    found: list[str] = []
    while some := decoder.decode(b"", True):
        found.append(some)
    return "".join(found)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@cache
def is_cut_at_bytes(encoding: str) -> bool:
    """Return whether each byte is a character, and those of ASCII are what they are there.

    Such a text can be cut at a byte. Others have bytes of line breaks and delimiters within
    characters, or a state that all earlier bytes make.
    """
    if encoding == UTF_8:
        return True
    if encoding.startswith(_STATEFUL):
        return False
    ascii_bytes = bytes(range(128))
    try:
        if ascii_bytes.decode(encoding).encode() != ascii_bytes:
            return False
    except UnicodeError:
        return False
    others = [recoded(bytes([byte]), encoding) for byte in range(128, 256)]
    texts = [text.decode("utf-8", "surrogatepass") for text in others]
    each = all(len(text) == 1 and ord(text) >= 128 for text in texts)
    return each and recoded(bytes(range(128, 256)), encoding) == b"".join(others)


def encoding_by_mark(start: bytes) -> str | None:
    """Return the encoding whose mark a file begins with; None: it has no mark."""
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), None)


def check_mark(file: SourceFile, encoding: str, start: bytes) -> None:
    """Refuse a file that begins as a text in another encoding than the declared one does.

    Raises: InvalidRequest.
    """
    if encoding == UTF_8:
        return
    mark = encoding_by_mark(start)
    if encoding in NEED_A_MARK and start and mark != encoding:
        raise InvalidRequest(
            f"the file does not begin with the mark of {encoding}",
            file=file.name,
            line=1,
            value=_shown_start(start),
            cure=f"source.encoding: {mark}"
            if mark is not None
            else f"source.encoding: {encoding}-le, or {encoding}-be, which need no mark",
        )
    own = "\ufeff".encode(encoding) if is_wide(encoding) else b""
    if mark is not None and encoding not in NEED_A_MARK and not (own and start.startswith(own)):
        raise InvalidRequest(
            f"the file begins as {mark} does, and is declared as {encoding}",
            file=file.name,
            line=1,
            value=_shown_start(start),
            cure=f"source.encoding: {mark}",
        )


def _shown_start(start: bytes) -> str:
    return start[:16].decode("ascii", errors="backslashreplace")


def forbidden(text: bytes) -> int | None:
    """Return the first byte in a recoded text that its encoding forbids; None: there is none."""
    found = _FORBIDDEN.search(text)
    return None if found is None else _byte(found)


def _byte(found: re.Match[bytes]) -> int:
    return (found[1][0] & 3) << 6 | found[2][0] & 0x3F


def why_no_text(text: bytes, encoding: str) -> str:
    """Return why a field is no text, and what to do."""
    byte = None if encoding == UTF_8 else forbidden(text)
    if byte is None:
        return f"its bytes are not UTF-8: {_CURE}"
    return f"the byte 0x{byte:02x} is none of {encoding}: {_CURE}"


def shown_text(text: bytes, encoding: str) -> str:
    r"""Return a recoded text for people; a forbidden byte is shown as in \x81."""
    if encoding != UTF_8:
        text = _FORBIDDEN.sub(lambda found: rb"\x%02x" % _byte(found), text)
    return text.decode(errors="backslashreplace")


def said_header(header: str | None, text: str, encoding: str) -> str | None:
    """Return the header to keep beside a rejected row, whose text may have forbidden bytes.

    Then it says in front in which encoding the row was read, so that `kept_text` reads it anew.
    """
    if encoding == UTF_8 or forbidden(text.encode(errors="surrogateescape")) is None:
        return header
    return f"\0encoding={encoding};{header or ''}"


def encoding_said(header: str | None) -> tuple[str | None, str]:
    """Return the encoding that a kept header says, and the header."""
    found = _SAID.fullmatch(header or "")
    return (None, header or "") if found is None else (found[1], found[2])


def kept_text(raw: bytes, said: str | None, encoding: str) -> bytes:
    """Return the text of a rejected row, read by the encoding that is declared now.

    `said`: in which it was read before, if it had forbidden bytes then. A row that is UTF-8 stays
    what it is: its meaning was known.
    """
    own = raw if said is None else _own_bytes(raw, said)
    if own is None or (said is None and _is_utf8(raw)):
        return raw
    try:
        return recoded(own, encoding)
    except UnicodeError:  # a row without the mark that the encoding needs
        return raw


def _own_bytes(text: bytes, encoding: str) -> bytes | None:
    """Return the bytes that a recoded text had in its file; None: nobody knows them.

    In encodings of several bytes a letter some letters have two spellings. In no other are two
    bytes one letter.
    """
    if not is_cut_at_bytes(encoding):
        return None
    try:
        return text.decode("utf-8", "surrogatepass").encode(encoding, _BACK)
    except UnicodeError:
        return None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
