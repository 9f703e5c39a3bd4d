"""Hostile values as JSON text, and nested ones as PostgreSQL's literals."""

import json
import re
from random import Random
from typing import Final

from strata.model.types import ColumnType, Kind
from tests.wall import leaves

# Of each: its bytes as they go into the file, and whether the documents promise to take it.
Spelt = tuple[bytes, bool]
NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,5})?")
NUMERIC: Final = frozenset({*leaves.INTEGERS, Kind.FLOAT32, Kind.FLOAT64, Kind.NUMERIC})
FOREIGN: Final = (b"true", b"false", b"[]", b"{}", b"5", b"1.5", b'""', b'"x"', b"[1]", b'{"a":1}')
KEYS: Final = ("a", "b", "", "é", "a b", "\x00", "😀", "\uffff", "lower", "a.b", "NULL", 'q"q')
TOO_DEEP: Final = 200


def quoted(draw: Random, text: str | bytes) -> bytes:
    """Return a text as JSON has it, non-ASCII letters escaped or not; bytes go in as they are."""
    if isinstance(text, bytes):
        return b'"' + text + b'"'
    return json.dumps(text, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")


def fragment(draw: Random, column_type: ColumnType) -> Spelt:
    """Return a hostile JSON value for a type."""
    kind, luck = column_type.kind, draw.random()
    if luck < 0.03:
        return draw.choice(FOREIGN), False
    if luck < 0.05:
        return b"null", True
    if kind in _NESTED:
        return _NESTED[kind](draw, column_type)
    text = leaves.text(draw, column_type)
    if kind is Kind.JSONB:
        return (text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")), True
    if kind in NUMERIC and isinstance(text, str) and luck < 0.7:
        well = NUMBER.fullmatch(text) is not None
        return text.encode(), well
    if isinstance(text, str) and text.startswith("{") and kind not in (Kind.STRING, Kind.UUID):
        return text.encode(), False
    if kind is Kind.INTERVAL and luck < 0.3:
        return _span(draw), True
    return quoted(draw, text), leaves.promised(column_type, text)


def _span(draw: Random) -> bytes:
    parts = {
        "months": draw.choice((0, 1, -1, 2**31 - 1, -(2**31), 2**31)),
        "days": draw.choice((0, 1, -1, 2**31 - 1, -(2**31), -(2**31) - 1)),
        "micros": draw.choice((0, 1, -1, 2**63 - 1, -(2**63), 2**63)),
    }
    chosen = {name: part for name, part in parts.items() if draw.random() < 0.7}
    return json.dumps(chosen).encode()


def _list(draw: Random, column_type: ColumnType) -> Spelt:
    assert column_type.element is not None
    items = [fragment(draw, column_type.element) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
    return b"[" + b",".join(item for item, _ in items) + b"]", all(well for _, well in items)


def _array(draw: Random, column_type: ColumnType) -> Spelt:
    flat, well = _list(draw, column_type)
    match draw.randrange(5):
        case 0:
            low = draw.choice((0, 1, -3, 2**63 - 1, -(2**63), 2**63))
            length = draw.choice((0, 1, 2, 3, -1))
            dims = json.dumps([{"lower_bound": low, "length": length}]).encode()
            return b'{"dims":' + dims + b',"vals":' + flat + b"}", False
        case 1:
            other, _ = _list(draw, column_type)
            return b"[" + flat + b"," + other + b"]", False
        case _:
            return flat, well and column_type.element != ColumnType(Kind.JSONB)


def _map(draw: Random, column_type: ColumnType) -> Spelt:
    assert column_type.element is not None
    keys = [draw.choice(KEYS) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
    items = [(quoted(draw, key), fragment(draw, column_type.element)) for key in keys]
    text = b",".join(key + b":" + item for key, (item, _) in items)
    return b"{" + text + b"}", all(well for _, (_, well) in items)


def _record(draw: Random, column_type: ColumnType) -> Spelt:
    parts, promised = [], True
    for field in column_type.fields:
        if draw.random() < 0.85:
            item, well = fragment(draw, field.type)
            parts.append(json.dumps(field.name).encode() + b":" + item)
            promised = promised and well
    if draw.random() < 0.1:
        parts.append(b'"other":{"x":[1e400]}')
    draw.shuffle(parts)
    return b"{" + b",".join(parts) + b"}", promised


def _range(draw: Random, column_type: ColumnType) -> Spelt:
    assert column_type.element is not None
    if draw.random() < 0.3:
        text = literal(draw, column_type)
        return quoted(draw, text[0].decode("utf-8", "replace")), False
    parts = []
    for end in ("lower", "upper"):
        if draw.random() < 0.85:
            parts.append(b'"%s":%s' % (end.encode(), fragment(draw, column_type.element)[0]))
    for flag in ("lower_inclusive", "upper_inclusive", "empty"):
        if draw.random() < 0.3:
            chosen = draw.choice((b"true", b"false", b"null", b"1", b'"no"'))
            parts.append(b'"%s":%s' % (flag.encode(), chosen))
    return b"{" + b",".join(parts) + b"}", False


_NESTED: Final = {
    Kind.LIST: _list,
    Kind.ARRAY: _array,
    Kind.INT2VECTOR: _array,
    Kind.MAP: _map,
    Kind.RECORD: _record,
    Kind.RANGE: _range,
}


def nested_text(draw: Random, column_type: ColumnType) -> Spelt:
    """Return a nested value as the text of a CSV field: JSON, or a literal."""
    return fragment(draw, column_type) if draw.random() < 0.5 else literal(draw, column_type)


def literal(draw: Random, column_type: ColumnType) -> Spelt:
    """Return a hostile literal of PostgreSQL; never promised, quotes may stand wrong."""
    kind = column_type.kind
    if kind is Kind.RECORD:
        parts = [_item(draw, field.type, '""') for field in column_type.fields]
        return ("(" + ",".join(parts) + draw.choice(("", "", ",")) + ")").encode(), False
    assert column_type.element is not None
    parts = [_item(draw, column_type.element, '\\"') for _ in range(draw.choice((0, 1, 2, 3)))]
    if kind is Kind.RANGE:
        ends = [*parts, "", ""][:2]
        body = draw.choice("[[(") + ",".join(ends) + draw.choice("]))")
        return draw.choice((body, body, body, body, "empty", "EMPTY")).encode(), False
    if kind is Kind.MAP:
        parts = [f'"{draw.choice("abc")}"=>{part}' for part in parts]
    if kind is Kind.INT2VECTOR and draw.random() < 0.5:
        return " ".join(parts).encode(), False
    body = "{" + ",".join(parts) + "}"
    if kind is Kind.ARRAY and draw.random() < 0.3:
        body = draw.choice(
            (
                f"[0:{len(parts) - 1}]={body}",
                "{" + body + "," + body + "}",
                f"[1:9]={body}",
                body[:-1],
            )
        )
    return body.encode("utf-8", "replace"), False


def _item(draw: Random, column_type: ColumnType, quote: str) -> str:
    if column_type.element is not None or column_type.kind is Kind.RECORD:
        text = literal(draw, column_type)[0].decode("utf-8", "replace")
    else:
        found = leaves.text(draw, column_type)
        text = found.decode("utf-8", "replace") if isinstance(found, bytes) else found
    text = text[:3000]
    if draw.random() < 0.5:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', quote) + '"'
