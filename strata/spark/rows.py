"""Rows of parts as a DataFrame: executors fetch and decode, the driver sends only references.

Of pages that a plan has not opened it sends their names, and tasks read the references from them.

Parts are ordered by key bounds and cut into a few tasks of about equal bytes, so updates of one key
tend to meet in one task. Only the chosen columns are decoded; they have the form of
`strata.format.values.view`.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from strata.decide.read_plan import Parts
from strata.errors import InvalidRequest
from strata.format.columns import D, T, child
from strata.format.encodings import spark_ddl
from strata.format.manifest import PartRef
from strata.format.values.view import to_view
from strata.machine.machine import Machine
from strata.machine.replaced import unless_dropped
from strata.model.own_code import SameCode
from strata.model.schema import Column, Relation
from strata.model.settings import ReadSettings, StoreSettings
from strata.parts.fetch import PartSource
from strata.parts.prefetch import Wanted, parts_ahead
from strata.read.as_of import may_add_up
from strata.read.merged import IN_ORDER
from strata.session.session import context_of
from strata.spark.carried import arrived, carried_type
from strata.spark.tasks import Tasks, task_rows
from strata.store.interface import Blob
from strata.store.keys import parse_key
from strata.store.open import is_near, open_stores
from strata.updates.consolidate import advance, consolidate

TASKS_PER_CORE: Final = 2
OUT_ROWS: Final = 32_768  # rows of a batch for Spark, combined from smaller ones
OUT_BYTES: Final = 8 * 1024 * 1024  # of such a batch, before it is encoded
TASK_BYTES: Final = 256 * 1024 * 1024  # encoded bytes of a task, if there are many tasks
# Of a task: starting one costs as much as reading this many bytes
LEAST_BYTES: Final = 4 * 1024 * 1024
PAGE_TASKS: Final = 50_000  # of one read: the driver keeps each


@dataclass(frozen=True)
class PartReader:
    """Turns part keys into record batches on a worker."""

    store: StoreSettings
    relations: tuple[Relation, ...]  # all versions; the last one is read
    columns: tuple[Column, ...]  # in the requested order
    part_column: str | None = None  # name of an extra column with the part's key
    as_of: int | None = None  # later rows are left out, earlier times are advanced to it
    read_format: str = "structured"
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # as in a plan
    settings: ReadSettings = ReadSettings()  # noqa: RUF009 - frozen
    only: tuple[int, str] | None = None  # only rows with this text in the column of this id
    row_column: str | None = None  # name of an extra column with the row's number in its part
    timed: bool = False  # times stay as stored also with `as_of`

    def __reduce__(self) -> tuple[object, ...]:
        """Travel to tasks of the same code only (`strata.model.own_code`)."""
        return _arrived, (SameCode(), vars(self))

    @property
    def ids(self) -> frozenset[int] | None:
        """Return the columns to decode; None: all."""
        ids = frozenset(column.id for column in self.columns)
        if self.only is not None:
            ids |= {self.only[0]}
        return None if len(ids) == len(self.relations[-1].columns) else ids

    @property
    def ahead(self) -> ReadSettings:
        """Return how far to read ahead: the cores are busy with other tasks, so only for a wait."""
        return IN_ORDER if is_near(self.store) else self.settings

    def read(self, parts: Iterable[PartRef]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the parts, columns by name, then t and d.

        With `as_of` and all columns, equal neighbours in a part may come as one row.
        Raises: Corrupt when a part is missing or damaged; InvalidRequest or Fenced when it went
        with its shard, or was replaced; Unavailable when the store fails.
        """
        stores = open_stores(self.store)
        with unless_dropped(Machine(stores)):
            yield from self._read(stores.blob, tuple(parts))

    def _read(self, blob: Blob, refs: Sequence[PartRef]) -> Iterator[pa.RecordBatch]:
        if not refs:
            return
        source = PartSource(blob, parse_key(refs[0].key).shard, self.relations, self.read_format)
        wanted, whole = Wanted(self.ids, self.groups), self.ids is None
        parts_read = parts_ahead(source, refs, wanted, self.ahead, threads=False)
        yield from fewer_batches(
            self.shape(rows, ref.key, first)
            for ref, batches in parts_read
            for first, batch in _counted(batches)
            for rows in self._as_of(ref, batch, whole=whole)
        )

    def _as_of(
        self, ref: PartRef, rows: pa.RecordBatch, *, whole: bool
    ) -> Iterable[pa.RecordBatch]:
        """Return the rows at `as_of`; without a copy if nothing changes."""
        if self.as_of is None:
            return [rows]
        if ref.t_high > self.as_of:
            rows = rows.filter(pc.less_equal(rows.column(T), self.as_of))
        if whole and not self.timed and may_add_up(ref, self.as_of):
            table = advance(pa.Table.from_batches([rows]), self.as_of)
            batches: list[pa.RecordBatch] = consolidate(table, self.relations[-1]).to_batches()
            return batches
        return [rows]

    def shape(self, batch: pa.RecordBatch, key: str, first: int = 0) -> pa.RecordBatch:
        """Return updates, all at or before `as_of`, in the form that readers see.

        `first` is the number of the first row in its part; rows are numbered only if all come.
        """
        if self.only is not None:
            number, text = self.only
            batch = batch.filter(pc.equal(batch.column(child(number)), text))
        time = batch.column(T)
        if self.as_of is not None and not self.timed:
            time = pa.repeat(pa.scalar(self.as_of, pa.int64()), batch.num_rows)
        names = [c.name for c in self.columns]
        arrays = [to_view(batch.column(child(c.id)), c.type) for c in self.columns]
        names += [T, D]
        arrays += [time, batch.column(D)]
        if self.part_column is not None:
            names.append(self.part_column)
            arrays.append(pa.repeat(pa.scalar(key), batch.num_rows))
        if self.row_column is not None:
            names.append(self.row_column)
            arrays.append(pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64)))
        return pa.RecordBatch.from_arrays(arrays, names=names)


def _arrived(_: SameCode, fields: dict[str, Any]) -> PartReader:
    return PartReader(**fields)


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches of a part, each with the number of its first row."""
    first = 0
    for batch in batches:
        yield first, batch
        first += batch.num_rows


def in_schema(batch: pa.RecordBatch, schema: pa.Schema, shard: str) -> pa.RecordBatch:
    """Return rows in the columns and types of a schema, which may be a user's own.

    Raises: InvalidRequest for a value that does not fit.
    """
    arrays = []
    for asked in schema:
        values = batch.column(asked.name)
        try:
            arrays.append(values.cast(asked.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(
                "a value does not fit the type that the schema of this read gives its column",
                shard=shard,
                column=asked.name,
                type=str(values.type),
                asked=str(asked.type),
                reason=str(error),
                cure="leave the schema out, or give the column its own type and cast it in Spark",
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def fewer_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches, since each costs Spark as much as hundreds of rows.

    Shape: small batches are combined up to `OUT_ROWS` rows or `OUT_BYTES`; empty ones are dropped.
    """
    waiting: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if waiting and (rows + batch.num_rows > OUT_ROWS or size + batch.nbytes > OUT_BYTES):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


@dataclass(frozen=True)
class _Tasks:
    """The function of tasks: its input rows are their numbers."""

    reader: PartReader
    # Parts of each task, pickled, so that a task makes objects only of its own
    groups: tuple[bytes, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.reader.read(pickle.loads(self.groups[number]))


def part_rows(  # noqa: PLR0913 - what to read, and how it is shown
    spark: SparkSession,
    store: StoreSettings,
    relations: Sequence[Relation],
    parts: Sequence[PartRef],
    columns: Sequence[str] | None = None,
    *,
    part_column: str | None = None,
    row_column: str | None = None,
    as_of: int | None = None,
    read_format: str = "structured",
    groups: Mapping[str, tuple[int, ...]] | None = None,
    settings: ReadSettings = ReadSettings(),  # noqa: B008 - frozen
    wrapped_by: Callable[[Tasks], Tasks] | None = None,
    always: bool = False,
    timed: bool = False,
    small: bool = False,
) -> DataFrame:
    """Return the rows of `parts` in the columns of the last relation.

    Shape: `columns` by name (None: all, in declared order), then t and d, then `part_column`
    with the part's key and `row_column` with the row's number in it if they are requested; numbers
    need whole parts, without `as_of` and `groups`. With `as_of`, later updates are left out and
    the times of the others advanced to it; otherwise, or if `timed`, times are as stored. `groups`
    names row groups to read, by part, as in a plan. `wrapped_by` may wrap the tasks; with `always`
    there is one even without parts.
    Cost: lazy; at an action each part is read once. `small` is as in `strata.spark.tasks`.
    """
    wanted = wanted_columns(relations[-1], columns)
    reader = PartReader(
        store,
        tuple(relations),
        wanted,
        part_column,
        as_of,
        read_format,
        groups or {},
        settings,
        row_column=row_column,
        timed=timed,
    )
    schema = rows_ddl(wanted, part_column, row_column)
    if parts or always:
        most = TASKS_PER_CORE * context_of(spark).defaultParallelism
        tasks = task_parts(parts, most) or [()]
        work = _Tasks(reader, tuple(map(pickle.dumps, tasks)))
        rows = task_rows(spark, work, len(tasks), schema, wrapped_by, small=small)
    else:
        rows = spark.createDataFrame([], schema)
    if all(carried_type(c.type) == spark_ddl(c.type) for c in wanted):
        return rows
    added = [quoted(name) for name in (part_column, row_column) if name is not None]
    return rows.select(*(arrived(quoted(c.name), c.type) for c in wanted), T, D, *added)


def wanted_columns(relation: Relation, names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns with these names, in that order; None: all.

    Raises: InvalidRequest for unknown names, and for names that clash with t and d.
    """
    columns = relation.columns if names is None else tuple(relation.column(n) for n in names)
    clash = [c.name for c in columns if c.name in (T, D)]
    if clash:
        raise InvalidRequest(
            "a column has the name of an update's time or diff", column=clash[0], cure="rename it"
        )
    return columns


def rows_ddl(
    columns: Sequence[Column], part_column: str | None = None, row_column: str | None = None
) -> str:
    """Return the schema of rows that leave Python as Spark DDL; see `strata.spark.carried`."""
    fields = [f"{quoted(c.name)} {carried_type(c.type)}" for c in columns]
    # Declared not null, so that Spark does not test each row.
    fields += [f"{T} bigint not null", f"{D} bigint not null"]
    if part_column is not None:
        fields.append(f"{quoted(part_column)} string")
    if row_column is not None:
        fields.append(f"{quoted(row_column)} bigint not null")
    return ", ".join(fields)


def quoted(name: str) -> str:
    """Return a name quoted for Spark SQL.

    >>> quoted("odd`name")
    '`odd``name`'
    """
    return "`" + name.replace("`", "``") + "`"


def worthwhile_tasks(parts: Sequence[PartRef], most: int) -> int:
    """Return the worthwhile number of tasks for a read of these parts, at most `most`."""
    total = parts.size_bytes if isinstance(parts, Parts) else sum(p.size_bytes for p in parts)
    return max(1, min(most, -(-total // LEAST_BYTES)))


def task_parts(parts: Sequence[PartRef], most: int) -> list[Iterable[PartRef]]:
    """Return the parts of each task of a read: at most about `most` tasks for a small one.

    Tasks read the parts of pages that the plan has not opened from the pages themselves; there are
    at most `PAGE_TASKS` of these tasks, and one more for each page.
    """
    opened = parts.opened if isinstance(parts, Parts) else parts
    found: list[Iterable[PartRef]] = [*group_parts(opened, worthwhile_tasks(opened, most))]
    if isinstance(parts, Parts):
        limit = max(TASK_BYTES, parts.size_bytes // PAGE_TASKS)
        found += (some for page in parts.pages() for some in page.pieces(limit))
    return found


def group_parts(parts: Sequence[PartRef], tasks: int) -> tuple[tuple[PartRef, ...], ...]:
    """Return the parts of each task: neighbours by key bounds, of about equal bytes.

    Shape: every part once; at least min(tasks, parts) groups, none empty.
    """
    ordered = sorted(parts, key=lambda p: (p.key_low, p.key))
    total = sum(p.size_bytes for p in ordered)
    limit = min(TASK_BYTES, max(1, -(-total // max(1, tasks))))
    groups: list[list[PartRef]] = []
    filled = 0
    for number, part in enumerate(ordered):
        rest = len(ordered) - number
        # A few large parts must not leave cores without work.
        starve = len(groups) + rest <= min(tasks, len(ordered))
        if not groups or filled >= limit or starve:
            groups.append([])
            filled = 0
        groups[-1].append(part)
        filled += part.size_bytes
    return tuple(tuple(group) for group in groups)
