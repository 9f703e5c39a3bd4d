"""Turns typed source rows into updates: their time, their diff, and the columns to keep.

Envelopes: `append` adds each row once; `diff` takes the diff from a column that is not stored;
`upsert` and `debezium` are in `strata.ingest.changes.tasks`. The time is the interval's lower, or
comes from a column or the change stream. As the shard declares, late rows (before lower) are
advanced to lower, refused or quarantined. Early rows (at or after upper) are refused, quarantined,
or moved back to the last time before upper.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.columns import updates_schema
from strata.format.values.migrate import default_array
from strata.ingest.counts import Counts
from strata.ingest.readers.columns import INT64, time_column
from strata.ingest.readers.formats.interface import format_of
from strata.ingest.readers.rejects import details
from strata.ingest.readers.source import (
    BadValue,
    RawFile,
    TypedRows,
    WantedColumn,
    guarded,
    rejects,
    typed_rows,
)
from strata.ingest.task import IngestTask, JudgedRows
from strata.ingest.values.cast import to_milliseconds
from strata.ingest.verify import Verified, verify_rows
from strata.model.schema import Column, Relation
from strata.model.spec import FORMATS, IN_PLACE, ORDERED, ShardSpec, SourceSpec
from strata.model.types import ColumnType, Kind

TIME_KINDS: Final = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DATE, Kind.INT64)
TIMESTAMPTZ: Final = ColumnType(Kind.TIMESTAMPTZ)
DATE: Final = ColumnType(Kind.DATE)


@dataclass(frozen=True, slots=True)
class FileUpdates:
    """The updates and rejected rows of one source file."""

    updates: pa.Table  # of `updates_schema`, in file order
    judged: JudgedRows


def check_spec(spec: ShardSpec, relation: Relation) -> None:
    """Refuse a declaration that cannot be ingested.

    Raises: InvalidRequest.
    """
    source, time = spec.source, spec.time
    if source.in_place and (source.format, source.envelope) != IN_PLACE:
        raise InvalidRequest(
            "only Parquet files whose rows are appended can stay where they are",
            shard=spec.name,
            setting="source.in_place",
            format=source.format,
            envelope=source.envelope,
            cure="leave it out, or source: {format: parquet, envelope: append}",
        )
    usual = SourceSpec()
    for name in ("encoding", "decimal", "thousands", "header", "escape", "skip_blanks"):
        if source.format != "csv" and getattr(source, name) != getattr(usual, name):
            raise InvalidRequest(
                "only CSV is written in ways that a declaration says",
                shard=spec.name,
                setting=f"source.{name}",
                value=getattr(source, name),
                format=source.format,
                cure="leave it out, or source.format: csv",
            )
    if source.envelope in ORDERED and not 0 < len(relation.key) < len(relation.columns):
        raise InvalidRequest(
            "this envelope needs a key that is not the whole row",
            shard=spec.name,
            setting="source.envelope",
            value=source.envelope,
            cure="declare key: [NAME, ...]",
        )
    if source.envelope not in format_of(source.format).envelopes:
        having = [name for name in FORMATS if source.envelope in format_of(name).envelopes]
        raise InvalidRequest(
            "files of this format cannot have this envelope",
            shard=spec.name,
            setting="source.format",
            value=source.format,
            envelope=source.envelope,
            cure=" or ".join(sorted(having, reverse=True)),
        )
    if source.deleted_column and source.deleted_column in relation.by_name:
        raise InvalidRequest(
            "the column of tombstones is not stored, so it cannot be declared",
            shard=spec.name,
            column=source.deleted_column,
            cure="remove it from the columns",
        )
    if source.envelope == "diff" and source.diff_column in relation.by_name:
        raise InvalidRequest(
            "the diff column is not stored, so it cannot be declared",
            shard=spec.name,
            column=source.diff_column,
            cure="remove it from the columns",
        )
    column = relation.by_name.get(time.column or "")
    if time.origin != "interval" and column and column.type.kind not in TIME_KINDS:
        raise InvalidRequest(
            "this column cannot give the time",
            shard=spec.name,
            column=column.name,
            type=str(column.type),
            cure=f"one of {', '.join(TIME_KINDS)}; integers are milliseconds since 1970",
        )


def default_of(column: Column) -> pa.Array | None:
    """Return the default of a column as one value; None: it has none."""
    return None if column.default is None else default_array(column, 1)


def file_updates(raw: RawFile, task: IngestTask) -> FileUpdates:
    """Return the updates of one file, and the rows without an update.

    Raises: InvalidRequest for a file of the wrong shape, and for a row outside the interval if the
    shard refuses such rows.
    """
    spec, relation = task.spec, task.relation
    written = spec.source.written
    wanted = [
        WantedColumn(c.name, c.type, c.nullable, default_of(c), written(c.name, c.type.kind))
        for c in relation.columns
    ]
    if spec.source.envelope == "diff":
        wanted.append(WantedColumn(spec.source.diff_column, INT64, nullable=False))
    typed = typed_rows(raw, wanted)
    types = {column.name: column.type for column in wanted}
    verified = verify_rows(task.verify, spec, raw, typed, types)
    bad = dict(typed.bad)
    moments = times_of(raw, typed, task, bad)
    diffs = (
        typed.columns[spec.source.diff_column]
        if spec.source.envelope == "diff"
        else pa.array(np.ones(raw.count, np.int64))
    )
    columns = [typed.columns[column.name] for column in relation.columns]
    schema = updates_schema(relation)
    table = pa.Table.from_arrays(
        [*columns, pa.array(moments.times), diffs],
        schema=pa.schema([f.with_nullable(True) for f in schema]),
    )
    if bad:
        kept = np.ones(raw.count, bool)
        kept[list(bad)] = False
        table = table.filter(pa.array(kept))
    return FileUpdates(table.cast(schema), judged_rows(raw, bad, moments, verified))


def judged_rows(
    raw: RawFile, bad: Mapping[int, BadValue], moments: "Moments", verified: Verified
) -> JudgedRows:
    """Return the outcome for the rows of a file; `bad` are the unreadable ones."""
    found = rejects(raw, bad) if bad or raw.malformed else []
    counts = Counts(
        rows=raw.count + len(raw.malformed),
        rejected=len(found),
        late=moments.late,
        early=moments.early,
        passed=raw.passed,
        verified=verified.rows,
        undeclared=raw.undeclared,
        tables=raw.tables.known,
        defaulted=raw.defaulted,
    )
    return JudgedRows(counts, found, verified.differences)


@dataclass(frozen=True, slots=True)
class Moments:
    """The times of the rows of a file, and how many of them were moved."""

    times: npt.NDArray[np.int64]
    late: int = 0
    early: int = 0


def times_of(raw: RawFile, typed: TypedRows, task: IngestTask, bad: dict[int, BadValue]) -> Moments:
    """Return the time of each row; adds to `bad`.

    A change that seems to be delivered again is not late: it was in time.
    Raises: InvalidRequest for a row outside the interval if such rows are refused.
    """
    policy = task.spec.time
    if policy.origin == "interval":
        return Moments(np.full(raw.count, task.lower, np.int64))
    column = time_column(task.spec)
    values = typed.columns.get(column)
    times = to_milliseconds(_undeclared(raw, column) if values is None else values)
    known = pc.is_valid(times).to_numpy(zero_copy_only=False)
    result = np.array(times.fill_null(task.lower).to_numpy())
    for row in np.flatnonzero(~known).tolist():
        bad.setdefault(row, BadValue(column, "no readable time"))
    late = np.flatnonzero(known & (result < task.lower) & ~_again(raw, task))
    early = np.flatnonzero(known & (result >= task.upper))
    beyond = policy.early or ("quarantine" if policy.late == "quarantine" else "refuse")
    if beyond != "last":
        _out_of_time(raw, column, early, "not before the interval's upper", beyond, bad)
    if policy.late != "advance":
        _out_of_time(raw, column, late, "before the interval's lower", policy.late, bad)
    moved = [sum(1 for row in rows.tolist() if row not in bad) for rows in (late, early)]
    return Moments(np.clip(result, task.lower, task.upper - 1), *moved)


def _again(raw: RawFile, task: IngestTask) -> npt.NDArray[np.bool_]:
    if raw.places is None or task.progress is None:
        return np.zeros(raw.count, bool)
    return task.progress.has(raw.places)


def _undeclared(raw: RawFile, column: str) -> pa.Array:
    """Return a time column that is not stored: timestamps, dates, or integers of milliseconds."""
    numbers, *others = (
        guarded(raw.convert, raw.columns[column], kind).values
        for kind in (INT64, TIMESTAMPTZ, DATE)
    )
    return pc.coalesce(numbers, *map(to_milliseconds, others))


def _out_of_time(
    raw: RawFile,
    column: str,
    rows: npt.NDArray[np.int64],
    reason: str,
    policy: str,
    bad: dict[int, BadValue],
) -> None:
    if not len(rows):
        return
    if policy == "quarantine":
        for row in rows.tolist():
            bad.setdefault(row, BadValue(column, reason))
        return
    first = rejects(raw, {int(rows[0]): BadValue(column, reason)})
    found = next(reject for reject in first if reject.column == column)
    raise InvalidRequest(
        "a row's time lies outside of the interval",
        **details(found),
        rows=len(rows),
        cure="ingest the interval it belongs to, or time.late",
    )
