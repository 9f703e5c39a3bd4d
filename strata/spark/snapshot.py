"""A shard's contents at one time as a DataFrame.

The driver makes the plan from the state and the manifests; executors fetch and decode parts; Spark
executes the filter on every row, no matter what was skipped before.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from strata.config.settings import load_settings
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.expr.filter import Filter
from strata.format.columns import D, T
from strata.history import usage
from strata.history.metrics import Metrics
from strata.machine.reader_hold import held_state
from strata.model.schema import Relation
from strata.model.settings import ReadSettings, Settings
from strata.read.collections import column_of, narrowed
from strata.read.moments import Moment, resolve_moment
from strata.read.scan import DEFAULTS
from strata.spark.front.catalyst import analyse, referenced
from strata.spark.front.rowfilter import row_filter, row_filter_at_once
from strata.spark.rows import part_rows, quoted, wanted_columns
from strata.spark.running import SameSettings, is_guarded
from strata.spark.slices import consolidated_rows
from strata.spark.tasks import Tasks, is_small
from strata.state.state import State
from strata.store.open import Stores, open_stores


class _Read(Protocol):
    """Reads the rows of a plan, before its filter."""

    def __call__(self, *, small: bool) -> DataFrame: ...


def snapshot(  # noqa: PLR0913 - the questions of a read; all but the shard have an answer
    spark: SparkSession,
    shard: str,
    *,
    as_of: Moment | None = None,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
    collection: str | None = None,
    consolidate: bool = False,
    pushdown: str | None = None,
    config: str | Settings | None = None,
    now: int | None = None,
) -> DataFrame:
    """Return the rows of `shard` at `as_of`: the columns by name, then t and d.

    `as_of` None is the newest readable time; a text is a time, a label or a moment by the clock
    (`strata.read.moments`). t is `as_of` in every row. `where` is a condition in
    Spark SQL. Without `consolidate` a row may come several times with diffs that add up; with it,
    once. `collection` chooses one of a shard that holds many. `pushdown` "off" fetches everything;
    "on" is what the shard's rollout mode allows. `config` is a settings file; None takes the
    environment's.

    Units: `as_of` in milliseconds, `now` (the value of now() in `where`) in microseconds.
    Raises: InvalidRequest for an unknown shard, column or time, or a `where` Spark refuses; Corrupt
    and Unavailable, which an action raises for parts that it reads.
    Cost: state and manifests are read at once, parts when an action runs; but the driver does a
    small read at once (`strata.spark.tasks`), and once more by tasks if `where` fails there.
    Nothing removes the parts for `[read] hold_ms` after the call; see
    `strata.machine.reader_hold`. A setting that changes what a function does must stay as it is
    until the action; `strata.spark.running` has it fail.
    """
    settings = config if isinstance(config, Settings) else load_settings(config, os.environ)
    stores = open_stores(settings.store)
    state = held_state(stores, shard, settings.read)
    column = None if collection is None else column_of(stores, state, collection)
    if column is not None:
        mine = fn.col(quoted(column)) == fn.lit(collection)
        where = mine if where is None else mine & _condition(where)
    filter = None if where is None else analyse(spark, state.relation, where, now=now)
    at = resolve_moment(stores, state, as_of)
    plan = plan_read(stores, state, as_of=at, filter=filter, pushdown=pushdown)
    if column is not None and collection is not None:
        plan = narrowed(stores, state, plan, column, collection)
    metrics = Metrics(settings.metrics)
    usage.record(stores, state, plan, filter, settings.usage, metrics)
    return planned_rows(
        spark,
        stores,
        state,
        plan,
        filter,
        where=where,
        columns=columns,
        consolidate=consolidate,
        settings=settings.read,
        metrics=metrics,
    )


def planned_rows(  # noqa: PLR0913 - a plan, and how its rows are shown
    spark: SparkSession,
    stores: Stores,
    state: State,
    plan: ReadPlan,
    filter: Filter | None,
    *,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
    consolidate: bool = False,
    timed: bool = False,
    settings: ReadSettings = DEFAULTS,
    metrics: Metrics | None = None,
) -> DataFrame:
    """Return the rows of a plan that satisfy its filter; see `snapshot`.

    `metrics` names the monitoring that counts the rows of each task. With `timed`, t is the time of
    each update as it is stored; that needs rows that are not consolidated.

    `where` is required for a filter that was given as a Column; otherwise the filter's text is
    used.
    """
    relation = state.relation
    condition = filter.sql if where is None and filter is not None else where
    shown = [c.name for c in wanted_columns(relation, columns)]
    needed = _needed(spark, relation, shown, condition)
    guarded = is_guarded(plan, filter)
    wrap = partial(_wrapped, spark, state.name, metrics, guarded)

    def read(*, small: bool) -> DataFrame:
        if consolidate:
            wanted = wanted_columns(relation, needed)
            return consolidated_rows(spark, stores, state, plan, wanted, wrap, small=small)
        return part_rows(
            spark,
            stores.settings,
            state.relations,
            plan.parts,
            needed,
            as_of=plan.as_of,
            read_format=state.spec.read_format,
            groups=plan.groups,
            settings=settings,
            wrapped_by=wrap,
            always=guarded,
            timed=timed,
            small=small,
        )

    small = not guarded and is_small(plan, len(needed))
    if condition is None or filter is None:
        rows = read(small=small)
    else:
        rows = _accepted(spark, read, condition, filter.now_low, small=small)
    return rows if needed == shown else rows.select(*map(quoted, shown), T, D)


def _accepted(
    spark: SparkSession, read: _Read, where: str | Column, now: int, *, small: bool
) -> DataFrame:
    """Return the rows that satisfy a condition; of a small read at once, if nothing fails there."""
    at_once = row_filter_at_once(spark, read(small=True), where, now) if small else None
    return row_filter(spark, read(small=False), where, now) if at_once is None else at_once


def _wrapped(
    spark: SparkSession, shard: str, metrics: Metrics | None, guarded: bool, tasks: Tasks
) -> Tasks:
    """Return the tasks of a read with what is done around them."""
    if metrics is not None:
        tasks = usage.Told(tasks, metrics, shard)
    return SameSettings.now(spark, shard, tasks) if guarded else tasks


def _condition(where: str | Column) -> Column:
    return fn.expr(where) if isinstance(where, str) else where


def _needed(
    spark: SparkSession,
    relation: Relation,
    shown: Sequence[str],
    where: str | Column | None,
) -> list[str]:
    """Return the columns that are shown or read by the filter."""
    names = dict.fromkeys(shown)  # one may be shown twice
    if where is not None and len(names) < len(relation.columns):
        names |= dict.fromkeys(relation.by_id[i].name for i in referenced(spark, relation, where))
    return list(names)
