"""What is shown: reports as JSON for programs, and text as people may see it on a screen.

Commands print reports with --json, jobs leave them for Airflow.
"""

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from shlex import quote
from typing import Any, Final, Protocol

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})  # Unicode's categories
# Letters, marks and symbols of other categories that show nothing: fillers, joiners, and selectors
# of variants.
BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    "\U00016fe4\U0001d159" + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
_NAMES: Final = {"size_bytes": "bytes"}  # fields with another name in every document


class Report(Protocol):
    """What an operation did, for programs and for people."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as the JSON that jobs and commands print."""
        ...

    def lines(self) -> list[str]:
        """Return the report as people read it in a log."""
        ...


def json_of(value: Any, **names: str) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON values; `names` renames fields.

    >>> from dataclasses import make_dataclass
    >>> json_of(make_dataclass("Blob", ["key", "size_bytes"])("k", 5), key="name")
    {'name': 'k', 'bytes': 5}
    """
    called = _NAMES | names
    return {called.get(f.name, f.name): _plain(getattr(value, f.name)) for f in fields(value)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return json_of(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return a text with invisible characters spelled out, also line ends unless `lines`.

    A name, a filter or an error may hold characters that clear a terminal, set its title, or show
    the rest of a line backwards. A filler makes one name look like another.

    >>> visible("\x1b[2Jall is well\n"), visible("a\nb", lines=True), visible("a\u202eb")
    ('\\u001b[2Jall is well\\u000a', 'a\nb', 'a\\u202eb')
    >>> visible("bob\u3164")
    'bob\\u3164'
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "\n" if lines else ""
    return "".join(c if c in kept or is_seen(c) else f"\\u{ord(c):04x}" for c in text)


def is_seen(character: str) -> bool:
    """Return whether a character shows something, or is a space."""
    return unicodedata.category(character) not in _UNSEEN and character not in BLANK


def as_json_value(value: Any, *, wide: bool = False) -> Any:
    r"""Return a value of Arrow as JSON has it: times as ISO 8601, bytes and spans as PostgreSQL.

    Those are texts that sources of CSV and JSON take back for what they are.
    What JSON cannot hold is text. `wide`: the form of tables that rows were delivered into, which
    find a row again by it; whole numbers beyond 64 bits are numbers, bytes only digits.

    >>> as_json_value({"a": [float("nan"), b"x", 2**70]}), as_json_value(2**70, wide=True) == 2**70
    ({'a': ['nan', '\\x78', '1180591620717411303424']}, True)
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if wide or -(2**63) <= value < 2**64 else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex() if wide else f"\\x{value.hex()}"
        case timedelta():
            return str(value) if wide else _span(value)
        case dict():
            return {str(key): as_json_value(item, wide=wide) for key, item in value.items()}
        case list() | tuple():  # a tuple is an entry of a map
            return [as_json_value(item, wide=wide) for item in value]
        case _:
            return str(value)


def _span(value: timedelta) -> str:
    """Return a span of days and a clock, both of one sign.

    >>> _span(timedelta(days=-2, microseconds=1)), _span(timedelta(days=1, seconds=3661))
    ('-1 days -23:59:59.999999', '1 days 01:01:01')
    """
    sign = "-" if value < timedelta(0) else ""
    days, clock = abs(value).days, timedelta(seconds=abs(value).seconds)
    micros = abs(value).microseconds
    text = f"{clock}".rjust(8, "0") + (f".{micros:06}" if micros else "")
    return f"{sign}{days} days {sign}{text}" if days else f"{sign}{text}"


def sql_word(sql: str) -> str:
    """Return SQL as one word of a shell's command, in double quotes: SQL is full of single ones.

    A shell that somebody types into replaces `!` in double quotes by an earlier command, so a text
    with it gets single ones.

    >>> print(sql_word("origin = 'JFK'"))
    "origin = 'JFK'"
    """
    return quote(sql) if "!" in sql else '"' + re.sub(r'([\\"$`])', r"\\\1", sql) + '"'
