"""Reads examined files as an ingest would: a proposal fits them, or says what is not taken."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.ingest.land.source_file import SourceFile
from strata.ingest.readers.guess import guess_arrow
from strata.ingest.readers.read import read_file
from strata.ingest.readers.rejects import Reject, details
from strata.ingest.readers.source import (
    RawFile,
    TypedRows,
    WantedColumn,
    guarded,
    rejects,
    typed_rows,
)
from strata.model.spec import parse_spec
from strata.model.types import parse_type

LOOKED_BYTES: Final = 32 << 20  # of a file that is examined


def raw_files(
    declaration: Mapping[str, Any], files: Sequence[SourceFile], refused: list[InvalidRequest]
) -> Iterator[RawFile]:
    """Yield the rows of files as they are read; errors of files that are refused go to `refused`.

    Cost: reads the files of some LOOKED_BYTES.
    """
    spec = parse_spec(declaration)
    for file in files:
        if file.load_bytes > 2 * LOOKED_BYTES:
            continue
        try:
            yield from read_file(file, spec, spec.relation(), {})
        except InvalidRequest as error:
            refused.append(error)


def typed_files(
    declaration: Mapping[str, Any], files: Sequence[SourceFile], refused: list[InvalidRequest]
) -> Iterator[tuple[RawFile, TypedRows]]:
    """Yield the rows of files as they are read, and typed, with null for unreadable values."""
    spec = parse_spec(declaration)
    wanted = [
        WantedColumn(c.name, c.type, c.nullable, form=spec.source.written(c.name, c.type.kind))
        for c in spec.relation().columns
    ]
    for raw in raw_files(declaration, files, refused):
        try:
            typed = typed_rows(raw, wanted)
        except InvalidRequest as error:
            refused.append(error)
        else:
            yield raw, typed


def with_records(declaration: dict[str, Any], files: Sequence[SourceFile]) -> dict[str, Any]:
    """Return a declaration that has records where structs hold what JSON does not, as NaN.

    Cost: reads the files once more if a column may have structs.
    """
    types = {c["name"]: c["type"] for c in declaration["columns"] if "jsonb" in c["type"]}
    for raw in raw_files(declaration, files, []) if types else ():
        for name, kind in types.items():
            values = raw.columns[name]
            lost = _unread(raw, name, kind) if _is_nested(values) else 0
            record = guess_arrow(values.type, records=True) if lost else kind
            if _unread(raw, name, record) < lost:
                types[name] = record
    columns = [c | {"type": types.get(c["name"], c["type"])} for c in declaration["columns"]]
    return {**declaration, "columns": columns}


def _is_nested(values: object) -> bool:
    """Return whether values of a file have a type with others inside; texts of JSON have none."""
    return isinstance(values, pa.Array) and pa.types.is_nested(values.type)


def _unread(raw: RawFile, name: str, kind: str) -> int:
    """Return how many values of a column cannot be read as a type."""
    return len(guarded(raw.convert, raw.columns[name], parse_type(kind)).bad)


def not_taken(declaration: Mapping[str, Any], files: Sequence[SourceFile]) -> tuple[str, ...]:
    """Return notes on rows that an ingest would reject, by column, and on files it would refuse.

    Cost: reads the files once more.
    """
    rows, counts = 0, Counter[str | None]()
    firsts: dict[str | None, Reject] = {}
    refused: list[InvalidRequest] = []
    for raw, typed in typed_files(declaration, files, refused):
        rows += raw.count + len(raw.malformed)
        columns = {row: bad.column for row, bad in sorted(typed.bad.items())}
        counts.update(columns.values())
        counts[None] += len(raw.malformed)
        # The first of each column: to show them all would take longer than to read them.
        shown = {column: row for row, column in reversed(columns.items())}.values()
        some = replace(raw, malformed=raw.malformed[:1])
        for reject in rejects(some, {row: typed.bad[row] for row in shown}):
            firsts.setdefault(reject.column, reject)
    return (
        *(_rejected(reject, counts[column], rows) for column, reject in firsts.items()),
        *(f"no ingest takes this file in as it is: {error}" for error in refused),
    )


def _rejected(first: Reject, count: int, rows: int) -> str:
    value = details(first)["value"]
    name = "" if first.column is None else f"{first.column}: "
    place = first.file if first.line is None else f"{first.file}, line {first.line}"
    return (
        f"{name}{count:,} of {rows:,} examined rows would be rejected: {first.reason} "
        f"({place if value is None else f'{place}: {value}'})"
    )
