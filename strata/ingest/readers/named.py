"""Gives what was read from a file the names of the shard, and errors both names.

Readers know only the names that a file has (`SourceColumns`). What comes after them knows only
those of the shard.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from strata.errors import InvalidRequest
from strata.ingest.readers.source import RawFile

T = TypeVar("T")


def by_shard_names(raw: RawFile, called: Mapping[str, str]) -> RawFile:
    """Return the rows of a file with the shard's names; `called`: see `names_of_source`.

    Columns that no shard declares keep theirs.
    """
    names = {name: column for column, name in called.items()}

    def renamed(values: Mapping[str, T]) -> dict[str, T]:
        return {names.get(name, name): value for name, value in values.items()}

    return replace(
        raw,
        columns=renamed(raw.columns),
        original=renamed(raw.original),
        lacking=renamed(raw.lacking),
        same=renamed(raw.same),
        defaulted=renamed(raw.defaulted),
        called=called,
    )


def named_by_shard(error: InvalidRequest, called: Mapping[str, str]) -> InvalidRequest:
    """Return the error of a file; it names a column as the file does, and as the shard does."""
    name = error.details.get("column")
    column = next((column for column, one in called.items() if one == name), None)
    if column is None:
        return error
    details = {**error.details, "column_of_shard": column}
    return InvalidRequest(error.message, **details, cure=error.cure)
