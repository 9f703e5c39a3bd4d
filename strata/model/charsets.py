"""Names of encodings of texts: those of Python that mean the same on each machine."""

import codecs
import re
from typing import Final

from strata.errors import InvalidRequest

UTF_8: Final = "utf-8"
_WINDOWS: Final = re.compile(r"(?i)\Awindows[-_](31j|[0-9]+)\Z")
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
        called = _WINDOWS.sub(_of_windows, str(name))
        found = codecs.lookup(called).name.replace("_", "-")
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


def _of_windows(found: re.Match[str]) -> str:
    """Return Python's name of a code page of Windows; it knows few of them by IANA's names."""
    return "cp932" if found[1].lower() == "31j" else f"cp{found[1]}"


def _is_text(encoding: str) -> None:
    """Raise LookupError for a codec of Python that is not about texts, such as hex."""
    try:
        b"\n".decode(encoding)
    except UnicodeError:
        return
