"""Infers a declaration from existing files: reads some of them, proposes a type for each column.

A person approves the proposal: it is shown as the YAML that declares the shard, and the created
shard is pinned to it. Nothing is inferred again later: a file that does not fit is refused, or its
rows are rejected. A doubtful column becomes text, or jsonb if it is nested.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from strata.errors import InvalidRequest
from strata.ingest.land.files import BOM, PACKINGS, SourceFile, files_at, unpacked
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.column_names import check_spelling, proposed_names
from strata.ingest.readers.dates import dates_written
from strata.ingest.readers.examined import LOOKED_BYTES, not_taken, with_records
from strata.ingest.readers.formats.interface import format_of
from strata.ingest.readers.found_encoding import encoding_of
from strata.ingest.readers.found_form import with_form
from strata.ingest.readers.guess import Guess, common_type, final_type
from strata.ingest.readers.propose import Why, proposed
from strata.model.near import one_of
from strata.model.settings import Settings
from strata.model.spec import FORMATS

_PROPOSED: Final = ("append", "upsert")  # envelopes whose key and order are seen in the rows
PEEKED_BYTES: Final = 1 << 20
FILES: Final = 5  # to read: the first, the last, and some in between


@dataclass(frozen=True, slots=True)
class Inferred:
    """A declaration in the form of the YAML file, and what it was made from."""

    declaration: dict[str, Any]
    files: int
    rows: int
    why: tuple[Why, ...] = ()  # of key, order, statistics and forms of dates
    notes: tuple[str, ...] = ()  # what a person may add, as comments of the file


def infer(  # noqa: PLR0913  what a person says of the files
    settings: Settings,
    name: str,
    path: str,
    *,
    key: Sequence[str] = (),
    format: str | None = None,
    envelope: str = "append",
    encoding: str | None = None,
    header: Sequence[str] = (),
) -> Inferred:
    """Return a declaration for the files at a path, with the reasons for its key and order.

    `encoding`: of CSV; None: UTF-8, or what a mark at the beginning of the files says. `header`:
    the names of the fields of CSV without a line of names.
    Raises: InvalidRequest if there are no files, their names do not show their format, they lack a
    key column, or CSV is not in the encoding.
    Cost: reads the first LOOKED_BYTES of up to FILES files, some five times.
    """
    files = files_at(settings.store.landing, [path], follow_links=settings.ingest.follow_links)
    if not files:
        raise InvalidRequest(
            "there are no files to infer from",
            path=path,
            cure="a folder with files; one that is passed over in a folder (x.csv.tmp) is named "
            "itself",
        )
    kind = format or _format(files[0])
    step = max(1, (len(files) - 1) // (FILES - 1)) if len(files) > 1 else 1
    chosen = {f.path: f for f in (*files[::step][: FILES - 1], files[-1])}.values()
    read = _as_written([*chosen], kind, encoding, header)
    some = [format_of(kind).head(file, LOOKED_BYTES) for file in read]
    dialect = format_of(kind).dialect(some)
    columns, rows = _columns(some, kind, dialect, envelope)
    if not columns:
        raise InvalidRequest(
            "the files have no columns to infer from",
            path=path,
            format=kind,
            cure="rows are objects with names, or lines below a header",
        )
    others = proposed_names(columns)
    called = {column: others[column][0] if column in others else column for column in columns}
    missing = [column for column in key if column not in {*columns, *called.values()}]
    if missing:
        raise InvalidRequest(
            "no such column in the files",
            shard=name,
            column=",".join(missing),
            cure=one_of(missing[0], columns),
        )
    key = [called.get(column, column) for column in key]
    declared = [
        {"name": called[column], "type": text or format_of(kind).untyped}
        | ({"nullable": False} if called[column] in key else {})
        for column, (text, _) in columns.items()
    ]
    declaration: dict[str, Any] = {"name": name, "columns": declared}
    if key:
        declaration["key"] = list(key)
    declaration["source"] = {"paths": [path], "format": kind} | _written(dialect)
    if others:
        declaration["source"]["names"] = {one: column for one, (column, _) in others.items()}
    named = tuple(
        f"{column}: the source calls it {one!r}; {why}" for one, (column, why) in others.items()
    )
    if envelope != "append":
        declaration["source"]["envelope"] = envelope
    if envelope == "debezium":
        declaration["time"] = {"from": "source"}
    if envelope not in _PROPOSED:
        said = {n: str(c["type"]) for n, c in zip(columns, declared, strict=True)}
        doubts = () if dialect is None else format_of(kind).doubts(some, dialect, said)
        return Inferred(declaration, len(some), rows, notes=(*named, *doubts))
    declaration, written, notes = dates_written(with_records(declaration, some), some)
    types = {n: c["type"] for n, c in zip(columns, declaration["columns"], strict=True)}
    doubts = format_of(kind).doubts(some, dialect, types)
    notes = (*named, *notes, *doubts, *not_taken(declaration, some))
    more, why = proposed(declaration, some)
    keys = more.get("key", ())
    declared = [c | {"nullable": False} if c["name"] in keys else c for c in declaration["columns"]]
    source = declaration.pop("source")
    declaration |= {"columns": declared, **more, "source": source}
    return Inferred(declaration, len(some), rows, (*written, *why), notes)


def _columns(
    files: Sequence[SourceFile], kind: str, dialect: Dialect | None, envelope: str
) -> tuple[dict[str, Guess], int]:
    """Return a type for each column that any file has, and how many rows were examined.

    Raises: InvalidRequest if files spell a column in several ways.
    """
    columns: dict[str, Guess] = {}
    rows = 0
    names: list[Collection[str]] = []
    for file in files:
        found, seen = format_of(kind).guesses(
            replace(file, dialect=dialect or file.dialect), envelope
        )
        rows += seen
        names.append(found.keys())
        for column, guess in found.items():
            known = columns.get(column, guess)
            columns[column] = common_type(known, guess, format_of(kind).untyped)
    check_spelling(names)
    return {column: final_type(guess) for column, guess in columns.items()}, rows


def _written(dialect: Dialect | None) -> dict[str, Any]:
    """Return what a declaration says about how files are written."""
    if dialect is None:
        return {}
    usual = Dialect()
    names = ("delimiter", "encoding", "decimal", "thousands", "escape", "skip_blanks")
    found = {name: getattr(dialect, name) for name in names}
    others = {name: one for name, one in found.items() if one != getattr(usual, name)}
    if dialect.header:
        others["header"] = list(dialect.header)
    return others | {"nulls": list(dialect.nulls)}


def _as_written(
    files: Sequence[SourceFile], kind: str, encoding: str | None, header: Sequence[str]
) -> Sequence[SourceFile]:
    """Return the files with what a person says of how they are written. Raises: InvalidRequest."""
    if kind != "csv":
        if encoding is not None:
            raise InvalidRequest(
                "an encoding is said of CSV only", format=kind, cure="leave --encoding out"
            )
        if header:
            raise InvalidRequest(
                "a header is said of CSV only", format=kind, cure="leave --header out"
            )
        return files
    dialect = Dialect(encoding=encoding_of(files, LOOKED_BYTES, encoding), header=tuple(header))
    return with_form([replace(file, dialect=dialect) for file in files], LOOKED_BYTES)


def _format(file: SourceFile) -> str:
    suffixes = file.suffixes
    while suffixes and (suffixes[-1] in PACKINGS or suffixes[-1] == ".xz"):
        suffixes.pop()
    known = {suffix: name for name in FORMATS for suffix in format_of(name).suffixes}
    if not suffixes or suffixes[-1] not in known:
        raise InvalidRequest(
            "the file's name does not show its format",
            file=file.name,
            cure=f"--format: one of {', '.join(sorted(FORMATS))}",
        )
    found = known[suffixes[-1]]
    return "jsonl" if found == "json" and _holds_lines(file) else found


def _holds_lines(file: SourceFile) -> bool:
    """Return whether a file holds an object a line, as Spark writes .json."""
    with unpacked(file) as stream:
        first, _, rest = stream.read(PEEKED_BYTES).removeprefix(BOM).lstrip().partition(b"\n")
    if not first.startswith(b"{") or not rest.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False
