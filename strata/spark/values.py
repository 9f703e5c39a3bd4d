"""Find values of a column by a filter that Spark understands; see `strata.read.values`."""

import os
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from strata.config.settings import load_settings
from strata.decide.read_plan import ReadPlan
from strata.expr.filter import Filter
from strata.format.columns import D
from strata.history.metrics import Metrics
from strata.history.usage import record
from strata.machine.reader_hold import reading
from strata.model.settings import ReadSettings, Settings
from strata.read.moments import Moment, resolve_moment
from strata.read.scan import DEFAULTS
from strata.read.values import ValuesFound, ValueSource, both_texts, distinct_values, extreme_value
from strata.spark.front.catalyst import analyse
from strata.spark.rows import quoted
from strata.spark.snapshot import planned_rows
from strata.state.state import State
from strata.store.open import Stores, open_stores

FIRST_PARTS = 64  # of the first step: starting a job of Spark costs as much


def column_extreme(  # noqa: PLR0913 - the questions of a read
    spark: SparkSession,
    shard: str,
    column: str,
    *,
    greatest: bool,
    where: str | None = None,
    as_of: Moment | None = None,
    config: str | Settings | None = None,
    now: int | None = None,
) -> ValuesFound:
    """Return the least, or greatest, value of a column in the rows that satisfy a condition.

    Parameters: as of `strata.spark.snapshot.snapshot` and `strata.read.values.extreme_value`.
    Raises: InvalidRequest for an unknown shard, column or time, or a `where` that Spark refuses.
    """
    settings = config if isinstance(config, Settings) else load_settings(config, os.environ)
    stores = open_stores(settings.store)
    with reading(stores, shard, settings.read, "values") as state:
        filter = None if where is None else analyse(spark, state.relation, where, now=now)
        found = extreme_value(
            stores,
            state,
            column,
            greatest=greatest,
            as_of=resolve_moment(stores, state, as_of),
            filter=filter,
            source=None if filter is None else spark_values(spark, stores, state, column, filter),
            settings=settings.read,
        )
        _noted(stores, state, found, settings)
        return found


def column_values(  # noqa: PLR0913 - the questions of a read
    spark: SparkSession,
    shard: str,
    column: str,
    *,
    limit: int,
    where: str | None = None,
    as_of: Moment | None = None,
    config: str | Settings | None = None,
    now: int | None = None,
) -> ValuesFound:
    """Return the different values of a column; not all, if more than `limit`.

    Parameters: as of `column_extreme` and `strata.read.values.distinct_values`.
    """
    settings = config if isinstance(config, Settings) else load_settings(config, os.environ)
    stores = open_stores(settings.store)
    with reading(stores, shard, settings.read, "values") as state:
        filter = None if where is None else analyse(spark, state.relation, where, now=now)
        found = distinct_values(
            stores,
            state,
            column,
            limit=limit,
            as_of=resolve_moment(stores, state, as_of),
            filter=filter,
            source=None if filter is None else spark_values(spark, stores, state, column, filter),
            settings=settings.read,
        )
        _noted(stores, state, found, settings)
        return found


def spark_values(
    spark: SparkSession,
    stores: Stores,
    state: State,
    column: str,
    filter: Filter,
    settings: ReadSettings = DEFAULTS,
) -> ValueSource:
    """Return how Spark chooses rows by a filter that `analyse` understood, and adds them up.

    The conjunction with a plain filter is analysed as one text, because soft evaluation checks it.
    """

    def joined(plain: Filter | None) -> Filter | None:
        if plain is None:
            return filter
        return analyse(spark, state.relation, both_texts(filter, plain), now=filter.now_low)

    def rows(plan: ReadPlan, wanted: Filter | None) -> Iterator[pa.RecordBatch]:
        if not plan.parts_fetched:
            return
        found = planned_rows(
            spark, stores, state, plan, wanted, columns=[column], timed=True, settings=settings
        )
        # As decimals, sums of diffs do not overflow.
        diffs = fn.sum(fn.col(D).cast("decimal(38,0)")).alias(D)
        yield from found.groupBy(quoted(column)).agg(diffs).toArrow().to_batches()

    return ValueSource(joined, rows, FIRST_PARTS)


def _noted(stores: Stores, state: State, found: ValuesFound, settings: Settings) -> None:
    metrics = Metrics(settings.metrics)
    record(stores, state, found.plan, found.filter, settings.usage, metrics)
