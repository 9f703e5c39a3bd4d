"""PostgreSQL's literals of arrays, hstores, rows and ranges, taken apart letter by letter.

An item is a text, or None for a null; what the texts mean is for the element's type.
"""

import re
from collections.abc import Iterator
from typing import Final

from strata.ingest.twin.unreadable import Undecided, Unreadable

Item = str | None
BOUNDS: Final = re.compile(r"((?:\[[+-]?[0-9]{1,25}(?::[+-]?[0-9]{1,25})?\])+)=(.*)", re.DOTALL)
BOUND: Final = re.compile(r"\[(?:([+-]?[0-9]+):)?([+-]?[0-9]+)\]")
QUOTE: Final = '"'


def split(text: str, delimiter: str = ",") -> Iterator[tuple[str, bool]]:
    """Yield the items between delimiters outside of quotes and braces, and which were quoted.

    White space around an item is no part of it. Raises: Unreadable.
    """
    depth, start, at = 0, 0, 0
    while at < len(text):
        letter = text[at]
        if letter == QUOTE:
            at = _end_of_quote(text, at)
        elif letter == "\\":
            at += 2
            continue
        elif depth == 0 and text.startswith(delimiter, at):
            yield _item(text[start:at])
            start = at + len(delimiter)
            at = start
            continue
        else:
            depth += (letter == "{") - (letter == "}")
            if depth < 0:
                raise Unreadable("a brace too many")
        at += 1
    if depth:
        raise Unreadable("a brace is not closed")
    yield _item(text[start:])


def _end_of_quote(text: str, at: int) -> int:
    """Return the place of the quote that ends the one at `at`; a doubled one ends nothing."""
    at += 1
    while at < len(text):
        if text[at] == "\\" or (text[at] == QUOTE and text[at + 1 : at + 2] == QUOTE):
            at += 2
        elif text[at] == QUOTE:
            return at
        else:
            at += 1
    raise Unreadable("a quote is not closed")


def _item(text: str) -> tuple[str, bool]:
    body = text.strip()
    if not body.startswith(QUOTE):
        if "\\" in body and not body.startswith("{"):
            raise Undecided("an escape outside of quotes")
        if QUOTE in body and not body.startswith("{"):
            raise Undecided("a quote inside of an item")
        plain = body if body.startswith("{") else _unescaped(body)
        return plain, plain != body  # an escaped NULL is a text
    if _end_of_quote(body, 0) != len(body) - 1:
        raise Undecided("something behind a quote")
    return _unescaped(body[1:-1]), True


def _unescaped(text: str) -> str:
    found, at = [], 0
    while at < len(text):
        if text[at] == "\\" or text.startswith('""', at):
            at += 1
        found.append(text[at : at + 1])
        at += 1
    return "".join(found)


def braced(text: str) -> str:
    """Return what stands in braces. Raises: Unreadable."""
    if not (text.startswith("{") and text.endswith("}") and len(text) > 1):
        raise Unreadable("not a literal in braces")
    return text[1:-1]


def array_items(text: str) -> list[tuple[Item, bool]]:
    """Return the items of `{a,NULL,"b c"}` and which were quoted; nested braces stay texts."""
    inner = braced(text)
    if not inner.strip():
        return []
    return [
        (None if not quoted and body.upper() == "NULL" else body, quoted)
        for body, quoted in split(inner)
    ]


def array_bounds(text: str) -> tuple[list[tuple[int, int]], str]:
    """Return lower and upper bounds in front of an array (none: empty), and the array."""
    found = BOUNDS.fullmatch(text)
    if found is None:
        return [], text
    pairs = [(int(m[1]) if m[1] else 1, int(m[2])) for m in BOUND.finditer(found[1])]
    return pairs, found[2]


def hstore_pairs(text: str) -> list[tuple[str, Item]]:
    """Return the pairs of `{a=>1,"b c"=>NULL}` or the same without braces. Raises: Unreadable."""
    inner = braced(text)
    if not inner.strip():
        return []
    pairs = []
    for entry in _raw(inner):
        sides = list(split(entry, "=>"))
        if len(sides) != 2:
            raise Unreadable("not an entry of a map")
        (key, _), (value, quoted) = sides
        pairs.append((key, None if not quoted and value.upper() == "NULL" else value))
    return pairs


def _raw(text: str) -> Iterator[str]:
    """Yield the parts between commas outside of quotes and braces as they stand."""
    depth, start, at = 0, 0, 0
    while at < len(text):
        if text[at] == QUOTE:
            at = _end_of_quote(text, at)
        elif text[at] == "\\":
            at += 1
        elif text[at] == "," and depth == 0:
            yield text[start:at]
            start = at + 1
        else:
            depth += (text[at] == "{") - (text[at] == "}")
        at += 1
    yield text[start:]


def row_items(text: str) -> list[Item]:
    """Return the fields of `(1,"a b",)`: null where nothing stands. Raises: Unreadable."""
    if not (text.startswith("(") and text.endswith(")") and len(text) > 1):
        raise Unreadable("not a row in parentheses")
    return [_field(part) for part in _raw_fields(text[1:-1])]


def _raw_fields(text: str) -> Iterator[str]:
    start, at, quoted = 0, 0, False
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == QUOTE:
            quoted = not quoted
        elif text[at] == "," and not quoted:
            yield text[start:at]
            start = at + 1
        at += 1
    if quoted:
        raise Unreadable("a quote is not closed")
    yield text[start:]


def _field(text: str) -> Item:
    """Return a field: quotes may stand anywhere in it, white space counts."""
    if text == "":
        return None
    found, at, quoted = [], 0, False
    while at < len(text):
        if text[at] == "\\":
            at += 1
            found.append(text[at : at + 1])
        elif quoted and text.startswith('""', at):
            at += 1
            found.append(QUOTE)
        elif text[at] == QUOTE:
            quoted = not quoted
        else:
            found.append(text[at])
        at += 1
    return "".join(found)


def range_ends(text: str) -> tuple[bool, Item, Item, bool] | None:
    """Return whether the lower end is in, both ends, whether the upper is in; None: empty.

    Raises: Unreadable.
    """
    if text.lower() == "empty":
        return None
    if not (len(text) > 2 and text[0] in "[(" and text[-1] in "])"):
        raise Unreadable("not a range")
    ends = [_field(part) for part in _raw_fields(text[1:-1])]
    if len(ends) != 2:
        raise Unreadable("a range has two ends")
    return text[0] == "[", ends[0], ends[1], text[-1] == "]"
