"""Names of encodings of texts: those of Python that mean the same on each machine."""

import codecs
from typing import Final

from strata.errors import InvalidRequest

UTF_8: Final = "utf-8"
# Codecs of Python that are no encoding of files, that depend on the machine, or that decode to
# halves of characters.
_OTHER: Final = frozenset(
    {"charmap", "idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined"}
    | {"unicode-escape", "utf-7"}
)


def parse_encoding(name: object) -> str:
    """Return the one name of an encoding of texts.

    >>> parse_encoding("latin-1"), parse_encoding("windows-31j"), parse_encoding("UTF8")
    ('iso8859-1', 'cp932', 'utf-8')

    Raises: InvalidRequest for what is no encoding of texts.
    """
    try:
        found = codecs.lookup(str(name)).name.replace("_", "-")
        _is_text(found)
    except (LookupError, ValueError):
        found = ""
    if not isinstance(name, str) or not found or found in _OTHER:
        raise InvalidRequest(
            "this is no encoding of texts",
            setting="source.encoding",
            value=name,
            cure="as in utf-8, utf-16, latin-1, windows-1252 or windows-31j",
        )
    return UTF_8 if found == "utf-8-sig" else found


def _is_text(encoding: str) -> None:
    """Raise LookupError for a codec of Python that is not about texts, such as hex."""
    try:
        b"\n".decode(encoding)
    except UnicodeError:
        return
