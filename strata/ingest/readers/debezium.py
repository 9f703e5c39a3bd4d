"""Read change events as Debezium writes them in JSON, and keyed records as Kafka tools dump them.

An event is the envelope (`before`, `after`, `source`, `op`, `ts_ms`), plain or as the payload of a
schema; it may be inside a record, `{"key": ..., "value": ...}`. Operations: c (create), r (snapshot
read), u (update), d (delete), t (truncate). Messages that are not changes are skipped and counted:
tombstones (null), messages (m), the begin and end of transactions, schema changes, heartbeats.

A delete needs only the key, which every replica identity provides. A placeholder stands for a value
that the database did not send because it did not change; the value stays as it was.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from orjson import loads

from strata.ingest.land.files import SourceFile, read_text
from strata.ingest.readers.change import (
    DELETE,
    INSERT,
    SOURCE_TIME,
    TRUNCATE,
    UPDATE,
    UPSERT,
    WHOLE,
)
from strata.ingest.readers.columns import NONE_RENAMED, SourceColumns
from strata.ingest.readers.debezium_table import read_events
from strata.ingest.readers.json_table import SMALL_BYTES
from strata.ingest.readers.jsonl import shown_object
from strata.ingest.readers.moments import check_unit
from strata.ingest.readers.objects import Objects, read_array, read_lines
from strata.ingest.readers.position import UNKNOWN, Places
from strata.ingest.readers.rejects import Reject
from strata.ingest.readers.source import MessageNames, RawFile
from strata.ingest.readers.stream_tables import StreamTables, table_of
from strata.ingest.values.cast import from_objects
from strata.ingest.values.connect import as_integer, plain_values
from strata.ingest.values.exact_json import NumberText, Twice
from strata.ingest.values.no_row import no_rows
from strata.ingest.values.shown import FAILS
from strata.ingest.values.spelt import keys_spelt_otherwise, why_lost
from strata.model.schema import Relation
from strata.model.types import Kind

GONE: Final = (True, "true", "True", "t", "1", 1)
KEPT: Final = (None, False, "false", "False", "f", "0", 0, "")
TWICE: Final = "a key stands twice"
FLAT: Final = "not a change event: it has no op (envelope: upsert takes flattened rows)"
DOCUMENT: Final = "a text for a row, as MongoDB has it: flatten it by ExtractNewDocumentState"
TRANSACTION: Final = {"status", "id", "event_count", "data_collections", "ts_ms"}
OPS: Final = {"c": INSERT, "r": UPSERT, "u": UPDATE, "d": DELETE, "t": TRUNCATE}
UNSENT: Final = "__debezium_unavailable_value"
PLACEHOLDERS: Final = frozenset(
    {
        UNSENT,
        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",  # as bytes
        "b68a35a7-17ad-35b3-af2a-ae46edb4545a",  # as a uuid: the hash of it
        f'{{"{UNSENT}":"{UNSENT}"}}',  # as an hstore in JSON
    }
)
STREAMED: Final = ("false", "incremental")  # marks of events that are of no snapshot of the table
MAX_PLACE: Final = 2**63 - 1  # PostgreSQL's own positions never reach it
NUMBERS: Final = [*UNSENT.encode()]  # of an array of numbers or dates
DIGITS: Final = [b64encode(bytes([number])).decode() for number in NUMBERS]  # as decimals


class Event(NamedTuple):
    """The content of one message."""

    op: int
    row: dict[str, Any]
    time: Any
    schema: dict[str, Any] | None = None  # of the row's fields
    place: tuple[int, int, int, bool] | None = None  # commit, lsn, snapshot, ends: see `Places`
    table: str | None = None  # of the database; None: the event does not say it
    names: tuple[str, ...] | None = None  # in the message, where those of the row are others
    is_read: bool = False  # by a snapshot of the table


def read_debezium(source: SourceFile, wanted: SourceColumns, *, array: bool = False) -> RawFile:
    """Return the columns of the rows that events are about, with their operations.

    Raises: as `read_lines`, `read_array`.
    Cost: the whole file in memory.
    """
    relation, names, former = wanted.relation, wanted.names, wanted.former
    if array:
        return one_by_one(source, read_array(source), relation, names, former)
    data = read_text(source)
    found = None
    if len(data) >= SMALL_BYTES:
        found = read_events(source, data, relation, names, SOURCE_TIME, sorted(PLACEHOLDERS))
    return found or one_by_one(source, read_lines(source, data), relation, names, former)


def one_by_one(
    source: SourceFile,
    found: Objects,
    relation: Relation,
    names: Sequence[str],
    former: Mapping[str, str] = NONE_RENAMED,
) -> RawFile:
    """Return the same, judging each event by itself.

    `former`: names that columns had before a rename, each with the present one.
    """
    key = [column.name for column in relation.key_columns]
    events: list[Event] = []
    kept: list[int] = []
    bad: list[Reject] = []
    passed = 0
    for row, value in enumerate(found.values):
        event = _judged(_event, value, key, former)
        if event is None:
            passed += 1
        elif isinstance(event, str):
            bad.append(found.reject(source, row, event))
        else:
            kept.append(row)
            events.append(event)
    found = found.only(kept, events, bad)
    return _raw(source, found, relation, names, passed)


def _raw(
    source: SourceFile,
    found: Objects,
    relation: Relation,
    names: Sequence[str],
    passed: int | None,
    marks: Sequence[str] = (),
) -> RawFile:
    """Return the rows of events. If `passed` is None, they are records with plain JSON values.

    A row is rejected if it lacks a column and has the same name in other capital letters, and a
    record's if it is itself a message. `marks`: columns of rows that the shard does not have.
    """
    all_events: list[Event] = found.values
    whole = {tuple(event.row) for event in all_events if event.op in WHOLE}
    in_rows = [*relation.by_name, *marks]
    otherwise = keys_spelt_otherwise((event.row for event in found.values), in_rows)
    lost = [why_lost(event.row, otherwise) for event in found.values] if otherwise else []
    found = found.without(source, lost)
    if passed is None:
        found = found.without(source, _messages(found.values, in_rows))
    events: list[Event] = found.values
    columns, original, same = _columns(events, relation, names, encoded=passed is not None)
    if passed is not None:
        _check_units(source, events, relation)
    defaults = [c.name for c in relation.columns if c.default is not None]
    return RawFile(
        file=source.name,
        count=len(events),
        columns=columns,
        original=original,
        convert=from_objects,
        shown=shown_object,
        locate=found.locate,
        malformed=found.malformed,
        lacking={name: [name not in event.row for event in events] for name in defaults},
        ops=np.array([event.op for event in events], np.uint8),
        same=same,
        passed=passed or 0,
        undeclared=frozenset[str]().union(*whole).difference(names),
        defaulted=defaulted(events, names),
        places=_places(events),
        message_names=_message_names(all_events, events),
        are_read=np.array([event.is_read for event in events], bool),
        tables=StreamTables.of([event.table for event in events]),
    )


def _messages(events: Sequence[Event], names: Sequence[str]) -> list[str | None]:
    """Return why a record's value is no row, for each; an empty list if all may be rows."""
    return no_rows([event.row if event.op in WHOLE else None for event in events], names)


def _check_units(source: SourceFile, events: Sequence[Event], relation: Relation) -> None:
    """Refuse integers without a schema that are times in another unit. Raises: InvalidRequest."""
    for column in relation.columns:
        if column.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
            name = column.name
            plain = (one.row.get(name) for one in events if name not in (one.schema or ()))
            check_unit(source.name, name, [n for v in plain if (n := as_integer(v)) is not None])


_Lists = dict[str, list[Any]]


def _columns(
    events: Sequence[Event], relation: Relation, names: Sequence[str], *, encoded: bool
) -> tuple[_Lists, _Lists, dict[str, npt.NDArray[np.bool_]]]:
    """Return columns, the same columns as people know them, and where values did not change."""
    columns: _Lists = {}
    original: _Lists = {}
    same = {}
    schemas = [event.schema for event in events]
    for name in names:
        column = relation.by_name.get(name)
        if column is None:  # the time, beside the row
            columns[name] = [event.row.get(name, event.time) for event in events]
            continue
        values = [event.row.get(name) for event in events]
        mask = [_is_placeholder(v) for v in values]
        if any(mask):
            same[name] = np.array(mask)
            values = [None if m else v for v, m in zip(values, mask, strict=True)]
        original[name] = values
        columns[name] = plain_values(values, column, schemas, encoded=encoded)
    return columns, original, same


def defaulted(events: Sequence[Event], names: Sequence[str]) -> dict[str, int]:
    """Return how many values of each nullable column are its default, if no event has a null.

    Kafka's JsonConverter writes the default in place of a null unless it is configured otherwise
    (`replace.null.with.default=false`). The schema in an event has the default. A value alone does
    not show whether it was null, so this is a warning. Columns without such values are left out.
    """
    counts: dict[str, int] = {}
    nulls: set[str] = set()
    for event in events:
        schema = event.schema or {}
        for name in schema.keys() & event.row.keys() & set(names):
            field, value = schema[name], event.row[name]
            if value is None:
                nulls.add(name)
            elif isinstance(field, dict) and field.get("optional"):
                counts[name] = counts.get(name, 0) + (field.get("default") == value)
    return {name: n for name, n in sorted(counts.items()) if n and name not in nulls}


def _message_names(events: Sequence[Event], kept: Sequence[Event]) -> MessageNames:
    """Return the names in the rows of the `kept` events; the others are rejected."""
    kinds: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    of_row = [kinds.setdefault(_names(event), len(kinds)) for event in kept]
    for event in events:
        if event.op in WHOLE:
            kinds.setdefault(_names(event), len(kinds))
    told, names = ([frozenset(pair[n]) for pair in kinds] for n in (0, 1))
    return MessageNames(tuple(told), tuple(names), np.array(of_row, np.int64))


def _names(event: Event) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names in the message of an event, and in its row."""
    own = tuple(event.row)
    return event.names or own, own


def _places(events: Sequence[Event]) -> Places | None:
    if not any(event.place for event in events):
        return None
    unknown = (UNKNOWN, UNKNOWN, 0, False)
    commit, lsn, snapshot, ends = zip(*(event.place or unknown for event in events), strict=True)
    return Places(
        np.array(commit, np.int64),
        np.array(lsn, np.int64),
        np.array(snapshot, np.int64),
        np.array(ends, bool),
    )


def _place(origin: Any, op: str) -> tuple[int, int, int, bool] | None:
    """Return the position of a PostgreSQL change in the log; None: the event does not have it."""
    lsn = as_integer(origin.get("lsn")) if isinstance(origin, dict) else None
    if lsn is None:
        return None
    if origin.get("connector", "postgresql") != "postgresql":
        return None
    mark = _mark(origin)
    try:
        if op == "r" and mark not in STREAMED:
            found = (0, 0, lsn, mark.startswith("last"))
        else:
            commit = loads(origin.get("sequence") or "[null]")[0]
            found = (int(commit or 0), lsn, 0, False)
    except (ValueError, TypeError, IndexError, KeyError, OverflowError):
        return None
    return found if min(found[:3]) >= 0 and max(found[:3]) <= MAX_PLACE else None


def _mark(origin: Any) -> str:
    """Return how an event belongs to a snapshot of the table."""
    return str(origin.get("snapshot", "false")) if isinstance(origin, dict) else "false"


def _is_placeholder(value: object) -> bool:
    if isinstance(value, dict):
        return value == {UNSENT: UNSENT}
    if isinstance(value, list) and len(value) == len(NUMBERS):
        items = [_plain_item(item) for item in value]
        return items in (NUMBERS, DIGITS)
    first = value[0] if isinstance(value, list) and len(value) == 1 else value
    return isinstance(first, str) and first in PLACEHOLDERS


def _plain_item(item: object) -> object:
    """Return an item of an array that may be a placeholder: a number, or the digits of one."""
    if type(item) is NumberText:
        return float(item)
    if isinstance(item, dict) and as_integer(item.get("scale")) == 0:
        return item.get("value")
    return item


def _judged(judge: Callable[..., Event | str | None], *facts: Any) -> Any:
    """Return the content of a message; a message whose parts have the wrong types is rejected."""
    try:
        return judge(*facts)
    except FAILS:
        return "not a change event, or not a record: its parts have other types"


def _event(value: Any, key: Sequence[str], former: Mapping[str, str]) -> Event | str | None:
    """Return the content of an event; None: it is not a change; text: what is wrong with it."""
    record_key, key_schema, whole = None, None, value
    if isinstance(value, dict) and value.keys() >= {"key", "value"} and "op" not in value:
        record_key, key_schema = _payload(value["key"])
        value = value["value"]
    body, schema = _payload(value)
    if any(isinstance(part, Twice) for part in (whole, value, body, record_key)):
        return TWICE
    if body is None:
        return None
    if not isinstance(body, dict):
        return "not a change event"
    op = body.get("op")
    if op is None:
        return None if _is_notice(body) else FLAT
    if op == "m":
        return None
    if op not in OPS:
        return f"an unknown operation: {op!r}"
    change = _change(OPS[op], body, schema, key, (record_key, _fields(key_schema)))
    return change if isinstance(change, str) else _by_present_names(change, former)


def _by_present_names(event: Event, former: Mapping[str, str]) -> Event:
    """Return a change whose row has the present names of columns, also if it is from before."""
    there = [name for name in former if name in event.row and former[name] not in event.row]
    if not there or len({former[name] for name in there}) < len(there):
        return event
    row, schema = (
        facts and {(former[n] if n in there else n): one for n, one in facts.items()}
        for facts in (event.row, event.schema)
    )
    return event._replace(row=row or {}, schema=schema, names=tuple(event.row))


def _is_notice(body: dict[str, Any]) -> bool:
    """Return whether a message is about a transaction, a schema or a heartbeat, not about a row."""
    transaction = body.get("status") in ("BEGIN", "END") and body.keys() <= TRANSACTION
    told = ("ddl", "tableChanges", "databaseName")
    ddl = isinstance(body.get("source"), dict) and any(name in body for name in told)
    return transaction or ddl or body.keys() == {"ts_ms"}


def _change(
    op: int,
    body: dict[str, Any],
    schema: Any,
    key: Sequence[str],
    record: tuple[Any, dict[str, Any]],
) -> Event | str:
    """Return a change; `record`: the key beside the event, and the schema of the key's fields."""
    before, after = body.get("before"), body.get("after")
    origin = body.get("source")
    time = origin.get("ts_ms") if isinstance(origin, dict) else None
    moment = body.get("ts_ms") if time is None else time
    place = _place(origin, body["op"])
    if op == TRUNCATE:
        return Event(op, {}, moment, None, place, table_of(origin))
    row = before if op == DELETE else after
    fields = _row_schema(schema, "before" if op == DELETE else "after")
    if op == DELETE and not isinstance(row, dict):
        row, of_key = record
        fields = {**(fields or {}), **of_key} or None
    if isinstance(row, Twice):
        return TWICE
    if isinstance(row, str) or "updateDescription" in body:
        return DOCUMENT
    if not isinstance(row, dict):
        return "an event without its row" if op != DELETE else "a delete without its key"
    if op == UPDATE and isinstance(before, dict):
        moved = [k for k in key if k in before and before[k] != row.get(k)]
        if moved:
            return f"an update that changes the key column {moved[0]}"
    is_read = op == UPSERT and _mark(origin) not in STREAMED
    return Event(op, row, moment, fields, place, table_of(origin), is_read=is_read)


def _payload(value: Any) -> tuple[Any, Any]:
    """Return a message without its schema, and the schema."""
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        return value["payload"], value["schema"]
    return value, None


def _row_schema(schema: Any, which: str) -> dict[str, Any] | None:
    """Return the Connect schema of each field of the row; None if there is none."""
    row = _fields(schema).get(which)
    return None if row is None else _fields(row)


def _fields(schema: Any) -> dict[str, Any]:
    """Return the Connect schema of each field of a struct."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return {field.get("field"): field for field in fields or ()}


def read_records(
    source: SourceFile,
    relation: Relation,
    names: Sequence[str],
    deleted: str,
    *,
    array: bool = False,
) -> RawFile:
    """Return keyed rows: `{"key": ..., "value": row or null}`, or plain rows.

    A row is a tombstone if its value is null, or if the key `deleted` is true in it. Each part may
    be the payload of a schema.
    Raises: as `read_lines`, `read_array`.
    """
    found = read_array(source) if array else read_lines(source)
    key = {column.name for column in relation.key_columns}
    events: list[Event] = []
    kept: list[int] = []
    bad: list[Reject] = []
    for row, value in enumerate(found.values):
        event = _judged(_record, value, key, deleted)
        if isinstance(event, str):
            bad.append(found.reject(source, row, event))
        else:
            kept.append(row)
            events.append(event)
    marks = [deleted] if deleted else []
    return _raw(source, found.only(kept, events, bad), relation, names, None, marks)


def _record(value: Any, key: set[str], deleted: str) -> Event | str:
    if not isinstance(value, dict):
        return "not a JSON object"
    if _has_key_beside(value, key):
        key_values, key_schema = _payload(value["key"])
        row, schema = _payload(value["value"])
        time = value.get("timestamp")
        parts = [value, key_values, value["value"], row]
    else:
        key_values, key_schema, time = {}, None, None
        row, schema = _payload(value)
        parts = [value, row]
    if any(isinstance(part, Twice) for part in parts):
        return TWICE
    of_key = _fields(key_schema)
    if not isinstance(key_values, dict):
        [name, *more] = key
        of_key = {name: key_schema} if isinstance(key_schema, dict) and not more else {}
        key_values = {} if more else {name: key_values}
    known = {**of_key, **_fields(schema)} or None
    if row is None:
        return Event(DELETE, key_values, time, known)
    mark = row.get(deleted) if deleted else None
    if mark not in (*GONE, *KEPT):
        return f"the column {deleted} is no boolean"
    return Event(DELETE if mark in GONE else UPSERT, {**key_values, **row}, time, known)


def _has_key_beside(value: dict[str, Any], key: set[str]) -> bool:
    """Return whether an object is a record; a plain row may have columns `key` and `value`."""
    if not value.keys() >= {"key", "value"}:
        return False
    names, _ = _payload(value["key"])
    return not key & value.keys() or (isinstance(names, dict) and names.keys() >= key)
