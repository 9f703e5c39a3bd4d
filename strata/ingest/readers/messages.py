"""What the JSON values of a source represent: rows, keyed records, or change events.

`MESSAGES` has an entry for each envelope.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import orjson

from strata.ingest.land.files import SourceFile, read_text
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.debezium import read_debezium, read_records
from strata.ingest.readers.guess import ROWS, Guess, guess_values
from strata.ingest.readers.jsonl import one_by_one, read_json, read_jsonl
from strata.ingest.readers.objects import Objects, read_array, read_lines
from strata.ingest.readers.source import RawFile


@dataclass(frozen=True, slots=True)
class Messages:
    """How the values of one envelope are read, and how to get the row from a value."""

    read: Callable[[SourceFile, SourceColumns, bool], RawFile]  # bool: the file is one array
    row: Callable[[Any], Any]  # an object; anything else: no row


def _read_rows(part: SourceFile, columns: SourceColumns, array: bool) -> RawFile:
    if columns.others and _may_have(read_text(part), columns.others):
        found = read_array(part) if array else read_lines(part)
        return one_by_one(part, found, columns.names, columns.optional, columns.others)
    if array:
        return read_json(part, columns.names, columns.optional, columns.types)
    return read_jsonl(part, columns.names, columns.optional, columns.types)


def _may_have(data: bytes, names: Iterable[str]) -> bool:
    """Return whether objects may have one of these keys. Errs: also counts texts."""
    return b"\\u" in data or any(orjson.dumps(name) in data for name in names)


def _read_records(part: SourceFile, columns: SourceColumns, array: bool) -> RawFile:
    deleted = columns.source.deleted_column
    return read_records(part, columns.relation, columns.names, deleted, array=array)


def _read_events(part: SourceFile, columns: SourceColumns, array: bool) -> RawFile:
    return read_debezium(part, columns, array=array)


def _unwrapped(value: Any) -> Any:
    """Return the value of a record, without its schema."""
    if not isinstance(value, dict):
        return None
    body = value.get("value", value) if "key" in value else value
    if isinstance(body, dict) and body.keys() == {"schema", "payload"}:
        return body["payload"]
    return body


def _after(value: Any) -> Any:
    """Return the row after a change."""
    body = _unwrapped(value)
    return body.get("after") if isinstance(body, dict) else None


MESSAGES: Final[Mapping[str, Messages]] = {
    "append": Messages(_read_rows, lambda value: value),
    "diff": Messages(_read_rows, _unwrapped),
    "upsert": Messages(_read_records, _unwrapped),
    "debezium": Messages(_read_events, _after),
}


def guess_messages(found: Objects, envelope: str) -> tuple[Mapping[str, Guess], int]:
    """Return a type for each key of the rows, and how many rows were examined."""
    rows = (MESSAGES[envelope].row(value) for value in found.values)
    objects = list(islice((row for row in rows if isinstance(row, dict)), ROWS))
    names = dict.fromkeys(name for row in objects for name in row)
    return {n: guess_values([row.get(n) for row in objects]) for n in names}, len(objects)
