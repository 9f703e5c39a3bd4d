"""Reads JSON: one object per line, or one array of objects; values by key.

A missing key is null; keys that are not requested are ignored. An object is rejected if it lacks a
column and has the same name in other cases of letters or with blanks: its value would be lost. So
is one that has none of the columns, or is a message about a change.
Arrow reads lines as a table if that gives the same (`json_table`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from strata.ingest.land.files import SourceFile, read_text
from strata.ingest.readers.json_members import LineMembers, lines_of_array, members_of
from strata.ingest.readers.json_table import SMALL_BYTES, is_utf8, json_type, located, read_table
from strata.ingest.readers.objects import Objects, exact_lines, read_array, read_lines
from strata.ingest.readers.source import Located, Raw, RawFile
from strata.ingest.values.cast import Cast, from_arrow, from_objects
from strata.ingest.values.column import NONE_BAD, Rows
from strata.ingest.values.exact_json import Twice, read_value
from strata.ingest.values.no_row import message_of, no_rows
from strata.ingest.values.shown import json_text, shown_scalar
from strata.ingest.values.shown import shown as text_of
from strata.ingest.values.spelt import (
    Names,
    keys_spelt_otherwise,
    spelt_otherwise,
    why_lost,
)
from strata.model.types import ColumnType, Kind

__all__ = ["exact_lines", "read_json", "read_jsonl", "read_objects", "shown_object"]

NO_TYPES: Final[Mapping[str, ColumnType]] = {}
NO_OTHERS: Final[Mapping[str, str]] = {}


def read_jsonl(
    source: SourceFile,
    names: Sequence[str],
    optional: Collection[str] = (),
    types: Mapping[str, ColumnType] = NO_TYPES,
) -> RawFile:
    """Return the values of the keys `names`, and the lines that are not JSON objects.

    The result says in which rows `optional` keys are missing; null is not missing. If the `types`
    of all names are known, the file is read as a table if possible.

    Raises: InvalidRequest for a file without a single JSON object in two lines or more.
    Cost: the whole file in memory.
    """
    data = read_text(source)
    found = None
    if len(data) >= SMALL_BYTES:
        found = read_objects(source, data, names, optional, types)
    return found or one_by_one(source, read_lines(source, data), names, optional)


def read_objects(
    source: SourceFile,
    data: bytes,
    names: Sequence[str],
    optional: Collection[str],
    types: Mapping[str, ColumnType],
) -> RawFile | None:
    """Return what `read_jsonl` returns, as columns read by Arrow; None: Arrow cannot read them."""
    if not all(name in types for name in names):
        return None
    nested = [name for name in names if types[name].kind is Kind.JSONB]
    fields = [(name, json_type(types[name])) for name in names if name not in nested]
    if not fields or not all(kind for _, kind in fields):
        return None
    members = members_of(data, names) if nested and is_utf8(data) else None
    columns = None if nested and members is None else _columns(data, members, fields, nested)
    if columns is None:
        return None
    if members is None and any(column.null_count for column in columns.values()):
        members = members_of(data, names)
        if members is None or members.begins.shape[1] != len(columns[names[0]]):
            return None
    if any(columns[name].null_count for name in optional):
        return None  # otherwise null and missing must be distinguished
    if members is not None and _may_lose(columns, members, names):
        return None
    return RawFile(
        file=source.name,
        count=len(columns[names[0]]),
        columns={name: columns[name] for name in names},
        convert=_converted,
        shown=_shown,
        locate=located(data, source.before),
    )


def _columns(
    data: bytes,
    members: LineMembers | None,
    fields: Sequence[tuple[str, pa.DataType]],
    nested: Sequence[str],
) -> dict[str, pa.Array] | None:
    """Return plain and nested columns; `members`: of all of them if some are nested.

    Objects without other members are judged by their values: Arrow gets the plain ones alone.
    """
    names = [name for name, _ in fields]
    if members is not None and members.bare and not members.others:
        data = members.lines(names)
    table = read_table(data, pa.schema(fields), others=True)
    if table is None or (members is not None and members.begins.shape[1] != len(table)):
        return None
    columns = {name: table[name].chunk(0) for name in names}
    for name in nested:
        assert members is not None
        found = members.json(name)
        if found is None:
            return None
        columns[name] = found
    return columns


def _converted(values: pa.Array, target: ColumnType) -> Cast:
    """Return a column of a table as a type; JSON is in its one spelling already."""
    return Cast(values, NONE_BAD) if target.kind is Kind.JSONB else from_arrow(values, target)


def _may_lose(columns: Mapping[str, pa.Array], members: LineMembers, names: Sequence[str]) -> bool:
    """Return whether an object may be rejected for what is lost of it.

    Errs: returns True also where all objects are rows.
    """
    lacking = [name for name in names if columns[name].null_count]
    if not lacking:
        return False
    keys = members.keys
    if spelt_otherwise(keys, lacking) or message_of(keys, names):
        return True
    return bool((members.begins < 0).all(axis=0).any())  # an object has none of the columns


def _shown(values: pa.Array, row: int) -> str | None:
    return shown_scalar(values[row])


def read_json(
    source: SourceFile,
    names: Sequence[str],
    optional: Collection[str] = (),
    types: Mapping[str, ColumnType] = NO_TYPES,
) -> RawFile:
    """Return the values of the keys `names` of the objects in an array; else as `read_jsonl`."""
    data = read_text(source)
    found = None
    if len(data) >= SMALL_BYTES:
        found = _elements(source, data, names, optional, types)
    return found or one_by_one(source, read_array(source, data), names, optional)


def _elements(
    source: SourceFile,
    data: bytes,
    names: Sequence[str],
    optional: Collection[str],
    types: Mapping[str, ColumnType],
) -> RawFile | None:
    """Return the objects of an array as columns read by Arrow; None: it cannot read them."""
    lines = lines_of_array(data)
    found = lines and read_objects(source, lines[0], names, optional, types)
    if not lines or not found or found.count != lines[1]:  # an element is missing
        return None
    texts = lines[0].split(b"\n")

    def locate(rows: Rows) -> list[Located]:
        exact = bool(exact_lines(data))
        values = [read_value(texts[row], exact=exact) for row in rows.tolist()]
        return [
            (row + 1 + source.before, json_text(value))
            for row, value in zip(rows.tolist(), values, strict=True)
        ]

    return replace(found, locate=locate)


def one_by_one(
    source: SourceFile,
    found: Objects,
    names: Sequence[str],
    optional: Collection[str],
    others: Mapping[str, str] = NO_OTHERS,
) -> RawFile:
    """Return the values of the keys `names`, reading each object by itself.

    `others`: keys that are not read, each with the name that an object with it may not lack.
    """
    plain = set(map(type, found.values)) <= {dict}
    lost = {other: (name,) for other, name in others.items()}
    otherwise = {**lost, **keys_spelt_otherwise(found.values, names)}
    judged = not plain or bool(otherwise)
    reasons = [_none(value, names, otherwise) for value in found.values] if judged else []
    found = found.without(source, reasons)
    found = found.without(source, no_rows(found.values, names))
    objects = found.values
    return RawFile(
        file=source.name,
        count=len(objects),
        columns={name: [o.get(name) for o in objects] for name in names},
        convert=from_objects,
        shown=shown_object,
        locate=found.locate,
        malformed=found.malformed,
        lacking={name: [name not in o for o in objects] for name in optional},
    )


def _none(
    value: Mapping[str, object] | None, names: Sequence[str], otherwise: Mapping[str, Names]
) -> str | None:
    """Return why a value is not an object of these columns; None: it is one."""
    if value is None:
        return "not a JSON object"
    return why_lost(value, otherwise) or twice(value, names)


def twice(value: object, names: Sequence[str]) -> str | None:
    """Return a reason if an object has one of the keys `names` twice; None: it does not."""
    name = value.repeated(names) if isinstance(value, Twice) else None
    return None if name is None else f"the key {name} stands twice"


def shown_object(values: Raw, row: int) -> str | None:
    """Return a value as people read it."""
    return text_of(values[row])
