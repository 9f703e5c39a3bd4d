"""Ingests a program's rows as one batch, with the same checks and the same commit as for files.

The owner of the rows calls `table_task`, table by table; `commit_tables` ends the batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.ingest.changes.settle import Settler, check_rejected, check_verified
from strata.ingest.changes.tasks import stage_rows
from strata.ingest.commit import Committer, report_of
from strata.ingest.land.files import SourceFile
from strata.ingest.ledger import Ledger
from strata.ingest.plan import whole_task
from strata.ingest.quarantine import catch_up
from strata.ingest.readers.columns import source_names
from strata.ingest.readers.source import RawFile, check_columns
from strata.ingest.readers.table import raw_table
from strata.ingest.run import run_rows
from strata.ingest.steps import interval_token
from strata.ingest.task import IngestReport, IngestTask, Step, TaskResult, Work
from strata.ingest.updates import FileUpdates, check_spec, file_updates
from strata.ingest.verify import sampling
from strata.ingest.widened import check_widened
from strata.machine.machine import Machine
from strata.machine.replaced import noticed
from strata.maintain.worth import paths_used
from strata.model.charsets import UTF_8
from strata.model.journals import check_not_journal
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.model.spec import ORDERED, POINT, ShardSpec, TimeSpec, check_name
from strata.model.time import time_given
from strata.state.source import check_source
from strata.state.spine import check_debt
from strata.state.state import State
from strata.stats.worth import worth_of
from strata.store.interface import Blob
from strata.store.open import Stores, open_stores

NUMBERS = 1 << 16  # tables of one partition; a table's number gives its place


@dataclass(frozen=True, slots=True)
class Rows:
    """How to interpret the rows of one batch."""

    lower: int
    upper: int
    token: str | None = None  # None: from the interval
    envelope: str = "append"  # append | diff | upsert
    time_column: str | None = None  # None: all rows get lower
    diff_column: str | None = None
    deleted_column: str | None = None
    read_alike: bool = False  # what is retracted is read as it was read when it was added


@dataclass(frozen=True, slots=True)
class Opened:
    """A batch in progress."""

    state: State  # with this batch's declarations
    task: IngestTask  # picklable: it goes to the owners of rows
    work: Work
    report: IngestReport | None = None  # the batch is in already


def open_batch(stores: Stores, settings: Settings, name: str, rows: Rows) -> Opened:
    """Return a batch to put rows into.

    Raises: InvalidRequest for an interval that is written under another token, for an envelope
    that rows cannot have, and for a shard that Strata writes about itself.
    """
    check_not_journal(name)
    rows = replace(rows, lower=time_given(rows.lower), upper=time_given(rows.upper))
    machine = Machine(stores)
    state = machine.load(name)
    catch_up(stores, state)
    state = replace(state, spec=_spec(state.spec, rows))
    check_spec(state.spec, state.relation)
    if not rows.read_alike:
        check_widened(state)
    token = check_name(rows.token or interval_token(name, rows.lower, rows.upper))
    step = Step(rows.lower, rows.upper, token, ())
    task = whole_task(replace(settings, store=stores.settings), state, step)
    task = replace(
        task,
        verify=sampling(settings.ingest, state, stores.clock(), token),
        worth=worth_of(paths_used(stores, state, settings.usage)),
    )
    work = Work(step, step)
    known = machine.committed(name, token, rows.upper)
    if known is not None and (known.lower, known.upper) != (rows.lower, rows.upper):
        raise InvalidRequest(
            "this token was used for another interval",
            shard=name,
            token=token,
            first_lower=known.lower,
            first_upper=known.upper,
            cure="another token, or none",
        )
    if known is None and (rows.lower < state.upper or rows.lower >= rows.upper):
        raise InvalidRequest(
            "this interval is already written, or is empty",
            shard=name,
            lower=rows.lower,
            upper=rows.upper,
            shard_upper=state.upper,
            cure="start at the shard's upper, or repeat with the token of the first time",
        )
    if known is None:
        check_source(state)
        check_debt(state.spine, state.name, settings.compact.debt_max)
    report = None if known is None else report_of(name, known, already_committed=True)
    return Opened(state, task, work, report)


def _spec(spec: ShardSpec, rows: Rows) -> ShardSpec:
    if rows.envelope not in ("append", "diff", "upsert"):
        raise InvalidRequest(
            "rows have no such envelope", value=rows.envelope, cure="append, diff or upsert"
        )
    source = replace(
        spec.source,
        format="parquet",
        envelope=rows.envelope,
        diff_column=rows.diff_column or spec.source.diff_column,
        deleted_column=rows.deleted_column or "",
        names=(),  # rows have the shard's names
        in_place=False,
        encoding=UTF_8,
        decimal=POINT,
        thousands="",
        header=(),
        escape="",
        skip_blanks=False,
    )
    time = (
        TimeSpec()
        if rows.time_column is None
        else replace(spec.time, origin="column", column=rows.time_column)
    )
    return replace(spec, source=source, time=time)


def table_task(
    task: IngestTask,
    tables: Iterable[pa.Table | pa.RecordBatch],
    partition: int,
    table_bytes: int,
    blob: Blob | None = None,
) -> Iterator[TaskResult]:
    """Write rows as runs of about `table_bytes` of Arrow memory each; yield what each holds.

    Raises: InvalidRequest for rows that lack a declared column or have another one.
    """
    store = open_stores(task.store).blob if blob is None else blob
    for number, table in enumerate(_together(tables, table_bytes)):
        place = partition * NUMBERS + number
        yield _one(store, replace(task, number=place), table)


def _one(store: Blob, task: IngestTask, table: pa.Table) -> TaskResult:
    if task.spec.source.envelope in ORDERED:
        return stage_rows(store, task, [_raw(task, table)])
    return run_rows(store, task, [table_updates(task, table)])


def table_updates(task: IngestTask, table: pa.Table) -> FileUpdates:
    """Return the updates of rows, in their order, and what became of each row.

    Raises: as `table_task`.
    """
    return file_updates(_raw(task, table), task)


def check_row_names(task: IngestTask, found: Sequence[str]) -> None:
    """Refuse rows that lack a declared column or have another one, also where there is no row.

    Raises: InvalidRequest.
    """
    names, optional = _names(task)
    check_columns(_file(task), found, names, optional=optional)


def _file(task: IngestTask) -> str:
    return f"rows/{task.number}"


def _names(task: IngestTask) -> tuple[list[str], list[str]]:
    """Return the columns that rows have, and those of them that may be missing."""
    optional = [column.name for column in task.relation.columns if column.default is not None]
    return source_names(task.spec, task.relation), optional


def _raw(task: IngestTask, table: pa.Table) -> RawFile:
    source = SourceFile("", _file(task), table.nbytes, number=task.number)
    return replace(raw_table(source, table, *_names(task)), ids=task.relation.ids)


def _together(tables: Iterable[pa.Table | pa.RecordBatch], table_bytes: int) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    size = 0
    for table in tables:
        if not table.num_rows:
            continue
        whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        waiting.append(whole)
        size += whole.nbytes
        if size >= table_bytes:
            yield pa.concat_tables(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def commit_tables(  # noqa: PLR0913 - the last two say under which conditions
    stores: Stores,
    settings: Settings,
    opened: Opened,
    results: Sequence[TaskResult],
    runner: Runner = serial,
    *,
    upper_of_basis: int | None = None,
    writer: str | None = None,
) -> IngestReport:
    """Commit the runs that `table_task` has written as one batch.

    `upper_of_basis`: the upper of the shard that the rows were computed from, if any. `writer`:
    whose lease covers the run.
    Raises: InvalidRequest for too many rejected rows; Conflict when the shard advanced meanwhile;
    Fenced when the lease has expired, or the shard was created anew.
    """
    machine, name = Machine(stores), opened.state.name
    check_verified(opened.state, opened.work.step, results, machine)
    check_rejected(opened.state.spec, opened.work.step, results)
    with noticed(machine, name):
        ledger = Ledger(stores.blob, machine.load(name))
        committer = Committer(machine, opened.state, ledger, writer)
        if opened.state.spec.source.envelope not in ORDERED:
            return committer.commit(opened.work, results, upper_of_basis)
        placed = replace(settings, store=stores.settings)
        settler = Settler(stores, placed, runner, committer, None, opened.state.spec)
        return settler.settle(opened.work, results)
