"""Count rows by a filter that Spark understands, reading only parts that are not decided."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from strata.config.settings import load_settings
from strata.decide.read_plan import ReadPlan
from strata.decide.whole import Buckets, Tally, complement
from strata.expr.filter import Filter
from strata.format.columns import D, T
from strata.history.metrics import Metrics
from strata.history.usage import record_count
from strata.machine.reader_hold import reading
from strata.model.settings import ReadSettings, Settings
from strata.read.count import Counted, FilterRun, count_rows
from strata.read.moments import Moment, resolve_moment
from strata.read.scan import DEFAULTS
from strata.spark.front.catalyst import analyse
from strata.spark.rows import rows_ddl
from strata.spark.snapshot import planned_rows
from strata.state.state import State
from strata.store.open import Stores, open_stores


def row_count(  # noqa: PLR0913 - the questions of a count; all but the shard have an answer
    spark: SparkSession,
    shard: str,
    *,
    where: str | None = None,
    as_of: Moment | None = None,
    by: str | None = None,
    pushdown: str | None = None,
    config: str | Settings | None = None,
    now: int | None = None,
) -> Counted:
    """Return how many rows of `shard` satisfy a condition in Spark SQL at `as_of`.

    Parts that are proven to satisfy it on every row count by their manifests, unread. Parameters:
    as of `strata.spark.snapshot.snapshot`; `by` as of `strata.read.count.count_rows`.
    Raises: InvalidRequest for an unknown shard, time or bucket, or a `where` that Spark refuses.
    """
    settings = config if isinstance(config, Settings) else load_settings(config, os.environ)
    stores = open_stores(settings.store)
    with reading(stores, shard, settings.read, "count") as state:
        filter = None if where is None else analyse(spark, state.relation, where, now=now)
        found = count_rows(
            stores,
            state,
            filter=filter,
            as_of=resolve_moment(stores, state, as_of),
            by=by,
            pushdown=pushdown,
            run=spark_run(spark, stores, state, filter, by, settings.read),
        )
        record_count(stores, state, found, filter, settings.usage, Metrics(settings.metrics))
        return found


def spark_run(
    spark: SparkSession,
    stores: Stores,
    state: State,
    filter: Filter | None,
    by: str | None,
    settings: ReadSettings = DEFAULTS,
) -> FilterRun:
    """Return how Spark runs a filter that `analyse` understood, summing up in its tasks.

    The complement is analysed again, because soft evaluation checks its text.
    """
    other = None
    if filter is not None:
        text = complement(filter).sql
        other = analyse(spark, state.relation, text, now=filter.now_low)

    def rows(plan: ReadPlan) -> Iterator[pa.RecordBatch]:
        if not plan.parts_fetched:
            return
        found = planned_rows(
            spark, stores, state, plan, filter, columns=[], timed=True, settings=settings
        )
        sums = found.mapInArrow(_Sums(Buckets(state.since, by)), rows_ddl(()))
        yield from sums.toArrow().to_batches()

    return FilterRun(rows, other)


@dataclass(frozen=True)
class _Sums:
    """The function for `mapInArrow`: the sums of the diffs of a task's rows; picklable."""

    buckets: Buckets

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally(self.buckets)
        for batch in batches:
            tally.add(batch.column(T).to_numpy(), batch.column(D).to_numpy())
        sums = np.array([*tally.sums()], np.int64).reshape(-1, 2)
        yield pa.RecordBatch.from_arrays([pa.array(sums[:, 0]), pa.array(sums[:, 1])], names=[T, D])
