"""Source files of hostile values, written without anything of Strata, and what the twin reads."""

import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.ingest.twin import (
    Unreadable,
    csv_fields,
    from_connect,
    from_json,
    from_python,
    from_text,
    parse_json_line,
    quoted_nulls,
)
from strata.model.types import NESTED, ColumnType
from tests.wall import events, fragments, leaves, typed
from tests.wall.rows import File, Row, outcome

BREAK: Final = re.compile(rb"\n")  # a lone carriage return ends no line
PAD: Final = "x" * 90  # files of 64 KiB are read another way than small ones
Make = Callable[[Random, ColumnType, int], list[File]]


class Ids:
    """Numbers of rows, each once in a shard."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


def csv_rows(draw: Random, column_type: ColumnType, count: int, ids: Ids) -> list[Row]:
    """Return rows whose cell is the field as it stands in the file."""
    found = []
    for _ in range(count):
        if column_type.kind in NESTED:
            value, well = fragments.nested_text(draw, column_type)
        else:
            text = leaves.text(draw, column_type)
            well = leaves.promised(column_type, text)
            value = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        special = any(letter in value for letter in (b'"', b",", b"\n", b"\r"))
        if special or draw.random() < 0.5:
            value = b'"' + value.replace(b'"', b'""') + b'"'
        number = ids.next()
        read = csv_fields(b"%d,%s" % (number, value))[1]
        expected = csv_value(read, column_type)
        shown = None if read is None else _decoded(read)
        found.append(Row(number, _short(value), expected, well, shown=shown, cell=value))
    return found


def csv_value(read: bytes | None, column_type: ColumnType) -> object:
    """Return what the twin reads of a field, or why it does not."""
    if read is None:
        return None
    value = outcome(lambda: from_text(read, column_type))
    return None if isinstance(value, Unreadable) and read in quoted_nulls(column_type) else value


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _short(value: object) -> str:
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 300 else f"{text[:140]}...({len(text)} letters)...{text[-40:]}"


def csv_file(name: str, rows: Sequence[Row], *, extra: str = "") -> File:
    """Write rows as CSV; `extra` is the number of a third column, if there is one."""
    header = b"id,v,n\n" if extra else b"id,v\n"
    parts, line = [header], 2
    for row in rows:
        text = b"%d,%s" % (row.id, row.cell) + (f",{extra}".encode() if extra else b"") + b"\n"
        row.file, row.line = name, line
        line += len(BREAK.findall(text))
        parts.append(text)
    parts.append(b"0,," if extra else b"0,")
    return File(name, b"".join(parts) + b"\n", list(rows))


def has_letters(encoding: str, row: Row) -> bool:
    """Tell whether an encoding has all letters of a field, and reads them as they were."""
    try:
        text = row.cell.decode()
        same: bool = text.encode(encoding).decode(encoding) == text
    except UnicodeError:
        return False
    return same


def recoded(file: File, encoding: str) -> File:
    """Return a file of UTF-8 in another encoding."""
    return replace(file, data=file.data.decode().encode(encoding))


def json_rows(draw: Random, column_type: ColumnType, count: int, ids: Ids) -> list[Row]:
    """Return rows whose cell is the JSON text of the value."""
    found = []
    for _ in range(count):
        spelt, well = fragments.fragment(draw, column_type)
        spelt = spelt.replace(b"\n", b" ").replace(b"\r", b" ")
        number = ids.next()
        line = b'{"id":%d,"v":%s}' % (number, spelt)
        row = Row(number, _short(spelt), None, well, cell=spelt)
        try:
            parsed = parse_json_line(line)
            value = parsed.get("v")
            row.expected = outcome(lambda v=value: from_json(v, column_type))
            row.shown = value if isinstance(value, str) else None
        except Unreadable as error:
            row.expected, row.whole = error, True
        found.append(row)
    return found


def json_file(name: str, rows: Sequence[Row], *, pad: bool = False, extra: str = "") -> File:
    """Write rows as JSON lines."""
    tail = (f',"pad":"{PAD}"' if pad else "") + (f',"n":{extra}' if extra else "")
    parts = []
    for line, row in enumerate(rows, 1):
        row.file, row.line = name, line
        parts.append(b'{"id":%d,"v":%s%s}\n' % (row.id, row.cell, tail.encode()))
    return File(name, b"".join(parts) + b'{"id":0,"v":null}\n', list(rows))


def array_file(name: str, rows: Sequence[Row]) -> File:
    """Write rows as one JSON array, an object a line."""
    for line, row in enumerate(rows, 1):
        row.file, row.line = name, line
    parts = [b'{"id":%d,"v":%s}' % (row.id, row.cell) for row in rows]
    return File(name, b"[" + b",\n".join([*parts, b'{"id":0,"v":null}']) + b"]", list(rows))


def fits_an_array(row: Row) -> bool:
    """Tell whether a row may stand in an array: one malformed value would refuse them all."""
    if row.whole or len(row.cell) > 100_000:
        return False
    depth = max((row.cell.count(letter) for letter in (b"[", b"{")), default=0)
    lone = re.search(rb"\\u[dD][89a-fA-F]", row.cell) is not None
    return depth <= 900 and not lone


def typed_rows(
    draw: Random,
    column_type: ColumnType,
    arrow_type: pa.DataType,
    count: int,
    ids: Ids,
    shape: Callable[[Any, Any], Any] = lambda value, _: value,
) -> list[Row]:
    """Return rows whose cell is a value of an Arrow type, as `shape` has it."""
    found = []
    promised = typed.same_family(column_type, arrow_type)
    for _ in range(count):
        value = shape(typed.value(draw, arrow_type, column_type), arrow_type)
        number = ids.next()
        expected = outcome(lambda v=value: from_python(v, arrow_type, column_type))
        shown = value if isinstance(value, str) else None
        text = f"{arrow_type}: {_short(value)}"
        found.append(Row(number, text, expected, promised, shown=shown, cell=(arrow_type, value)))
    return found


def table_of(rows: Sequence[Row], arrow_type: pa.DataType, *, extra: int | None = None) -> pa.Table:
    """Return rows and one of nulls as a table."""
    values = [row.cell[1] for row in rows]
    columns = {
        "id": pa.array([*(row.id for row in rows), 0], pa.int64()),
        "v": pa.array([*values, None], arrow_type),
    }
    if extra is not None:
        columns["n"] = pa.array([*[extra] * len(rows), None], pa.int64())
    return pa.table(columns)


def parquet_file(
    name: str, rows: Sequence[Row], arrow_type: pa.DataType, *, extra: int | None = None
) -> File:
    """Write rows as Parquet."""
    sink = io.BytesIO()
    table = table_of(rows, arrow_type, extra=extra)
    pq.write_table(table, sink, row_group_size=max(50, len(rows) // 2), store_schema=True)
    return File(name, sink.getvalue(), numbered(name, rows))


def numbered(name: str, rows: Sequence[Row]) -> list[Row]:
    """Return rows that know their file, and their number in it."""
    for line, row in enumerate(rows, 1):
        row.file, row.line = name, line
    return list(rows)


Tell = Callable[[Random, ColumnType], events.Told]


def event_rows(
    draw: Random, column_type: ColumnType, count: int, ids: Ids, tell: Tell
) -> list[Row]:
    """Return rows whose cell is the schema and the JSON text of an event's value."""
    found = []
    for _ in range(count):
        schema, spelt, well = tell(draw, column_type)
        spelt = spelt.replace(b"\n", b" ").replace(b"\r", b" ")
        number = ids.next()
        label = "" if schema is None else f"{schema.get('name') or schema['type']}: "
        if schema is not None and "parameters" in schema:
            label = f"{label[:-2]} scale {schema['parameters']['scale']}: "
        row = Row(number, label + _short(spelt), None, well, cell=(schema, spelt))
        try:
            value = parse_json_line(b'{"v":%s}' % spelt).get("v")
            row.expected = outcome(lambda v=value, s=schema: from_connect(v, s, column_type))
            row.shown = value if isinstance(value, str) else None
        except Unreadable as error:
            row.expected, row.whole = error, True
        found.append(row)
    return found


def event_file(
    name: str, rows: Sequence[Row], *, pad: bool = False, extra: str = "", first: int = 0
) -> File:
    """Write rows as change events that follow `first` others, each the creation of a key."""
    parts = []
    for line, row in enumerate(rows, 1):
        row.file, row.line = name, line
        schema, spelt = row.cell
        after = b'{"id":%d,"v":%s%s}' % (row.id, spelt, f',"n":{extra}'.encode() if extra else b"")
        parts.append(_event(after, schema, first + line, pad))
    filler = b'{"id":%d,"v":null%s}' % (-first, b',"n":null' if extra else b"")
    parts.append(_event(filler, None, first + len(rows) + 1, pad))
    return File(name, b"".join(parts), list(rows))


def _event(after: bytes, schema: Any, number: int, pad: bool) -> bytes:
    source = {
        "connector": "postgresql",
        "name": PAD * 2 if pad else "s",
        "ts_ms": 5,
        "snapshot": "false",
        "lsn": 10 + number,
        "sequence": f'["{9 + number}","{10 + number}"]',
    }
    event = b'{"before":null,"after":%s,"source":%s,"op":"c","ts_ms":7,"transaction":null}' % (
        after,
        json.dumps(source).encode(),
    )
    if schema is None:
        return event + b"\n"
    inner = [{"type": "int64", "optional": False, "field": "id"}, {**schema, "field": "v"}]
    fields = [
        {"type": "struct", "fields": inner, "optional": True, "name": "s.Value", "field": side}
        for side in ("before", "after")
    ]
    whole = {"type": "struct", "fields": fields, "optional": False, "name": "s.Envelope"}
    return b'{"schema":%s,"payload":%s}\n' % (json.dumps(whole).encode(), event)


def split(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are all readable, which may be read at once, and a mixture."""
    tame, wild = [], []
    for row in rows:
        (tame if row.readable and row.id % 2 else wild).append(row)
    return tame, wild
