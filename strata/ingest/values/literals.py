"""Parses nested values written as text into the plain objects that JSON would give.

Every nested type accepts JSON and PostgreSQL's own forms: `{1,NULL,"a b"}` for lists
and arrays (`[0:1]={1,2}` with its lower bounds), `{a=>1}` for maps, `(1,"x y",)` for records,
`[1,5)`, `(,7]` and `empty` for ranges, `1 2 3` for int2vector.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from strata.ingest.values.exact_json import read_value
from strata.model.types import ColumnType, Kind


class Text(str):
    """A text that represents a value of any type, like a CSV field or a PostgreSQL item."""

    __slots__ = ()


class Broken:
    """A value that its encoding does not allow: no column accepts it, but people can see it."""

    __slots__ = ("value",)  # not a dataclass, which would be written as a JSON object

    def __init__(self, value: object) -> None:
        """Keep the value for people."""
        self.value = value

    def __str__(self) -> str:
        """Return the value as text."""
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Shaped:
    """An array: its dimensions as (lower bound, length), its items row by row."""

    dims: tuple[tuple[int, int], ...]
    items: tuple[Any, ...]


MAX_DEPTH: Final = 200  # levels of brackets
_BOUNDS: Final = re.compile(r"\s*((?:\[\s*[+-]?\d+\s*(?::\s*[+-]?\d+\s*)?\])+)\s*=\s*", re.ASCII)
_MARK: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\\.|[{}\[\](),"]', re.DOTALL)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.|"")*)"|\\.', re.DOTALL)
_WHOLLY: Final = re.compile(r'\s*"(?:[^"\\]|\\.)*"\s*', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\.|""', re.DOTALL)
_OPENING: Final = ("{", "[", "(")
_CLOSING: Final = ("}", "]", ")")
_BOUND: Final = re.compile(r"\[\s*([+-]?\d+)\s*(?::\s*([+-]?\d+)\s*)?\]", re.ASCII)


def parse_literal(text: str, target: ColumnType) -> Any:
    """Return the object that a text represents.

    Shape: JSON values (numbers as `NumberText`), strings of PostgreSQL's forms as `Text`; arrays in
    braces as `Shaped`.
    Raises: ValueError, RecursionError for a text that has none of the forms.
    """
    body = text.strip()
    form = _FORMS.get(target.kind)
    found = _JSON if form is None else form(body, target)
    if found is not _JSON:
        return found
    try:
        return parse_json(body)
    except ValueError:
        if target.kind is Kind.MAP and _braces(body):  # a quoted key followed by =>
            return _braced_map(body, target)
        raise


def parse_json(text: str) -> Any:
    """Return a JSON value, its numbers as text.

    Raises: ValueError.
    """
    return read_value(text.encode(), exact=True)


def _braces(text: str) -> bool:
    return text.startswith("{") and text.endswith("}")


def _braced_list(text: str, target: ColumnType) -> list[Any]:
    assert target.element is not None
    inner = target.element
    items: list[Any] = []
    for item, quoted in _plain_items(_inside(text, "{", "}"), inner):
        if not quoted and item.upper() == "NULL":
            items.append(None)
        elif inner.kind is Kind.LIST and not quoted:
            items.append(_braced_list(item, inner))
        else:
            items.append(_item(item, inner))
    return items


def _braced_array(text: str, target: ColumnType) -> Any:
    """Return an array in braces.

    Raises: ValueError when rows differ in length or from the stated bounds.
    """
    assert target.element is not None
    stated = _BOUNDS.match(text)
    if stated is None and re.match(r'\{\s*"(dims|vals)"\s*:', text):
        return parse_json(text)
    items: list[Any] = []
    lengths = _rows(text[stated.end() if stated else 0 :], target.element, items, 0)
    first = 0 if target.kind is Kind.INT2VECTOR else 1
    dims = [(first, length) for length in lengths]
    if stated is not None:
        pairs = [(int(a), int(b)) if b else (1, int(a)) for a, b in _BOUND.findall(stated[1])]
        dims = [(low, high - low + 1) for low, high in pairs]
        if [length for _, length in dims] != lengths:
            raise ValueError("the bounds are not those of the items")
    return Shaped(tuple(dims), tuple(items))


def _rows(text: str, element: ColumnType, items: list[Any], depth: int) -> list[int]:
    """Add the items of nested braces to `items`, and return the lengths of the dimensions."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    found = list(_items(_inside(text, "{", "}")))
    if not found:
        return []
    if element.kind not in (Kind.LIST, Kind.MAP) and not found[0][1] and _braces(found[0][0]):
        if any(quoted for _, quoted in found):
            raise ValueError("the rows of an array differ in depth")
        shapes = [_rows(item, element, items, depth + 1) for item, _ in found]
        if any(shape != shapes[0] for shape in shapes) or not shapes[0]:
            raise ValueError("the rows of an array differ in length")
        return [len(found), *shapes[0]]
    for item, quoted in _plain_items(_inside(text, "{", "}"), element):
        null = not quoted and item.upper() == "NULL"
        items.append(None if null else _item(item, element))
    return [len(found)]


def _braced_map(text: str, target: ColumnType) -> dict[str, Any]:
    assert target.element is not None
    found: dict[str, Any] = {}
    for piece in _pieces(_inside(text, "{", "}")):
        pair = _split_arrow(piece)
        (key, _), (value, quoted) = (_unquoted(side) for side in pair)
        null = not quoted and value.upper() == "NULL"
        if key in found:
            raise ValueError("a key stands twice")
        found[key] = None if null else _item(value, target.element)
    return found


def _split_arrow(raw: str) -> tuple[str, str]:
    quoted = escaped = False
    for position, char in enumerate(raw):
        if escaped or char == "\\":
            escaped = not escaped
        elif char == '"':
            quoted = not quoted
        elif not quoted and raw.startswith("=>", position):
            return raw[:position], raw[position + 2 :]
    raise ValueError("a map in braces has => between key and value")


def _record(text: str, target: ColumnType) -> dict[str, Any]:
    body = _inside(text, "(", ")")
    if any("," in _QUOTED.sub("", piece) for piece in _pieces(body)):
        raise ValueError("a comma that is not quoted, between brackets that enclose nothing here")
    items = list(_items(body, blanks=True))
    if not items and len(target.fields) == 1:
        items = [("", False)]
    if len(items) != len(target.fields):
        raise ValueError("another number of fields")
    return {
        field.name: None if not item and not quoted else _item(item, field.type)
        for field, (item, quoted) in zip(target.fields, items, strict=True)
    }


def _range(text: str) -> dict[str, Any]:
    if text.lower() == "empty":
        return {"empty": True}
    if text[:1] not in "[(" or text[-1:] not in "])" or len(text) < 3:
        raise ValueError("not a range")
    ends = list(_items(text[1:-1], blanks=True))
    if len(ends) != 2:
        raise ValueError("a range has two ends")
    lower, upper = (None if not item and not quoted else Text(item) for item, quoted in ends)
    return {
        "lower": lower,
        "upper": upper,
        "lower_inclusive": text[0] == "[",
        "upper_inclusive": text[-1] == "]",
    }


def _item(text: str, target: ColumnType) -> Text:
    # PostgreSQL prints booleans inside other values as their first letter.
    if target.kind is Kind.BOOL and text in ("t", "f"):
        return Text("true" if text == "t" else "false")
    return Text(text)


def _inside(text: str, opening: str, closing: str) -> str:
    body = text.strip()
    if len(body) < 2 or body[0] != opening or body[-1] != closing:
        raise ValueError(f"not between {opening} and {closing}")
    return body[1:-1]


def _items(text: str, *, blanks: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the items between commas, with quotes resolved, and whether they were quoted.

    `blanks` around an item are part of it, as in rows and ranges.
    """
    return (_unquoted(piece, blanks=blanks) for piece in _pieces(text))


def _plain_items(text: str, element: ColumnType) -> Iterator[tuple[str, bool]]:
    """Yield the items of a list or array; quotes and braces must enclose a whole item.

    Raises: ValueError otherwise, as PostgreSQL does, and for braces of neither a list nor a map.
    """
    for piece in _pieces(text):
        item = _QUOTED.sub("", piece.strip())
        if element.kind in (Kind.LIST, Kind.MAP) and _braces(item):
            yield _unquoted(piece)
            continue
        if any(mark in item for mark in "{},"):
            raise ValueError("a brace or a comma within an item")
        if '"' in piece and not _WHOLLY.fullmatch(piece):
            raise ValueError("a quote within an item")
        yield _unquoted(piece)


def _pieces(text: str) -> Iterator[str]:
    """Yield the texts between commas outside quotes and brackets; an empty text has none."""
    if not text.strip():
        return
    depth = start = 0
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark == ",":
            if depth == 0:
                yield text[start : found.start()]
                start = found.end()
        elif mark == '"':
            raise ValueError("a quote stays open")
        else:
            depth += (mark in _OPENING) - (mark in _CLOSING)
            if depth < 0:
                raise ValueError("a bracket closes that did not open")
    if depth:
        raise ValueError("a bracket stays open")
    yield text[start:]


def _unquoted(piece: str, *, blanks: bool = False) -> tuple[str, bool]:
    text = piece if blanks else piece.strip()
    # Quotes of a value with items are resolved with the items. Rows and ranges have none.
    if not blanks and text[:1] in _OPENING:
        return text, False
    return _QUOTED.sub(_resolved, text), '"' in text


def _resolved(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0][1:]
    return _ESCAPED.sub(lambda pair: pair[0][1:], found[1])


def _range_form(body: str, target: ColumnType) -> Any:
    return _JSON if body.startswith("{") else _range(body)


def _record_form(body: str, target: ColumnType) -> Any:
    return _record(body, target) if body.startswith("(") else _JSON


def _list_form(body: str, target: ColumnType) -> Any:
    return _braced_list(body, target) if body.startswith("{") else _JSON


def _array_form(body: str, target: ColumnType) -> Any:
    braced = body.startswith("{") or _BOUNDS.match(body)
    return _braced_array(body, target) if braced else _JSON


def _vector_form(body: str, target: ColumnType) -> Any:
    if body.startswith(("{", "[")):
        return _array_form(body, target)
    return [Text(item) for item in body.split()]


def _map_form(body: str, target: ColumnType) -> Any:
    unquoted = _braces(body) and not body[1:].lstrip().startswith(('"', "}"))
    return _braced_map(body, target) if unquoted else _JSON


_JSON: Final = object()  # a form's answer to a text of another form
_FORMS: Final[dict[Kind, Callable[[str, ColumnType], Any]]] = {
    Kind.ARRAY: _array_form,
    Kind.INT2VECTOR: _vector_form,
    Kind.LIST: _list_form,
    Kind.MAP: _map_form,
    Kind.RANGE: _range_form,
    Kind.RECORD: _record_form,
}
