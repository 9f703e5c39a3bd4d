"""A declaration for files that are there: read some of them, propose a type for each column.

The proposal is for a person to approve: it is shown as the YAML that declares the shard, and what
is created is pinned. Nothing is inferred again later: a file that does not fit is refused, or its
rows rejected. What is not sure becomes text, or jsonb where it is nested.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from strata.errors import InvalidRequest
from strata.ingest.land.files import PACKINGS, SourceFile, files_at, open_file
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.avro import avro_records
from strata.ingest.readers.avro_values import arrow_of
from strata.ingest.readers.infer_csv import (
    delimiter_of,
    null_words,
    texts_of,
    type_of_texts,
    without,
)
from strata.ingest.readers.objects import Objects, read_array, read_lines
from strata.ingest.values.cast import Number
from strata.model.settings import Settings
from strata.model.spec import DELIMITER

FILES: Final = 5  # that are read: the first, the last, and some between
ROWS: Final = 20_000  # of each file
SUFFIXES: Final = {
    ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet",
    ".avro": "avro", ".orc": "orc",
}  # fmt: skip

UNKNOWN: Final = ""  # the type of nulls only
INTEGER: Final = re.compile(r"-?\d+")
LONG: Final = 16  # a number of fewer characters is held by a float64

Column = tuple[str, bool]  # type, seen null


@dataclass(frozen=True, slots=True)
class Inferred:
    """A declaration as YAML would have it, and what it was made from."""

    declaration: dict[str, Any]
    files: int
    rows: int


def infer(
    settings: Settings,
    name: str,
    path: str,
    *,
    key: Sequence[str] = (),
    format: str | None = None,
    envelope: str = "append",
) -> Inferred:
    """Return a declaration for the files at a path.

    Raises: InvalidRequest where there are no files, their format is not known from their names, or
    a key column is not in them.
    Cost: reads up to FILES files.
    """
    files = files_at(settings.store.landing, [path], follow_links=settings.ingest.follow_links)
    if not files:
        raise InvalidRequest("there are no files to infer from", path=path)
    kind = format or _format(files[0])
    step = max(1, (len(files) - 1) // (FILES - 1)) if len(files) > 1 else 1
    some = [*files[::step][: FILES - 1], files[-1]] if len(files) > 1 else files
    columns: dict[str, Column] = {}
    rows = 0
    dialect = _dialect(some) if kind == "csv" else Dialect()
    for file in some:
        found, seen = _columns(replace(file, dialect=dialect), kind, envelope)
        rows += seen
        for column, (text, nulls) in found.items():
            known = columns.get(column)
            columns[column] = (text, nulls) if known is None else _both(known, (text, nulls))
    missing = [column for column in key if column not in columns]
    if missing or not columns:
        raise InvalidRequest(
            "no such column in the files", shard=name, column=",".join(missing),
            cure=f"one of {', '.join(columns)}",
        )  # fmt: skip
    unknown = "string" if kind == "csv" else "jsonb"
    declared = [
        {"name": column, "type": text or unknown} | ({"nullable": False} if column in key else {})
        for column, (text, _) in columns.items()
    ]
    source: dict[str, Any] = {"paths": [path], "format": kind}
    if kind == "csv":
        source |= {} if dialect.delimiter == DELIMITER else {"delimiter": dialect.delimiter}
        source |= {"nulls": list(dialect.nulls)}
    if envelope != "append":
        source["envelope"] = envelope
    found_spec: dict[str, Any] = {"name": name, "columns": declared}
    if key:
        found_spec["key"] = list(key)
    found_spec["source"] = source
    if envelope == "debezium":
        found_spec["time"] = {"from": "source"}
    return Inferred(found_spec, len(some), rows)


def _format(file: SourceFile) -> str:
    suffixes = file.suffixes
    while suffixes and (suffixes[-1] in PACKINGS or suffixes[-1] == ".xz"):
        suffixes.pop()
    if not suffixes or suffixes[-1] not in SUFFIXES:
        raise InvalidRequest(
            "the format cannot be told from the name", file=file.name,
            cure=f"--format: one of {', '.join(sorted(set(SUFFIXES.values())))}",
        )  # fmt: skip
    return SUFFIXES[suffixes[-1]]


def _dialect(files: Sequence[SourceFile]) -> Dialect:
    """Return how files of CSV are written: as the first is, with all null words that one has."""
    delimiter = delimiter_of(files[0])
    words = set[str]().union(*(null_words(texts_of(file, delimiter, ROWS)) for file in files))
    return Dialect(delimiter, ("", *sorted(words)))


def _columns(file: SourceFile, kind: str, envelope: str) -> tuple[dict[str, Column], int]:
    """Return the columns of one file with their types, and how many rows say so."""
    if kind == "csv":
        table = texts_of(file, file.dialect.delimiter, ROWS)
        typed = {n: _of_texts(without(table[n], file.dialect.nulls)) for n in table.column_names}
        return typed, table.num_rows
    if kind in ("json", "jsonl"):
        found = read_array(file) if kind == "json" else read_lines(file)
        objects = list(islice(_rows(found, envelope), ROWS))
        names = dict.fromkeys(name for value in objects for name in value)
        return {n: _of_values([o.get(n) for o in objects]) for n in names}, len(objects)
    if kind == "avro":
        schema, records = avro_records(file)
        kinds = {field["name"]: arrow_of(field["type"]) for field in schema["fields"]}
        return {n: (_of_arrow(k), True) for n, k in kinds.items()}, len(records)
    with open_file(file) as stream:
        shape = pq.read_schema(stream) if kind == "parquet" else po.ORCFile(stream).schema
    return {field.name: (_of_arrow(field.type), True) for field in shape}, 0


def _rows(found: Objects, envelope: str) -> Any:
    """Yield the rows that are told of: those of events and records, if that is what they are."""
    for value in found.values:
        body = value
        if isinstance(body, dict) and envelope != "append":
            body = body.get("value", body) if "key" in body else body
            if isinstance(body, dict) and body.keys() == {"schema", "payload"}:
                body = body["payload"]
            if isinstance(body, dict) and envelope == "debezium":
                body = body.get("after")
        if isinstance(body, dict):
            yield body


def _of_texts(values: pa.Array) -> Column:
    found = type_of_texts(values)
    return found or UNKNOWN, found is None or bool(values.null_count)


def _of_values(values: Sequence[object]) -> Column:
    some = [value for value in values if value is not None]
    nulls = len(some) < len(values)
    kinds = {type(value) for value in some}
    if not some:
        return UNKNOWN, True
    if kinds == {bool}:
        return "bool", nulls
    if kinds == {int}:
        return "int64", nulls
    if kinds <= {int, float}:
        return "float64", nulls
    if kinds <= {int, float, Number}:
        return _of_numbers(some), nulls
    if kinds == {str}:
        found = type_of_texts(pa.array(some, pa.string()))
        # JSON has numbers of its own: text that looks like one was meant as text
        return (found if found in ("date", "timestamp", "timestamptz", "uuid") else "string"), nulls
    return "jsonb", nulls


def _of_numbers(some: Sequence[Any]) -> str:
    """Return the type that holds numbers of which some are kept as text."""
    if all(type(value) is int or INTEGER.fullmatch(str(value)) for value in some):
        return "int64" if all(-(2**63) <= int(value) < 2**63 for value in some) else "numeric"
    exact = all(type(value) is not Number or len(value) < LONG for value in some)
    return "float64" if exact else "numeric"


_ARROW: Final[Mapping[str, str]] = {
    "bool": "bool", "int8": "int16", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "halffloat": "float32", "float": "float32", "double": "float64", "string": "string",
    "large_string": "string", "binary": "bytes", "large_binary": "bytes", "date32[day]": "date",
}  # fmt: skip


def _of_arrow(kind: pa.DataType | None) -> str:
    """Return the declared type that holds every value of an Arrow type."""
    if kind is None:
        return "jsonb"
    if str(kind) in _ARROW:
        return _ARROW[str(kind)]
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_time(kind):
        return "time"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_of_arrow(kind.value_type)}>"
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return f"map<{_of_arrow(kind.item_type)}>"
    return "jsonb"


def _both(a: Column, b: Column) -> Column:
    """Return the type that holds the values of two files."""
    nulls = a[1] or b[1]
    if a[0] == b[0] or UNKNOWN in (a[0], b[0]):
        return a[0] or b[0], nulls
    kinds = {a[0], b[0]}
    if kinds == {"int64", "float64"}:
        return "float64", nulls
    if kinds == {"timestamp", "timestamptz"}:
        return "timestamptz", nulls
    if kinds == {"date", "timestamp"}:
        return "timestamp", nulls
    return ("jsonb" if "jsonb" in kinds else "string"), nulls
