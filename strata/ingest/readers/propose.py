"""Proposes key, sort order, statistics and their budget for inferred columns, each with the reason.

What is proposed is seen in rows of the examined files, and a person approves it. Nothing is
proposed for change streams: their source declares a key, and their time is that of the database.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.land.source_file import SourceFile
from strata.ingest.readers.examined import typed_files
from strata.model.spec import parse_spec
from strata.model.types import Kind
from strata.stats.members import SET_VALUES, form_of
from strata.stats.protected import most_bytes

LEAST_ROWS: Final = 20  # of fewer rows nothing is concluded
_TIMES: Final = (Kind.TIMESTAMPTZ, Kind.TIMESTAMP, Kind.DATE)
_NAMED_LIKE: Final = re.compile(
    r"((?i:.*[_.-])|)(?i:id|key|uuid|guid|code|number|no)|.*[a-z](Id|Key|Code)"
)


@dataclass(frozen=True, slots=True)
class Why:
    """One setting of a proposal, and what speaks for it."""

    setting: str
    value: str
    because: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """The values of one column in the examined files."""

    name: str
    kind: Kind
    distinct: int
    widest: int  # the most different values of one file
    nulls: int
    recorded: bool  # its values can be recorded in sets


def proposed(
    declaration: Mapping[str, Any], files: Sequence[SourceFile]
) -> tuple[dict[str, Any], tuple[Why, ...]]:
    """Return settings to add to a declaration of columns, and why.

    Shape: `declaration` is as in the YAML file; a key that it has stays.
    Cost: reads the files again, those of some LOOKED_BYTES.
    """
    found, why = _proposed(declaration, files)
    budget = _budget({**declaration, **found}, why)
    if budget is not None:
        found["stats"] = {**found.get("stats", {}), "budget_bytes": budget}
    return found, tuple(why)


def _budget(declaration: Mapping[str, Any], why: list[Why]) -> int | None:
    """Return a budget in which the sort order and the names of times fit, if today's has no room.

    A shard without it would be refused.
    """
    spec = parse_spec(declaration)
    needed = most_bytes(spec.relation(), spec.stats.keep)
    if needed <= spec.stats.budget_bytes:
        return None
    budget = 1 << (needed - 1).bit_length()
    because = f"the sort order and columns that are called like times may take {needed:,} bytes"
    why.append(Why("stats.budget_bytes", str(budget), because))
    return budget


def _proposed(
    declaration: Mapping[str, Any], files: Sequence[SourceFile]
) -> tuple[dict[str, Any], list[Why]]:
    rows, columns = _seen(declaration, files)
    if rows < LEAST_ROWS:
        few = f"only {rows} rows were examined: nothing is concluded of {LEAST_ROWS} or fewer"
        return {}, [Why("key", "all columns", few)] if "key" not in declaration else []
    found: dict[str, Any] = {}
    why: list[Why] = []
    key = list(declaration.get("key", ()))
    time = next((c.name for c in columns if c.kind in _TIMES and not c.nulls), None)
    unique = [
        c
        for c in columns
        if c.distinct == rows and not c.nulls and c.recorded and _NAMED_LIKE.fullmatch(c.name)
    ]
    if not key and unique:
        key = [unique[0].name]
        found["key"] = key
        why.append(Why("key", key[0], f"it is different in all {rows:,} rows, and never null"))
    elif not key:
        first = time or (columns[0].name if columns else "")
        why.append(
            Why(
                "key",
                "all columns",
                "no column that is called like an id is different in all "
                f"rows; so the shard sorts by {first} first, and no column can be dropped later",
            )
        )
    if time is not None and key[:1] != [time]:
        found["order"] = [time]
        why.append(
            Why(
                "order",
                time,
                "it is a time in every row: a part then holds a narrow range "
                "of it, and filters by time skip the others",
            )
        )
    stats: dict[str, Any] = dict(_members(columns, rows, {time, *key[:1]}, why))
    if stats:
        found["stats"] = stats
    return found, why


def _members(
    columns: Sequence[_Seen], rows: int, leading: set[str | None], why: list[Why]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the places whose values are worth recording, and add the reasons to `why`."""
    rest = [c for c in columns if c.recorded and c.name not in leading]
    few = [c for c in rest if c.distinct <= SET_VALUES and 1 < c.widest < c.distinct]
    many = [
        c
        for c in rest
        if c.distinct > max(SET_VALUES, 0.9 * (rows - c.nulls)) and _NAMED_LIKE.fullmatch(c.name)
    ]
    if few:
        yield "sets", [c.name for c in few]
    if many:
        yield "blooms", [c.name for c in many]
    why += [
        Why("stats.sets", c.name, f"{c.distinct} different values, and files differ in theirs")
        for c in few
    ]
    why += [
        Why(
            "stats.blooms",
            c.name,
            f"{c.distinct:,} different values, called like an id: it "
            "may be looked up, and rows are not sorted by it",
        )
        for c in many
    ]


def _seen(declaration: Mapping[str, Any], files: Sequence[SourceFile]) -> tuple[int, list[_Seen]]:
    """Return how many rows were examined, and what is known of each column."""
    relation = parse_spec(declaration).relation()
    tables = [typed for _, typed in typed_files(declaration, files, [])]
    rows = sum(typed.count for typed in tables)
    found = []
    for column in relation.columns:
        arrays = [typed.columns[column.name] for typed in tables]
        recorded = form_of(column.type) is not None and not any(
            pa.types.is_nested(array.type) for array in arrays
        )
        counts = [len(pc.unique(a).drop_null()) for a in arrays] if recorded else [0]
        every = pa.chunked_array(arrays) if arrays and recorded else None
        distinct = 0 if every is None else len(pc.unique(every).drop_null())
        nulls = sum(array.null_count for array in arrays)
        found.append(
            _Seen(column.name, column.type.kind, distinct, max(counts, default=0), nulls, recorded)
        )
    return rows, found
