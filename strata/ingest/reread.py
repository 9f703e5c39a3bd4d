"""Reads source rows again, one by one, with the slow twin.

Text formats are read again from the text of the row. For other formats, the values come from the
format's own library, before any cast. Nothing here knows how ingest types a column.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from strata.ingest import twin
from strata.ingest.readers.formats.interface import format_of
from strata.ingest.readers.source import RawFile
from strata.ingest.twin import Undecided, Unreadable
from strata.ingest.values.column import Rows
from strata.ingest.values.shown import FAILS
from strata.model.spec import ORDERED, ShardSpec
from strata.model.types import ColumnType

BEFORE: Final = "before"


@dataclass(frozen=True, slots=True)
class Again:
    """One row of a source."""

    line: int | None
    value: Callable[[str, ColumnType], object]  # raises Unreadable
    present: frozenset[str]  # columns that the source has in this row


def reread(raw: RawFile, rows: Rows, spec: ShardSpec) -> list[Again]:
    """Return rows of a file, in order."""
    located = raw.locate(rows)
    written = format_of(spec.source.format).row_text
    found = []
    for row, (line, text) in zip(rows.tolist(), located, strict=True):
        try:
            if written == "csv":
                value, names = _csv(raw, text, spec)
            elif written == "json":
                value, names = _json(raw, text, spec)
            else:
                value, names = _columns(raw, row, spec)
        except (Unreadable, *FAILS):  # a row whose fields cannot even be found shows nothing
            value, names = _columns(raw, row, spec)[0], set()
        if line is None:  # its text was not found
            names = set()
        same = {name for name, mask in raw.same.items() if mask[row]}
        found.append(Again(line, value, frozenset(names - same)))
    return found


Value = Callable[[str, ColumnType], object]


def _csv(raw: RawFile, text: str, spec: ShardSpec) -> tuple[Value, set[str]]:
    delimiter, nulls = spec.source.delimiter, spec.source.nulls
    header = [_text(name) for name in twin.csv_fields(raw.header or "", delimiter, ())]
    found = twin.csv_fields(text.encode(errors="surrogateescape"), delimiter, nulls)
    fields = dict(zip(header, found, strict=False))

    def value(name: str, kind: ColumnType) -> object:
        field = fields[name]
        return None if field is None else _from_text(field, name, kind, spec)

    return value, set(fields)


def _from_text(text: bytes | str, name: str, kind: ColumnType, spec: ShardSpec) -> object:
    """Return the value of a text, by the form that is declared for its column if there is one."""
    form = spec.source.form_text(name, kind.kind)
    return twin.from_form(text, form, kind) if form else twin.from_text(text, kind)


def _text(field: bytes | str | None) -> str:
    return field.decode() if isinstance(field, bytes) else field or ""


def _json(raw: RawFile, text: str, spec: ShardSpec) -> tuple[Value, set[str]]:
    try:
        message = twin.parse_json_line(text.encode(errors="surrogateescape"))
    except Undecided:
        return _columns(raw, 0, spec)[0], set()
    except Unreadable as error:
        return partial(_unreadable, str(error)), set(raw.columns)
    if spec.source.envelope in ORDERED:
        row, schema = _of_change(message)
    else:
        row, schema = message, None
    if not isinstance(row, Mapping):
        return partial(_unreadable, "no row in the message"), set(raw.columns)

    def value(name: str, kind: ColumnType) -> object:
        found = row.get(name)
        if found is None:
            return None
        if isinstance(found, str) and spec.source.form_text(name, kind.kind):
            return _from_text(found, name, kind, spec)
        if spec.source.envelope == "debezium" or schema is not None:
            return twin.from_connect(found, (schema or {}).get(name), kind)
        return twin.from_json(found, kind)

    return value, set(row)


def _of_change(message: Any) -> tuple[Any, dict[str, Any] | None]:
    """Return the row that a change event or a keyed record is about, and its fields' schemas."""
    body, schema = _payload(message)
    if isinstance(body, Mapping) and "op" not in body and {"key", "value"} <= body.keys():
        key, _ = _payload(body["key"])
        body, schema = _payload(body["value"])
        if body is None:
            return key, None
    else:
        key = None
    if not isinstance(body, Mapping) or "op" not in body:
        return body, _fields(schema)
    side = BEFORE if body["op"] == "d" else "after"
    row = body.get(side)
    return (key if row is None else row), _side(schema, side)


def _payload(message: Any) -> tuple[Any, Any]:
    if isinstance(message, Mapping) and message.keys() == {"schema", "payload"}:
        return message["payload"], message["schema"]
    return message, None


def _fields(schema: Any) -> dict[str, Any] | None:
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    return {f["field"]: f for f in fields if "field" in f} if fields else None


def _side(schema: Any, side: str) -> dict[str, Any] | None:
    sides = _fields(schema)
    return None if sides is None else _fields(sides.get(side))


def _columns(raw: RawFile, row: int, spec: ShardSpec) -> tuple[Value, set[str]]:
    def value(name: str, kind: ColumnType) -> object:
        column = raw.columns[name]
        if not isinstance(column, pa.Array):
            raise Undecided("the format's library gave no column")
        found = _plain(column[row])
        if isinstance(found, str | bytes) and spec.source.form_text(name, kind.kind):
            return _from_text(found, name, kind, spec)
        return twin.from_python(found, column.type, kind)

    return value, set(raw.columns)


def _plain(scalar: pa.Scalar) -> Any:
    """Return a value as a Python object, and times as the stored integers."""
    kind = scalar.type
    if isinstance(scalar, pa.ExtensionScalar | pa.DictionaryScalar):
        return _plain(scalar.value)
    if not scalar.is_valid:
        return None
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return scalar.value
    if pa.types.is_map(kind):
        return [(_plain(entry["key"]), _plain(entry["value"])) for entry in scalar.values]
    if isinstance(scalar, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [_plain(item) for item in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        return {name: _plain(item) for name, item in scalar.items()}
    try:
        return scalar.as_py()
    except (ValueError, OverflowError) as error:
        raise Undecided(str(error)) from error


def _unreadable(reason: str, name: str, kind: ColumnType) -> object:
    raise Unreadable(f"{name} as {kind}: {reason}")
