"""Texts in other encodings become UTF-8; a byte that is none of its encoding stays known."""

import io
from dataclasses import replace
from encodings import aliases

import pytest

from strata.errors import InvalidRequest
from strata.ingest.land import recode
from strata.ingest.land.files import SourceFile, text_in
from strata.ingest.land.recode import (
    check_mark,
    encoding_said,
    forbidden,
    is_cut_at_bytes,
    kept_text,
    recoded,
    said_header,
    shown_text,
    why_no_text,
)
from strata.ingest.land.source_file import Dialect
from strata.model.charsets import parse_encoding

FILE = SourceFile("/x.csv", "x.csv", 9)


def in_encoding(encoding: str) -> SourceFile:
    return replace(FILE, dialect=Dialect(encoding=encoding))


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        ("iso8859-1", b"gr\xf6\xdfe", "größe"),
        ("cp1252", b"5\x80", "5€"),
        ("cp932", b"\x93\xfa\x96{\x81\x5c", "日本―"),
        ("cp037", b"\x81\x6b\x82", "a,b"),
        ("utf-16", "\ufeffa;ü".encode("utf-16-be"), "a;ü"),
        ("utf-16", "\ufeffa;ü".encode("utf-16-le"), "a;ü"),
        ("utf-32-le", "𝔘".encode("utf-32-le"), "𝔘"),
        ("iso2022-jp", b"\x1b$BF|K\\\x1b(B,a", "日本,a"),
        ("gb18030", "€𝔘".encode("gb18030"), "€𝔘"),
    ],
)
def test_a_text_becomes_utf8(encoding: str, data: bytes, text: str) -> None:
    assert recoded(data, encoding) == text.encode()


def test_utf8_stays_what_it_is_with_all_its_errors() -> None:
    assert recoded(b"a\xff\xed\xb2\x81", "utf-8") == b"a\xff\xed\xb2\x81"


@pytest.mark.parametrize(
    ("encoding", "data", "byte", "rest"),
    [
        ("cp1252", b"a\x81\nb", 0x81, b"\nb"),
        ("ascii", b"\xfc\n", 0xFC, b"\n"),
        ("iso8859-3", b"\xc3\xa5\n", 0xC3, b"\n"),  # together they would be UTF-8
        ("cp932", b"\x81\nb", 0x81, b"\nb"),
        ("cp932", b"\x81", 0x81, b""),
        ("euc-jp", b'\x8f\xa2",\n', 0x8F, b'",\n'),
        ("euc-jp", b"\x8f\nb", 0x8F, b"\nb"),  # Python takes both bytes for one letter
        ("gb18030", b"\x810\nb", 0x81, b"0\nb"),
        ("gb18030", b"\x810", 0x81, b"0"),  # Python's decoders end after the first
        ("big5", b"a\xa1", 0xA1, b""),
        ("iso2022-jp", b"\x1b$\nb", 0x1B, b"$\nb"),
        ("utf-16-le", b"\x00\xd8\n\x00", 0x00, b"\n"),
        ("utf-16-le", b"a\x00\n", 0x0A, b""),  # cut within its last letter
        ("utf-32-be", b"\0\0\xd8\0\0\0\0\n", 0x00, b"\n"),
    ],
)
def test_a_forbidden_byte_is_known_and_ends_no_row(
    encoding: str, data: bytes, byte: int, rest: bytes
) -> None:
    text = recoded(data, encoding)

    assert forbidden(text) == byte
    assert text.endswith(rest)
    with pytest.raises(UnicodeDecodeError):
        text.decode()


def test_a_forbidden_byte_is_shown_as_it_was() -> None:
    text = recoded(b"M\xfcll\x81r", "cp1252")

    assert shown_text(text, "cp1252") == "Müll\\x81r"
    assert shown_text(b"M\xfc", "utf-8") == "M\\xfc"
    assert why_no_text(text, "cp1252").startswith("the byte 0x81 is none of cp1252: declare ")
    assert why_no_text(b"\xfc", "utf-8").startswith("its bytes are not UTF-8: declare ")


def test_a_text_can_be_cut_where_each_byte_is_a_character() -> None:
    cut = {"utf-8", "ascii", "iso8859-1", "cp1252", "cp437", "koi8-r", "mac-roman", "tis-620"}
    whole = {"utf-16", "utf-16-le", "utf-32", "cp932", "shift-jis", "gb18030", "big5", "euc-jp"}
    whole |= {"cp037", "cp500", "iso2022-jp", "hz", "cp864", "mac-arabic"}

    assert {name for name in cut | whole if is_cut_at_bytes(name)} == cut


def test_no_two_bytes_are_one_letter_where_texts_can_be_cut() -> None:
    every = [name for name in aliases.aliases.values() if not name.endswith("codec")]
    cut = [name for name in every if _is_encoding(name) and is_cut_at_bytes(parse_encoding(name))]

    assert len(cut) > 50
    for name in cut:
        assert len({recoded(bytes([byte]), parse_encoding(name)) for byte in range(256)}) == 256


def _is_encoding(name: str) -> bool:
    try:
        parse_encoding(name)
    except InvalidRequest:
        return False
    return True


@pytest.mark.parametrize("wide", ["utf-16", "utf-32"])
def test_wide_letters_without_a_mark_need_their_order(wide: str) -> None:
    with pytest.raises(InvalidRequest, match=f"not begin with the mark of {wide}") as refused:
        check_mark(FILE, wide, b"a\0\0\0")
    assert refused.value.details["file"] == "x.csv"
    assert f"{wide}-le" in (refused.value.cure or "")
    check_mark(FILE, wide, "\ufeffa".encode(f"{wide}-be"))
    check_mark(FILE, wide, b"")


@pytest.mark.parametrize(
    ("encoding", "start", "cure"),
    [
        ("cp1252", b"\xff\xfea\0", "source.encoding: utf-16"),
        ("cp1252", b"\xef\xbb\xbfid", "source.encoding: utf-8"),
        ("utf-16-le", b"\xfe\xff\0a", "source.encoding: utf-16"),
        ("utf-16", b"\xff\xfe\0\0", "source.encoding: utf-32"),
        ("utf-16-be", b"\xef\xbb\xbfid", "source.encoding: utf-8"),
    ],
)
def test_a_file_that_begins_otherwise_than_declared_is_refused(
    encoding: str, start: bytes, cure: str
) -> None:
    with pytest.raises(InvalidRequest, match="begin") as refused:
        text_in(in_encoding(encoding), start)
    assert refused.value.cure == cure


def test_the_mark_of_the_declared_order_is_no_letter() -> None:
    wide = text_in(in_encoding("utf-16-le"), b"\xff\xfea\0")
    assert wide == "\ufeffa".encode()  # readers take it off
    assert text_in(in_encoding("cp1252"), b"id") == b"id"
    check_mark(FILE, "utf-8", b"\xff\xfe")  # `read_text` says more about it


def test_a_stream_is_recoded_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recode, "CHUNK_BYTES", 3)
    seen: list[bytes] = []
    data = "\ufeffaü€𝔘".encode("utf-16-be")
    stream = recode.Converted(io.BytesIO(data), recode.utf8_of("utf-16"), seen.append)

    found = [stream.read(1), stream.read(2), stream.read(), stream.read(), stream.read(5)]

    assert b"".join(found) == "aü€𝔘".encode()
    assert list(map(len, found)) == [1, 2, 7, 0, 0]
    assert seen == [data[:3]]


def test_a_row_is_read_anew_by_the_encoding_that_is_declared_now() -> None:
    row = recoded(b"M\xfc\x81r", "cp1252")
    header = said_header("id;name", row.decode(errors="surrogateescape"), "cp1252")
    said, names = encoding_said(header)

    assert (said, names) == ("cp1252", "id;name")
    assert kept_text(row, said, "cp1252") == row
    assert kept_text(row, said, "iso8859-1") == "Mü\x81r".encode()
    assert kept_text(row, said, "utf-8") == b"M\xfc\x81r"


def test_a_row_whose_meaning_was_known_keeps_it() -> None:
    assert said_header("id", "Müller", "cp1252") == "id"
    assert encoding_said("id") == (None, "id")
    assert encoding_said(None) == (None, "")
    assert kept_text("Müller".encode(), None, "cp1252") == "Müller".encode()
    assert kept_text(b"M\xfcller", None, "cp1252") == "Müller".encode()
    assert kept_text(b"M\xfcller", None, "utf-16") == b"M\xfcller"


def test_bytes_that_nobody_knows_stay_a_row_that_is_rejected() -> None:
    """Two pairs of bytes of windows-31j are one character, and nobody knows which it was."""
    row = recoded(b"\xfa\x54\x81", "cp932")

    assert kept_text(row, "cp932", "iso8859-1") == row
    assert kept_text(recoded(b"\x00\xd8", "utf-16-le"), "utf-16-le", "cp1252") == recoded(
        b"\x00\xd8", "utf-16-le"
    )


def test_the_dialect_of_a_file_is_that_of_its_source() -> None:
    assert replace(FILE, dialect=Dialect(encoding="cp1252")).dialect.encoding == "cp1252"
