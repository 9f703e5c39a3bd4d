"""The tasks of a change stream: read files and put them aside, then resolve each key range.

1. `stage_task`, many side by side: the changes of some files, typed, with their place in the
   stream, sorted by key, in a blob that no state ever names (garbage collection removes it).
2. `resolve_task`, one for each slice of the keys: the changes of all blobs in that slice meet the
   rows that the shard holds for their keys, and become one sorted run of the batch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.columns import T, child
from strata.format.values.view import to_view
from strata.ingest.aside import Aside, put_aside
from strata.ingest.changes.altered import check_columns, turns_of
from strata.ingest.changes.lookup import rows_of_keys, rows_of_slice
from strata.ingest.changes.resolve import REASONS, Resolved, resolve
from strata.ingest.changes.staging import slices_of, stage, staged_rows
from strata.ingest.counts import Counts
from strata.ingest.land.files import unless_changed
from strata.ingest.readers.change import (
    AT,
    DELETE,
    INSERT,
    KEY,
    OP,
    SAME,
    TRUNCATE,
    UPDATE,
    UPSERT,
    Truncation,
    changes_schema,
    combined,
    key_bytes,
    key_ids,
    leading_key_ids,
)
from strata.ingest.readers.columns import time_column
from strata.ingest.readers.kept import keep_row
from strata.ingest.readers.position import UNKNOWN, Course, Leg, Places, legs_of
from strata.ingest.readers.read import read_file
from strata.ingest.readers.rejects import Reject, details
from strata.ingest.readers.source import (
    NULL,
    BadValue,
    RawFile,
    TypedRows,
    WantedColumn,
    typed_rows,
)
from strata.ingest.readers.stream_tables import check_tables, check_truncated_table
from strata.ingest.readers.turns import Turns, all_turns
from strata.ingest.run import RUN_BYTES, takes, write_run
from strata.ingest.suppressed import without_suppressed
from strata.ingest.task import IngestTask, JudgedRows, Staged, TaskResult
from strata.ingest.updates import default_of, judged_rows, times_of
from strata.ingest.values.cast import Rows
from strata.ingest.values.shown import json_text
from strata.ingest.verify import verify_rows
from strata.model.schema import Relation
from strata.model.types import ColumnType, Kind
from strata.state.state import State
from strata.store.interface import Blob
from strata.store.open import Stores, open_stores
from strata.updates.order import one_chunk
from strata.updates.slices import Slice

LETTERS: Final = {INSERT: "c", UPDATE: "u", DELETE: "d", UPSERT: "r"}
BOOL: Final = ColumnType(Kind.BOOL)
Mask = npt.NDArray[np.bool_]
Ops = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ResolveTask:
    """The changes of one batch in one slice of the keys; picklable."""

    task: IngestTask  # what all tasks of the batch share; `files` are the batch's
    state: State  # the shard that the changes are applied to
    staged: tuple[Staged, ...]
    piece: Slice
    course: Course = field(default_factory=Course)


def stage_task(task: IngestTask, blob: Blob | None = None) -> TaskResult:
    """Read the changes of a task's files and put them aside; rejected rows go to the quarantine.

    Raises: InvalidRequest for a file of the wrong shape.
    Cost: reads the files whole; memory is about three times their decoded size.
    """
    store = open_stores(task.store).blob if blob is None else blob
    with unless_changed(task.files):
        result = stage_rows(store, task, _raw_files(task))
    return replace(result, taken=takes(task))


def stage_rows(store: Blob, task: IngestTask, raws: Iterable[RawFile]) -> TaskResult:
    """Put the changes in raw rows aside; rejected rows go to the quarantine."""
    result = TaskResult(task.batch, task.number)
    aside = Aside(store, task)
    for some in _together(store, task, raws, aside):
        for read in some:
            result = result.plus(read.judged)
        turns = all_turns([result.turns, *(read.turns for read in some)])
        changes = combined([read.changes for read in some], task.relation)
        truncations = tuple(place for read in some for place in read.truncations)
        legs = tuple(leg for read in some for leg in read.legs)
        staged = stage(store, task, changes, truncations, legs)
        if staged is not None and any(read.moved for read in some):
            staged = replace(staged, moved=True)
        result = replace(
            result,
            staged=result.staged if staged is None else (*result.staged, staged),
            turns=turns,
        )
    return replace(result, quarantine=aside.finish())


def _raw_files(task: IngestTask) -> Iterator[RawFile]:
    for file in task.files:
        yield from read_file(file, task.spec, task.relation, task.renamed)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The changes in a file of a change stream, or in a part of one."""

    changes: pa.Table  # of `changes_schema`, in the order of the file
    truncations: tuple[Truncation, ...]
    legs: tuple[Leg, ...]
    moved: bool  # a row got another key, and not all of its values were sent
    judged: JudgedRows
    turns: Turns  # that the rows show, see `turns`


def _together(
    store: Blob, task: IngestTask, raws: Iterable[RawFile], aside: Aside
) -> Iterator[list[FileChanges]]:
    """Yield what is read in groups that are put aside together."""
    waiting: list[FileChanges] = []
    size = 0
    for raw in raws:
        read = file_changes(raw, task)
        changes, judged = without_suppressed(store, task, read.changes, read.judged)
        waiting.append(replace(read, changes=changes, judged=aside.take(judged)))
        size += waiting[-1].changes.nbytes
        if size >= RUN_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def file_changes(raw: RawFile, task: IngestTask) -> FileChanges:
    """Return the changes of one file, and what became of its rows.

    Raises: InvalidRequest for a file of the wrong shape, and for a row out of its time where
    the shard declares that such rows are refused.
    """
    relation = task.relation
    placed = raw.places is not None
    check_tables(raw.tables.known, task.spec.source.tables, placed=placed, file=raw.file)
    check_columns(raw, task)
    wanted = [
        WantedColumn(
            c.name,
            c.type,
            c.nullable or c.id not in relation.key,
            default_of(c),
            task.spec.source.written(c.name, c.type.kind),
        )
        for c in relation.columns
    ]
    truncates = _rows_of(raw, TRUNCATE)
    if len(truncates):
        line = raw.locate(truncates[:1])[0][0]
        check_truncated_table(task.spec.source.tables, file=raw.file, line=line)
    typed = typed_rows(raw, [*wanted, *_mark(raw, task)], exempt=truncates)
    types = {c.name: c.type for c in relation.columns}
    verified = verify_rows(task.verify, task.spec, raw, typed, types, truncates)
    bad = dict(typed.bad)
    moments = times_of(raw, typed, task, bad)
    times = moments.times
    if task.spec.time.origin == "source" and raw.places is not None and raw.count:
        times = np.maximum.accumulate(times)  # a stream is in the order of its commits
    ops = _marked(typed, task) if raw.ops is None else raw.ops
    same = {name: mask for name, mask in raw.same.items() if mask.any()}
    _check_nulls(typed, relation, ops, same, bad)
    places = raw.places or _no_places(raw.count)
    first = (raw.number << 32) + raw.before
    at = first + np.arange(raw.count)
    kept = ops != TRUNCATE
    kept[list(bad)] = False
    changes = _table(typed, relation, times, ops, at, places, same).filter(pa.array(kept))
    facts = (at, times, places.commit, places.lsn)
    return FileChanges(
        changes,
        tuple(Truncation(*(int(fact[row]) for fact in facts)) for row in truncates.tolist()),
        tuple(legs_of(places, times, first)),
        _moves(ops, list(same.values())),
        judged_rows(raw, bad, moments, verified),
        turns_of(raw, task, at),
    )


def _rows_of(raw: RawFile, op: int) -> Rows:
    return np.array([], np.int64) if raw.ops is None else np.flatnonzero(raw.ops == op)


def _marked(typed: TypedRows, task: IngestTask) -> Ops:
    """Return the operations of keyed rows; a marked row removes its key."""
    mark = typed.columns.get(task.spec.source.deleted_column)
    if mark is None:
        return np.full(typed.count, UPSERT, np.uint8)
    gone = mark.fill_null(False).to_numpy(zero_copy_only=False)
    return np.where(gone, DELETE, UPSERT).astype(np.uint8)


def _check_nulls(
    typed: TypedRows,
    relation: Relation,
    ops: Ops,
    same: Mapping[str, Mask],
    bad: dict[int, BadValue],
) -> None:
    """Add to `bad` the rows with a null in a column that may not be null."""
    stated = ~np.isin(ops, (DELETE, TRUNCATE))
    for column in relation.value_columns:
        if not column.nullable:
            null = typed.columns[column.name].is_null().to_numpy(zero_copy_only=False)
            null = null & stated & ~same.get(column.name, False)
            for row in np.flatnonzero(null).tolist():
                bad.setdefault(row, BadValue(column.name, NULL))


def _table(  # noqa: PLR0913, PLR0917  a row is as wide as this
    typed: TypedRows,
    relation: Relation,
    times: Rows,
    ops: Ops,
    at: Rows,
    places: Places,
    same: Mapping[str, Mask],
) -> pa.Table:
    """Return changes as a table of `changes_schema`."""
    arrays = [typed.columns[column.name] for column in relation.columns]
    schema = changes_schema(relation, [relation.by_name[name].id for name in same])
    columns = pa.Table.from_arrays(arrays, [child(c.id) for c in relation.columns])
    arrays += [pa.array(times), pa.array(ops), pa.array(at), key_bytes(columns, key_ids(relation))]
    arrays += [pa.array(places.commit), pa.array(places.lsn)]
    arrays += [pa.array(mask) for mask in same.values()]
    return pa.Table.from_arrays(arrays, schema=schema)


def _no_places(count: int) -> Places:
    unknown = np.full(count, UNKNOWN)
    return Places(unknown, unknown, np.zeros(count, np.int64), np.zeros(count, bool))


def _moves(ops: npt.NDArray[np.uint8], same: Sequence[npt.NDArray[np.bool_]]) -> bool:
    """Return whether an inserted row lacks values, which the row deleted before it has."""
    return any(bool((mask & (ops == INSERT)).any()) for mask in same)


def _mark(raw: RawFile, task: IngestTask) -> list[WantedColumn]:
    """Return the column of tombstones, if the file has it."""
    name = task.spec.source.deleted_column if raw.ops is None else ""
    return [WantedColumn(name, BOOL, nullable=True)] if name and name in raw.columns else []


def resolve_tasks(
    task: IngestTask,
    state: State,
    staged: Sequence[Staged],
    task_bytes: int,
    course: Course,
) -> list[ResolveTask]:
    """Return the tasks that resolve the changes of one batch: slices of about equal bytes."""
    pieces = slices_of(staged, task_bytes)
    shared = replace(task, relation=state.relation, generation=state.generation)
    return [
        ResolveTask(replace(shared, number=number), state, tuple(staged), piece, course)
        for number, piece in enumerate(pieces)
    ]


def resolve_task(work: ResolveTask, stores: Stores | None = None) -> TaskResult:
    """Write the run of one slice.

    Raises: InvalidRequest for a contradicting change if the declaration says to fail, and if the
    shard does not hold a key exactly once.
    Cost: reads the staged changes, and the shard's row groups that may hold one of their keys.
    """
    task, state, piece = work.task, work.state, work.piece
    stores = open_stores(task.store) if stores is None else stores
    found_rows = (staged_rows(stores.blob, state.name, one, piece) for one in work.staged)
    changes = combined([rows for rows in found_rows if rows is not None], state.relation)
    truncations = [one for staged in work.staged for one in staged.truncations]
    if truncations or work.course.emptied:
        old = rows_of_slice(stores, state, piece)
    else:
        old = rows_of_keys(stores, state, changes[KEY].combine_chunks())
    found = resolve(
        changes,
        old.rows,
        state.relation,
        truncations=truncations,
        course=work.course,
        leave_out=leaves_out(task),
    )
    judged, aside = contradicting(found, task)
    run = write_run(stores.blob, task, [found.updates])
    return replace(
        judged,
        parts=run.parts,
        quarantine=(put_aside(stores.blob, task, aside),) if aside else (),
        differences=run.differences,
        sliced=leading_key_ids(state.relation) == key_ids(state.relation),
    )


def leaves_out(task: IngestTask) -> bool:
    """Return whether changes that contradict the shard are not applied."""
    return task.spec.source.contradictions == "quarantine"


def contradicting(found: Resolved, task: IngestTask) -> tuple[TaskResult, list[Reject]]:
    """Return how many changes contradict the shard, and those to put aside.

    Raises: InvalidRequest if there are some and the declaration says to fail.
    """
    wrong = found.wrong.num_rows
    first = _wrong(found.wrong.slice(0, 1), task) if wrong else []
    if wrong and task.spec.source.contradictions == "fail":
        raise InvalidRequest(
            "a change contradicts the shard, nothing was committed",
            **details(first[0]),
            rows=wrong,
            cure="correct the stream, or declare source.contradictions: quarantine or count",
        )
    aside = _wrong(found.wrong, task) if leaves_out(task) else []
    counts = Counts(rejected=len(aside), contradictions=wrong - len(aside), repeated=found.repeated)
    first_reject = first[0] if aside else None
    return TaskResult(task.batch, task.number, counts, first_reject=first_reject), aside


def _wrong(rows: pa.Table, task: IngestTask) -> list[Reject]:
    """Return changes as rejected rows, with a text that the envelope's reader accepts."""
    names = {child(c.id): c for c in task.relation.columns}
    shown = {
        c.name: to_view(rows[name].combine_chunks(), c.type).to_pylist()
        for name, c in names.items()
    }
    ops, places, times = rows[OP].to_pylist(), rows[AT].to_pylist(), rows[T].to_pylist()
    found, there = [], set(rows.column_names)
    for n, (op, at, time) in enumerate(zip(ops, places, times, strict=True)):
        row = {
            c.name: shown[c.name][n]
            for name, c in names.items()
            if f"{SAME}{c.id}" not in there or not rows[f"{SAME}{c.id}"][n].as_py()
        }
        number = at >> 32
        file = task.files[number].name if number < len(task.files) else f"rows/{number}"
        raw = json_text(_as_event(op, row, time, task))
        kept = _kept(rows.slice(n, 1), task, [c.name for c in names.values() if c.name not in row])
        found.append(Reject(file, (at & 0xFFFFFFFF) + 1, None, None, REASONS[op], raw, kept))
    return found


def _as_event(op: int, row: dict[str, Any], time: int, task: IngestTask) -> dict[str, Any]:
    called = task.spec.source.names_of_source
    key = {called.get(c.name, c.name): row[c.name] for c in task.relation.key_columns}
    row = {called.get(name, name): value for name, value in row.items()}
    if task.spec.source.envelope == "upsert":
        return {"key": key, "value": None if op == DELETE else row, "timestamp": time}
    sides = {"before": key, "after": None} if op == DELETE else {"before": None, "after": row}
    return {**sides, "op": LETTERS[op], "ts_ms": time}


def _kept(row: pa.Table, task: IngestTask, same: Sequence[str]) -> str | None:
    """Return a change in a form that can be read again, with all values intact."""
    columns = {c.name: one_chunk(row[child(c.id)]) for c in task.relation.columns}
    if task.spec.time.origin != "interval" and time_column(task.spec) not in columns:
        columns[time_column(task.spec)] = one_chunk(row[T])
    return keep_row(columns, 0, task.relation.ids, int(row[OP][0].as_py()), same)
