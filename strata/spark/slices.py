"""Consolidated reads in Spark: the key space in slices, each merged by one task; no shuffle.

A task reads the row groups of all runs that overlap its slice and streams them through the merge
kernel. The first rows leave before the last ones are read, and memory is bounded by the heads of
runs. No row is in two slices, and slices are in the order of the relation.
"""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from strata.decide.read_plan import ReadPlan
from strata.format.columns import D, T
from strata.format.encodings import spark_ddl
from strata.format.manifest import PartRef
from strata.model.schema import Column
from strata.parts.fetch import PartSource
from strata.read.merged import merged
from strata.read.scan import OUT_ROWS, overlapping, slices
from strata.spark.carried import arrived, carried_type
from strata.spark.rows import (
    LEAST_BYTES,
    TASK_BYTES,
    TASKS_PER_CORE,
    PartReader,
    Tasks,
    quoted,
    rows_ddl,
)
from strata.state.state import State
from strata.store.open import Stores, open_stores
from strata.updates.slices import Slice


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

        Raises: Corrupt when a part is missing, damaged or not sorted; Unavailable.
        """
        shown = self.shown
        blob = open_stores(shown.store).blob
        source = PartSource(
            blob,
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
        for table in found:
            for batch in table.to_batches(OUT_ROWS):
                yield shown.shape(batch, "")


@dataclass(frozen=True)
class _Tasks:
    """The function for `mapInArrow`: its input rows are the numbers of slices."""

    readers: tuple[bytes, ...]  # pickled, so that a task makes objects only of its own

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                reader: SliceReader = pickle.loads(self.readers[number])
                yield from reader.read()


def slice_readers(
    stores: Stores,
    state: State,
    plan: ReadPlan,
    columns: tuple[Column, ...],
    tasks: int,
    only: tuple[int, str] | None = None,
) -> tuple[SliceReader, ...]:
    """Return the slices of a consolidated read, about `tasks` of equal size, more for a large read.

    `only` is as in `PartReader`.
    Shape: at least one; in the order of the relation.
    """
    shown = PartReader(
        stores.settings, state.relations, columns, read_format=state.spec.read_format, only=only
    )
    size = min(max(plan.bytes_read // max(tasks, 1), LEAST_BYTES), TASK_BYTES)
    readers = []
    for within in slices(state, plan, size):
        runs = overlapping(state, plan, within)
        groups = {
            ref.key: found
            for run in runs
            for ref in run
            if (found := plan.groups.get(ref.key)) is not None
        }
        mine = replace(shown, groups=groups)
        limit = state.spec.group_bytes
        readers.append(SliceReader(mine, state.name, runs, within, plan.as_of, limit))
    return tuple(readers)


def consolidated_rows(
    spark: SparkSession,
    stores: Stores,
    state: State,
    plan: ReadPlan,
    columns: tuple[Column, ...],
    wrapped_by: Callable[[Tasks], Tasks] | None = None,
) -> DataFrame:
    """Return the rows of a plan, each once with its count, in some `columns`, then t and d.

    Rows that differ only in other columns stay apart. `wrapped_by` may wrap the tasks.
    Cost: lazy; each slice reads all columns, and passes the requested ones to Spark. No shuffle.
    """
    tasks = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    readers = slice_readers(stores, state, plan, columns, tasks)
    numbers = spark.range(0, len(readers), 1, len(readers))
    work: Tasks = _Tasks(tuple(map(pickle.dumps, readers)))
    rows = numbers.mapInArrow(wrapped_by(work) if wrapped_by else work, rows_ddl(columns))
    if all(carried_type(c.type) == spark_ddl(c.type) for c in columns):
        return rows
    return rows.select(*(arrived(quoted(c.name), c.type) for c in columns), T, D)
