"""A declaration for files that are there: read some of them, propose a type for each column.

The proposal is for a person to approve: it is shown as the YAML that declares the shard, and what
is created is pinned. Nothing is inferred again later: a file that does not fit is refused, or its
rows rejected. What is not sure becomes text, or jsonb where it is nested.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from strata.errors import InvalidRequest
from strata.ingest.land.files import PACKINGS, SourceFile, files_at
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.formats.interface import format_of
from strata.ingest.readers.guess import Guess, both
from strata.model.settings import Settings
from strata.model.spec import DELIMITER, FORMATS

FILES: Final = 5  # that are read: the first, the last, and some between


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
    dialect = format_of(kind).dialect(some)
    columns, rows = _columns(some, kind, dialect, envelope)
    missing = [column for column in key if column not in columns]
    if missing or not columns:
        raise InvalidRequest(
            "no such column in the files", shard=name, column=",".join(missing),
            cure=f"one of {', '.join(columns)}",
        )  # fmt: skip
    declared = [
        {"name": column, "type": text or format_of(kind).untyped}
        | ({"nullable": False} if column in key else {})
        for column, (text, _) in columns.items()
    ]
    declaration: dict[str, Any] = {"name": name, "columns": declared}
    if key:
        declaration["key"] = list(key)
    declaration["source"] = {"paths": [path], "format": kind} | _written(dialect)
    if envelope != "append":
        declaration["source"]["envelope"] = envelope
    if envelope == "debezium":
        declaration["time"] = {"from": "source"}
    return Inferred(declaration, len(some), rows)


def _columns(
    files: Sequence[SourceFile], kind: str, dialect: Dialect | None, envelope: str
) -> tuple[dict[str, Guess], int]:
    """Return a type for each column that one of the files has, and how many rows say so."""
    columns: dict[str, Guess] = {}
    rows = 0
    for file in files:
        found, seen = format_of(kind).guesses(
            replace(file, dialect=dialect or file.dialect), envelope
        )  # fmt: skip
        rows += seen
        for column, guess in found.items():
            columns[column] = both(columns[column], guess) if column in columns else guess
    return columns, rows


def _written(dialect: Dialect | None) -> dict[str, Any]:
    """Return what a declaration says about how files are written."""
    if dialect is None:
        return {}
    delimiter = {} if dialect.delimiter == DELIMITER else {"delimiter": dialect.delimiter}
    return delimiter | {"nulls": list(dialect.nulls)}


def _format(file: SourceFile) -> str:
    suffixes = file.suffixes
    while suffixes and (suffixes[-1] in PACKINGS or suffixes[-1] == ".xz"):
        suffixes.pop()
    known = {suffix: name for name in FORMATS for suffix in format_of(name).suffixes}
    if not suffixes or suffixes[-1] not in known:
        raise InvalidRequest(
            "the format cannot be told from the name", file=file.name,
            cure=f"--format: one of {', '.join(sorted(FORMATS))}",
        )  # fmt: skip
    return known[suffixes[-1]]
