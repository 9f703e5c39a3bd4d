"""Consolidated reads in Spark: the key space in slices, each merged by one task; no shuffle.

A task reads the row groups of all runs that overlap its slice and streams them through the merge
kernel. The first rows leave before the last ones are read, and memory is bounded by the heads of
runs. No row is in two slices, and slices are in the order of the relation.

Of very many parts the driver makes no objects: it names the pages of each stretch of the key space,
and the tasks that share a stretch read them and cut it (`strata.read.stretches`).
"""

import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from strata.decide.read_plan import ReadPlan
from strata.format.columns import D, T
from strata.format.encodings import spark_ddl
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.machine.replaced import unless_dropped
from strata.model.schema import Column
from strata.parts.fetch import PartSource
from strata.read.merged import merged
from strata.read.scan import OUT_ROWS
from strata.read.stretches import (
    ReadStretch,
    cut_stretch,
    nth_slice,
    parts_in,
    stretches_of,
    worthwhile_shares,
)
from strata.session.session import context_of
from strata.spark.carried import arrived, carried_type
from strata.spark.rows import (
    LEAST_BYTES,
    PAGE_TASKS,
    TASK_BYTES,
    TASKS_PER_CORE,
    PartReader,
    quoted,
    rows_ddl,
)
from strata.spark.tasks import Tasks, task_rows
from strata.state.state import State
from strata.store.open import Stores, open_stores
from strata.updates.cut import cut
from strata.updates.overlaps import Overlaps
from strata.updates.slices import Slice

COPIED_PARTS: Final = 512  # opened parts of a stretch times its tasks, all of which get them


@dataclass(frozen=True)
class SliceReader:
    """One slice of a consolidated read; picklable."""

    shown: PartReader  # the form of rows, and the row groups to read of a part
    shard: str
    runs: tuple[tuple[PartRef, ...], ...]  # parts that may hold rows of the slice
    within: Slice
    as_of: int
    row_group_bytes: int  # as declared by the shard

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the slice's rows, each once, in order: columns by name, then t and d.

        Raises: Corrupt when a part is missing, damaged or not sorted; as `PartReader.read`.
        """
        shown = self.shown
        stores = open_stores(shown.store)
        source = PartSource(
            stores.blob,
            self.shard,
            shown.relations,
            shown.read_format,
            row_group_bytes=self.row_group_bytes,
        )
        found = merged(
            source,
            self.runs,
            self.as_of,
            self.within,
            shown.groups,
            columns=shown.ids,
            settings=shown.ahead,
        )
        with unless_dropped(Machine(stores)):
            for table in found:
                for batch in table.to_batches(OUT_ROWS):
                    yield shown.shape(batch, "")


@dataclass(frozen=True)
class StretchReader:
    """A stretch of a consolidated read that several tasks share; picklable."""

    shown: PartReader
    stretch: ReadStretch
    tasks: int
    as_of: int
    row_group_bytes: int

    def slice_of(self, number: int) -> SliceReader | None:
        """Return what one of the tasks merges, None if nothing; together they merge all.

        Raises: Corrupt when a page is missing or damaged; as `PartReader.read`.
        """
        shown, stretch = self.shown, self.stretch
        stores = open_stores(shown.store)
        with unless_dropped(Machine(stores)):
            runs = stretch.read(stores.blob)
        within = nth_slice(stretch.within, runs, shown.relations, number, self.tasks, shown.groups)
        if within is None:
            return None
        mine = parts_in(runs, within, shown.relations, shown.groups)
        limit = self.row_group_bytes
        return SliceReader(shown, stretch.shard, mine, within, self.as_of, limit)


@dataclass(frozen=True)
class SliceTask:
    """The input of one task."""

    # A SliceReader or StretchReader, pickled: the driver holds few objects, one for all its tasks
    reader: bytes
    number: int = 0  # among the tasks of its stretch

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the task's slice, as `SliceReader.read` does."""
        reader: SliceReader | StretchReader | None = pickle.loads(self.reader)
        if isinstance(reader, StretchReader):
            reader = reader.slice_of(self.number)
        return iter(()) if reader is None else reader.read()


@dataclass(frozen=True)
class _Tasks:
    """The function of tasks: its input rows are their numbers."""

    readers: tuple[bytes, ...]  # of each stretch, so that a task makes objects only of its own
    firsts: tuple[int, ...]  # the number of the first task of each

    @classmethod
    def of(cls, tasks: Sequence[SliceTask]) -> "_Tasks":
        """Return the function; the tasks of a stretch follow one another."""
        firsts = [number for number, task in enumerate(tasks) if not task.number]
        return cls(tuple(tasks[first].reader for first in firsts), tuple(firsts))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                place = bisect_right(self.firsts, number) - 1
                task = SliceTask(self.readers[place], number - self.firsts[place])
                yield from task.read()


def slice_tasks(
    stores: Stores,
    state: State,
    plan: ReadPlan,
    columns: tuple[Column, ...],
    tasks: int,
    only: tuple[int, str] | None = None,
) -> list[SliceTask]:
    """Return the slices of a consolidated read, about `tasks` of equal size, more for a large read.

    `only` is as in `PartReader`.
    Shape: at least one; in the order of the relation.
    Cost: the parts as objects; those of a stretch of the key space at a time, if they are many.
    """
    shown = PartReader(
        stores.settings, state.relations, columns, read_format=state.spec.read_format, only=only
    )
    cutter = _Cutter(stores, state, plan, shown)
    return list(cutter.tasks(tasks))


@dataclass(frozen=True)
class _Cutter:
    """Cuts a plan into tasks."""

    stores: Stores
    state: State
    plan: ReadPlan
    shown: PartReader  # without row groups

    def tasks(self, count: int) -> Iterator[SliceTask]:
        """Yield about `count` tasks, or more."""
        whole = stretches_of(self.state, self.plan)
        total = self.plan.bytes_read if whole is None else self.plan.bytes_fetched
        size = min(max(total // max(count, 1), LEAST_BYTES), TASK_BYTES)
        if whole is None:
            runs = tuple(tuple(run.parts) for run in self.plan.runs)
            every, state = [ref for run in runs for ref in run], self.state
            pieces = cut(every, state.relation, state.relations, size, self.plan.groups)
            yield from self._sliced(runs, pieces)
            return
        size = max(size, total // PAGE_TASKS)
        for stretch in whole.each():
            yield from self._of_stretch(stretch, size)

    def _of_stretch(self, stretch: ReadStretch, size: int) -> Iterator[SliceTask]:
        """Yield the tasks of a stretch.

        Without pages it is cut here. With them its tasks do that, unless too many opened parts
        would be copied to each.
        """
        tasks = worthwhile_shares(stretch, size)
        if not stretch.in_pages or stretch.opened_parts * (tasks - 1) > COPIED_PARTS:
            runs, relations = stretch.read(self.stores.blob), self.state.relations
            pieces = cut_stretch(stretch.within, runs, relations, size, self.plan.groups)
            yield from self._sliced(runs, pieces)
            return
        shown = self._shown([] if stretch.opened is None else stretch.opened["key"].to_pylist())
        reader = StretchReader(shown, stretch, tasks, self.plan.as_of, self.state.spec.group_bytes)
        data = pickle.dumps(reader)
        yield from (SliceTask(data, number) for number in range(tasks))

    def _sliced(
        self, runs: Sequence[Sequence[PartRef]], pieces: Iterable[Slice]
    ) -> Iterator[SliceTask]:
        """Yield a task for each slice, with the parts of the runs that may have rows in it."""
        state, plan = self.state, self.plan
        overlaps = [Overlaps(run, state.relations, plan.groups) for run in runs]
        for within in pieces:
            mine = tuple(parts for run in overlaps if (parts := run.of(within)))
            shown = self._shown(ref.key for run in mine for ref in run)
            limit = state.spec.group_bytes
            reader = SliceReader(shown, state.name, mine, within, plan.as_of, limit)
            yield SliceTask(pickle.dumps(reader))

    def _shown(self, part_keys: Iterable[str]) -> PartReader:
        """Return how rows are shown, with the row groups of these parts that are read."""
        chosen = self.plan.groups
        if not chosen:
            return self.shown
        groups = {key: chosen[key] for key in part_keys if key in chosen}
        return replace(self.shown, groups=groups)


def consolidated_rows(  # noqa: PLR0913 - a plan, and how its rows are read
    spark: SparkSession,
    stores: Stores,
    state: State,
    plan: ReadPlan,
    columns: tuple[Column, ...],
    wrapped_by: Callable[[Tasks], Tasks] | None = None,
    *,
    small: bool = False,
) -> DataFrame:
    """Return the rows of a plan, each once with its count, in some `columns`, then t and d.

    Rows that differ only in other columns stay apart. `wrapped_by` may wrap the tasks.
    Cost: lazy; each slice reads all columns, and passes the requested ones to Spark. No shuffle.
    `small` is as in `strata.spark.tasks`.
    """
    tasks = TASKS_PER_CORE * context_of(spark).defaultParallelism
    every = slice_tasks(stores, state, plan, columns, tasks)
    work = _Tasks.of(every)
    rows = task_rows(spark, work, len(every), rows_ddl(columns), wrapped_by, small=small)
    if all(carried_type(c.type) == spark_ddl(c.type) for c in columns):
        return rows
    return rows.select(*(arrived(quoted(c.name), c.type) for c in columns), T, D)
