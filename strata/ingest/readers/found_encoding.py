"""Finds the encoding of CSV files to infer from.

A mark shows UTF-16 and UTF-32, and what is valid UTF-8 is hardly ever anything else. Nothing shows
which other encoding a text is in, so a person says it.
"""

import codecs
from collections.abc import Sequence
from typing import Final

from strata.errors import InvalidRequest
from strata.ingest.land.files import Reading, SourceFile, check_is_text, unpacked, wide_encoding
from strata.ingest.land.recode import MARK_BYTES, NEED_A_MARK
from strata.model.charsets import UTF_8, parse_encoding

CHUNK_BYTES: Final = 1 << 20
NEAR: Final = 20  # bytes before and behind one that is not UTF-8, to be shown
_ASK: Final = "--encoding windows-1252, or what else the file is written in"


def encoding_of(files: Sequence[SourceFile], looked_bytes: int, asked: str | None = None) -> str:
    """Return the encoding of files: the one that is asked for, else the one that they show.

    Raises: InvalidRequest for a file that is not UTF-8 and has no mark, and for files of several
    encodings. Cost: reads `looked_bytes` of each.
    """
    if asked is not None:
        return parse_encoding(asked)
    found: dict[str, str] = {}
    for file in files:
        found.setdefault(_shown(file, looked_bytes), file.name)
    if len(found) > 1:
        raise InvalidRequest(
            "the files are not in one encoding",
            file=[*found.values()][1],
            encodings=sorted(found),
            cure="infer from those of one, or convert some, as by iconv -f UTF-16 -t UTF-8",
        )
    return next(iter(found))


def _shown(file: SourceFile, looked_bytes: int) -> str:
    """Return the encoding that a file shows. Raises: InvalidRequest."""
    with unpacked(file) as stream:
        start = stream.read(CHUNK_BYTES)
        wide = wide_encoding(start[:MARK_BYTES])
        if wide is None:
            check_is_text(file, start)
            _check_utf8(file, start, stream, looked_bytes)
            return UTF_8
    if wide in NEED_A_MARK:
        return wide
    raise InvalidRequest(
        "the file is not UTF-8: it begins as UTF-16 or UTF-32 does",
        file=file.name,
        line=1,
        value=start[:MARK_BYTES].decode("ascii", errors="backslashreplace"),
        cure=f"--encoding {wide}",
    )


def _check_utf8(file: SourceFile, chunk: bytes, stream: Reading, looked_bytes: int) -> None:
    """Refuse a text that is not UTF-8 in its first bytes."""
    decoder = codecs.getincrementaldecoder(UTF_8)()
    lines, looked = 1, 0
    ended = False
    while not ended and looked < looked_bytes:
        ended = not chunk
        try:
            lines += decoder.decode(chunk, ended).count("\n")
        except UnicodeDecodeError as error:
            text, at = error.object, error.start
            near = text[max(0, at - NEAR) : at + NEAR]
            raise InvalidRequest(
                "the file is not UTF-8",
                file=file.name,
                line=lines + text.count(b"\n", 0, at),
                byte=f"0x{text[at]:02x}",
                value=near.decode(errors="backslashreplace"),
                cure=f"{_ASK}; --encoding utf-8 if rows like it are to be rejected",
            ) from error
        looked += len(chunk)
        chunk = b"" if ended else stream.read(CHUNK_BYTES)
