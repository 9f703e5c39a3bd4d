"""Reads source rows again, one by one, with the slow twin.

Text formats are read again from the text of the row. For other formats, the values come from the
format's own library, before any cast. Nothing here knows how ingest types a column.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import pyarrow as pa

from strata.ingest import twin
from strata.ingest.readers.formats.interface import format_of
from strata.ingest.readers.source import RawFile
from strata.ingest.twin import Undecided, Unreadable
from strata.ingest.values.column import Rows
from strata.ingest.values.shown import FAILS
from strata.model.spec import ORDERED, POINT, ShardSpec
from strata.model.types import ColumnType, Kind

BEFORE: Final = "before"
LISTS: Final = (
    pa.ListScalar,
    pa.LargeListScalar,
    pa.FixedSizeListScalar,
    pa.ListViewScalar,
    pa.LargeListViewScalar,
)
SHORT: Final = 32  # longer texts seldom repeat, and are not remembered

Value = Callable[[str, ColumnType], object]
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Again:
    """One row of a source."""

    line: int | None
    value: Value  # raises Unreadable
    present: frozenset[str]  # columns that the source has in this row
    fields: Fields | None = None  # its values for `reader_of`; None: only `value` reads them


def reread(raw: RawFile, rows: Rows, spec: ShardSpec) -> list[Again]:
    """Return rows of a file, in order."""
    located = raw.locate(rows)
    written = format_of(spec.source.format).row_text
    header = _header(raw, spec) if written == "csv" else []
    found = []
    alike: dict[frozenset[str], frozenset[str]] = {}  # most rows have the same names
    same = {name: some for name, mask in raw.same.items() if (some := mask[rows]).any()}
    for number, (row, (line, text)) in enumerate(zip(rows.tolist(), located, strict=True)):
        fields: Fields | None = None
        try:
            if written == "csv":
                fields = _by_column(_csv(header, text, spec), spec)
                value, names = _value_of(fields, spec), set(fields)
            elif written == "json":
                value, names, fields = _json(raw, text, spec)
            else:
                value, names = _columns(raw, row, spec)
        except (Unreadable, *FAILS):  # a row whose fields cannot even be found shows nothing
            value, names = _columns(raw, row, spec)[0], set()
        if line is None:  # its text was not found
            names = set()
        kept = {name for name, mask in same.items() if mask[number]}
        present = frozenset(names - kept if kept else names)
        found.append(Again(line, value, alike.setdefault(present, present), fields))
    return found


def reader_of(name: str, kind: ColumnType, spec: ShardSpec) -> Callable[[Any], object]:
    """Return what reads the `fields` of rows in one column; it raises Unreadable."""
    text = text_reader(spec.source.form_text(name, kind.kind), kind)
    if spec.source.format == "csv" and kind.kind in twin.NUMBERS:
        text = _marked(text, spec.source.decimal, spec.source.thousands)
    nulls = twin.quoted_nulls(kind, spec.source.nulls) if spec.source.format == "csv" else ()

    def read(field: Any) -> object:
        if field is None:
            return None
        if field in nulls:
            return _or_null(text, field)
        if isinstance(field, bytes) or (isinstance(field, str) and kind.kind is not Kind.JSONB):
            return text(field)
        return twin.from_json(field, kind)

    return read


def _marked(
    read: Callable[[bytes | str], object], decimal: str, thousands: str
) -> Callable[[bytes | str], object]:
    """Return what reads numbers that are written with these marks."""
    if (decimal, thousands) == (POINT, ""):
        return read
    return lambda text: read(twin.plain_number(text, decimal, thousands))


def _or_null(read: Callable[[Any], object], field: Any) -> object:
    try:
        return read(field)
    except Undecided:
        raise
    except Unreadable:
        return None


def text_reader(form: str, kind: ColumnType) -> Callable[[bytes | str], object]:
    """Return what reads a text, by the form that is declared for its column if there is one."""
    return _remembering(twin.from_form if form else twin.from_text, form, kind)


@lru_cache(maxsize=64)
def _remembering(
    twin_of: Callable[..., object], form: str, kind: ColumnType
) -> Callable[[bytes | str], object]:
    """Return a reader of texts that remembers short ones: files repeat them."""

    def read(text: bytes | str) -> object:
        return twin_of(text, form, kind) if form else twin_of(text, kind)

    known = lru_cache(maxsize=4096)(read)
    return lambda text: known(text) if len(text) <= SHORT else read(text)


def _header(raw: RawFile, spec: ShardSpec) -> list[str]:
    return [_text(name) for name in twin.csv_fields(raw.header or "", spec.source.delimiter, ())]


def _csv(header: Sequence[str], text: str, spec: ShardSpec) -> Fields:
    delimiter, nulls = spec.source.delimiter, spec.source.nulls
    found = twin.csv_fields(text.encode(errors="surrogateescape"), delimiter, nulls)
    fields = dict(zip(header, found, strict=False))
    if header[-1:] == [""] and fields.pop("", None):  # behind the last delimiter
        raise Unreadable
    return fields


def _value_of(fields: Fields, spec: ShardSpec) -> Value:
    return lambda name, kind: reader_of(name, kind, spec)(fields[name])


def _by_column(fields: Any, spec: ShardSpec) -> Any:
    """Return what a source has under its names under those of the shard's columns."""
    columns = {name: column for name, column in spec.source.names}
    if not columns:
        return fields
    hidden = set(columns.values()) - columns.keys()  # of columns that have another name there
    return {columns.get(n, n): value for n, value in fields.items() if n not in hidden}


def _key(spec: ShardSpec) -> Sequence[str]:
    return [next((s for s, c in spec.source.names if c == name), name) for name in spec.key]


def _text(field: bytes | str | None) -> str:
    return field.decode() if isinstance(field, bytes) else field or ""


def _json(raw: RawFile, text: str, spec: ShardSpec) -> tuple[Value, set[str], Fields | None]:
    try:
        message = twin.parse_json_line(text.encode(errors="surrogateescape"))
    except Undecided:
        return _columns(raw, 0, spec)[0], set(), None
    except Unreadable as error:
        return partial(_unreadable, str(error)), set(raw.columns), None
    if spec.source.envelope in ORDERED:
        row, schema = _of_change(message, _key(spec) if spec.source.envelope == "upsert" else ())
    else:
        row, schema = message, None
    if not isinstance(row, Mapping):
        return partial(_unreadable, "no row in the message"), set(raw.columns), None
    row, schema = _by_column(row, spec), schema and _by_column(schema, spec)
    if spec.source.envelope != "debezium" and schema is None:
        return _value_of(row, spec), set(row), row

    def value(name: str, kind: ColumnType) -> object:
        found = row.get(name)
        if found is None:
            return None
        if isinstance(found, str) and spec.source.form_text(name, kind.kind):
            return _from_text(found, name, kind, spec)
        told = (schema or {}).get(name)
        if told is None and spec.source.envelope != "debezium":
            return reader_of(name, kind, spec)(found)
        return twin.from_connect(found, told, kind)

    return value, set(row), None


def _of_change(message: Any, key: Sequence[str]) -> tuple[Any, dict[str, Any] | None]:
    """Return the row that a change event or a keyed record is about, and its fields' schemas.

    `key`: the names of the key in a record; none in an event, and only there is `op` no column.
    """
    body, schema = _payload(message)
    beside: Any = None
    told: dict[str, Any] | None = None
    if _has_two_parts(body, key):
        beside, of_key = _payload(body["key"])
        told = _fields(of_key)
        if not isinstance(beside, Mapping) and len(key) == 1:  # a key without a name
            beside = {key[0]: beside}
            told = {key[0]: of_key} if isinstance(of_key, Mapping) else None
        body, schema = _payload(body["value"])
        if body is None:
            return beside, told
    if key or not isinstance(body, Mapping) or "op" not in body:
        both = isinstance(body, Mapping) and isinstance(beside, Mapping)
        return {**beside, **body} if both else body, _merged(told, _fields(schema))
    side = BEFORE if body["op"] == "d" else "after"
    row, of_row = body.get(side), _side(schema, side)
    return (beside, _merged(of_row, told)) if row is None else (row, of_row)


def _has_two_parts(body: Any, key: Sequence[str]) -> bool:
    """Return whether an object is a key and a value, and not a row with columns of these names."""
    if not isinstance(body, Mapping) or not {"key", "value"} <= body.keys():
        return False
    if not key:
        return "op" not in body
    if any(name in body for name in key):
        names, _ = _payload(body["key"])
        return isinstance(names, Mapping) and all(name in names for name in key)
    return True


def _merged(*schemas: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the schemas of fields together, the last one counts; None: there are none."""
    found = {name: field for schema in schemas if schema for name, field in schema.items()}
    return found or None


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


def _from_text(text: bytes | str, name: str, kind: ColumnType, spec: ShardSpec) -> object:
    return text_reader(spec.source.form_text(name, kind.kind), kind)(text)


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
    if isinstance(scalar, LISTS):
        return [_plain(item) for item in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        return {name: _plain(item) for name, item in scalar.items()}
    try:
        return scalar.as_py()
    except (ValueError, OverflowError) as error:
        raise Undecided(str(error)) from error


def _unreadable(reason: str, name: str, kind: ColumnType) -> object:
    raise Unreadable(f"{name} as {kind}: {reason}")
