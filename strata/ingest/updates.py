"""Typed source rows made into updates: which time, how often, and which columns are kept.

Envelopes: `append` adds each row once; `diff` takes how often from a column that is not stored.
The time is the interval's lower, or comes from a column: late rows (before lower) are advanced to
lower, refused or quarantined as the shard declares; early ones (at or after upper) are refused,
or quarantined where late ones are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.columns import updates_schema
from strata.format.migrate import default_array
from strata.ingest.cast import to_milliseconds
from strata.ingest.rejects import Reject, details
from strata.ingest.source import RawFile, TypedRows, Wanted, rejects, typed_rows
from strata.ingest.task import IngestTask
from strata.model.schema import Column, Relation
from strata.model.spec import ShardSpec
from strata.model.types import ColumnType, Kind

ENVELOPES: Final = ("append", "diff")
TIME_KINDS: Final = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DATE, Kind.INT64)
INT64: Final = ColumnType(Kind.INT64)
TIMESTAMPTZ: Final = ColumnType(Kind.TIMESTAMPTZ)


@dataclass(frozen=True, slots=True)
class FileUpdates:
    """What one source file gave."""

    updates: pa.Table  # of `updates_schema`, in file order
    rows: int  # source rows seen
    late: int
    rejected: Sequence[Reject]


def check_spec(spec: ShardSpec, relation: Relation) -> None:
    """Refuse a declaration that cannot be ingested.

    Raises: InvalidRequest.
    """
    source, time = spec.source, spec.time
    if source.envelope not in ENVELOPES:
        raise InvalidRequest(
            "this envelope is not supported yet",
            shard=spec.name, setting="source.envelope", value=source.envelope,
            cure=f"one of {', '.join(ENVELOPES)}",
        )  # fmt: skip
    if source.envelope == "diff" and source.diff_column in relation.by_name:
        raise InvalidRequest(
            "the diff column is not stored, so it cannot be declared",
            shard=spec.name, column=source.diff_column, cure="remove it from the columns",
        )  # fmt: skip
    column = relation.by_name.get(time.column or "")
    if time.origin != "interval" and column and column.type.kind not in TIME_KINDS:
        raise InvalidRequest(
            "this column cannot give the time",
            shard=spec.name, column=column.name, type=str(column.type),
            cure=f"one of {', '.join(TIME_KINDS)}; integers are milliseconds since 1970",
        )  # fmt: skip


def _default(column: Column) -> pa.Array | None:
    return None if column.default is None else default_array(column, 1)


def source_names(spec: ShardSpec, relation: Relation) -> list[str]:
    """Return the columns that a source file has; those with a default may be missing."""
    names = [column.name for column in relation.columns]
    if spec.source.envelope == "diff":
        names.append(spec.source.diff_column)
    if spec.time.origin != "interval" and spec.time.column not in names:
        names.append(str(spec.time.column))
    return names


def file_updates(raw: RawFile, task: IngestTask) -> FileUpdates:
    """Return the updates of one file, and the rows that gave none.

    Raises: InvalidRequest for a file of the wrong shape, and for a row out of its time where
    the shard declares that such rows are refused.
    """
    spec, relation = task.spec, task.relation
    wanted = [Wanted(c.name, c.type, c.nullable, _default(c)) for c in relation.columns]
    if spec.source.envelope == "diff":
        wanted.append(Wanted(spec.source.diff_column, INT64, nullable=False))
    typed = typed_rows(raw, wanted)
    bad = dict(typed.bad)
    if spec.time.origin == "interval":
        times, late = np.full(raw.count, task.lower, np.int64), 0
    else:
        times, late = _times(raw, typed, task, bad)
    diffs = (
        typed.columns[spec.source.diff_column]
        if spec.source.envelope == "diff"
        else pa.array(np.ones(raw.count, np.int64))
    )
    columns = [typed.columns[column.name] for column in relation.columns]
    schema = updates_schema(relation)
    table = pa.Table.from_arrays(
        [*columns, pa.array(times), diffs],
        schema=pa.schema([f.with_nullable(True) for f in schema]),
    )
    if bad:
        kept = np.ones(raw.count, bool)
        kept[list(bad)] = False
        table = table.filter(pa.array(kept))
    found = rejects(raw, bad) if bad or raw.malformed else []
    return FileUpdates(table.cast(schema), raw.count + len(raw.malformed), late, found)


def _times(
    raw: RawFile, typed: TypedRows, task: IngestTask, bad: dict[int, tuple[str, str]]
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the time of each row, and how many were advanced; adds to `bad`."""
    column = str(task.spec.time.column)
    values = typed.columns.get(column)
    times = to_milliseconds(_undeclared(raw, column) if values is None else values)
    known = pc.is_valid(times).to_numpy(zero_copy_only=False)
    result = np.array(times.fill_null(task.lower).to_numpy())
    for row in np.flatnonzero(~known).tolist():
        bad.setdefault(row, (column, "no readable time"))
    early = np.flatnonzero(known & (result >= task.upper))
    late = np.flatnonzero(known & (result < task.lower))
    policy = task.spec.time.late
    _out_of_time(raw, column, early, "not before the interval's upper", policy, bad)
    if policy != "advance":
        _out_of_time(raw, column, late, "before the interval's lower", policy, bad)
        return result, 0
    result[late] = task.lower
    return result, sum(1 for row in late.tolist() if row not in bad)


def _undeclared(raw: RawFile, column: str) -> pa.Array:
    """Return a time column that is not stored: timestamps, or integers of milliseconds."""
    numbers = raw.convert(raw.columns[column], INT64).values
    moments = to_milliseconds(raw.convert(raw.columns[column], TIMESTAMPTZ).values)
    return pc.coalesce(numbers, moments)


def _out_of_time(
    raw: RawFile,
    column: str,
    rows: npt.NDArray[np.int64],
    reason: str,
    policy: str,
    bad: dict[int, tuple[str, str]],
) -> None:
    if not len(rows):
        return
    if policy == "quarantine":
        for row in rows.tolist():
            bad.setdefault(row, (column, reason))
        return
    first = rejects(raw, {int(rows[0]): (column, reason)})
    found = next(reject for reject in first if reject.column == column)
    raise InvalidRequest(
        "a row's time lies outside of the interval",
        **details(found), rows=len(rows), cure="ingest the interval it belongs to, or time.late",
    )  # fmt: skip
