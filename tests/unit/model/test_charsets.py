"""Names of encodings: each has one, and what is no encoding of texts has none."""

import encodings.aliases

import pytest

from strata.errors import InvalidRequest
from strata.model.charsets import parse_encoding


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("latin-1", "iso8859-1"),
        ("ISO_8859-15", "iso8859-15"),
        ("windows-1252", "cp1252"),
        ("windows-31j", "cp932"),
        ("Windows-874", "cp874"),
        ("Shift_JIS", "shift-jis"),
        ("UTF8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("utf16", "utf-16"),
        ("UTF-16BE", "utf-16-be"),
        ("koi8_t", "koi8-t"),
    ],
)
def test_an_encoding_is_stored_by_one_name(given: str, stored: str) -> None:
    assert parse_encoding(given) == stored
    assert parse_encoding(stored) == stored


@pytest.mark.parametrize(
    "given",
    [
        *("", "klingon", "hex", "base64", "rot13", "zlib", "idna", "utf-7", "unicode_escape"),
        *("undefined", "raw_unicode_escape", "punycode", "charmap", "mbcs", "windows-31k"),
        *("a.b", "a\0b", "\ud800", 5, None),
    ],
)
def test_what_is_no_encoding_of_texts_is_refused_with_examples(given: object) -> None:
    with pytest.raises(InvalidRequest, match="no encoding of texts") as refused:
        parse_encoding(given)
    assert refused.value.details["value"] == given
    assert "windows-1252" in (refused.value.cure or "")


def test_no_encoding_gives_halves_of_characters() -> None:
    """They stand for forbidden bytes, see `strata.ingest.land.recode`."""
    for name in {*encodings.aliases.aliases.values(), "palmos", "koi8_t", "mac_arabic"}:
        try:
            encoding = parse_encoding(name)
        except InvalidRequest:
            continue
        for first in range(256):
            for data in (bytes([first]), bytes([first, 0xD8]), bytes([0xD8, first])):
                try:
                    text = data.decode(encoding)
                except UnicodeError:
                    continue
                text.encode()
