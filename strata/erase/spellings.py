"""How a term may be spelt in stored texts: as it is, or as JSON, CSV, SQL and addresses escape it.

A text may lie in a text several times over, as a line of JSON in a log that is JSON itself, so any
number of backslashes stands before what is escaped. A rejected row may be in any encoding, because
the declared one may be wrong.
"""

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

_ESCAPED: Final = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_QUOTED: Final = frozenset("\"'\\/")
_ENCODINGS: Final = (
    *(
        f"cp{page}"
        for page in (437, 850, 852, 855, 866, 874, 932, 936, 949, 950, *range(1250, 1259))
    ),
    *(f"iso8859-{part}" for part in (1, 2, 5, 7, 9, 15)),
    *("koi8-r", "koi8-u", "mac-roman", "euc-jp", "euc-kr", "gb18030", "utf-16-le", "utf-16-be"),
)
_LETTER: Final = re.compile(rb"[a-z0-9_]\Z")
# What ends like a letter and is none: the end of an escape.
_ESCAPE: Final = re.compile(rb"(?:\\[bfnrt]|\\u[0-9a-f]{4}|%[0-9a-f]{2})\Z")
_ESCAPE_BYTES: Final = 6  # of the longest


def pattern_of(terms: tuple[str, ...]) -> re.Pattern[bytes]:
    r"""Return what finds a term, followed by no letter, digit or underscore, in a lowered text.

    Composed and decomposed characters are one spelling.

    >>> bool(pattern_of(("a/b \N{POUND SIGN}",)).search(b"a%2fb \\\\u00a3"))
    True
    """
    lowered = {term.lower() for term in terms}
    composed = {unicodedata.normalize(form, term) for term in lowered for form in ("NFC", "NFD")}
    found = [b"".join(map(_spellings, form)) for form in sorted(lowered | composed)]
    found += sorted({re.escape(data) for term in terms for data in _encoded(term)})
    return re.compile(rb"(?:%b)(?![a-z0-9_])" % b"|".join(found))


def begins_word(text: bytes, start: int) -> bool:
    r"""Return whether no letter, digit or underscore stands before a place of a lowered text.

    The end of an escape is no letter.

    >>> begins_word(b"xbob", 1), begins_word(b"x\\tbob", 3)
    (False, True)
    """
    before = text[max(0, start - _ESCAPE_BYTES) : start]
    return _LETTER.search(before) is None or _ESCAPE.search(before) is not None


def _encoded(term: str) -> Iterator[bytes]:
    """Yield a term in the encodings that give it other bytes than UTF-8 does, in usual cases."""
    for form in {term, term.lower(), term.upper(), term.title()}:
        for encoding in _ENCODINGS:
            with suppress(UnicodeEncodeError):
                data = form.encode(encoding).lower()
                if data != form.encode().lower():
                    yield data


def _spellings(char: str) -> bytes:
    """Return a pattern of the ways to spell a character."""
    found = set[bytes]()
    for form in {char, char.upper()}:
        raw = form.encode(errors="surrogatepass")
        found.add(re.escape(raw))
        if form.isascii() and form.isalnum():
            continue
        units = form.encode("utf-16-be", "surrogatepass")
        pairs = (units[at : at + 2] for at in range(0, len(units), 2))
        found.add(b"".join(rb"\\+u%04x" % int.from_bytes(pair, "big") for pair in pairs))
        found.add(b"".join(b"%%%02x" % byte for byte in raw))
    if char in _ESCAPED:
        found.add(rb"\\+" + _ESCAPED[char].encode())
    if char in _QUOTED:
        found.add(rb"\\+" + re.escape(char.encode()))
    if char == "'":
        found.add(b"''")
    if char == '"':
        found.add(rb'\\*"\\*"')
    if char == " ":
        found.add(rb"\+")
    lowered = sorted({one.lower() for one in found}, key=lambda one: (-len(one), one))
    return b"(?:%b)" % b"|".join(lowered)
