"""The command line's use of Spark: analyse filters and execute them on rows.

Only commands with a filter import this module, so that all others start at once.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from strata.audit.receipts import issue, write_receipt
from strata.cli.context import Context, progress
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.expr.filter import Filter
from strata.history import usage
from strata.spark.front.catalyst import analyse
from strata.spark.session import spark_session
from strata.state.state import State


@contextmanager
def session(context: Context) -> Iterator[SparkSession]:
    """Yield a local Spark session; say that it starts, because that takes some seconds."""
    if progress.is_terminal:
        progress.print("starting Spark to understand the filter ...", style="dim")
    with spark_session("strata", context.settings.spark) as spark:
        yield spark


def analysed(context: Context, state: State, where: str, now: int | None) -> Filter:
    """Return `where` as an analysed filter; raises InvalidRequest when Spark refuses it."""
    with session(context) as spark:
        return analyse(spark, state.relation, where, now=now)


def read_filtered(
    context: Context,
    state: State,
    where: str,
    *,
    as_of: int | None,
    columns: Sequence[str] | None,
    consolidate: bool,
    pushdown: str | None,
    now: int | None,
    receipt: Path | None = None,
) -> tuple[ReadPlan, pa.Table]:
    """Return the plan and the rows of a snapshot that satisfy a filter; write its receipt."""
    from strata.spark.carried import packed_up
    from strata.spark.snapshot import planned_rows

    with session(context) as spark:
        filter = analyse(spark, state.relation, where, now=now)
        plan = plan_read(context.stores, state, as_of=as_of, filter=filter, pushdown=pushdown)
        usage.record(context.stores, state, plan, filter, context.settings.usage, context.metrics)
        if receipt is not None:
            write_receipt(receipt, issue(context.stores, state, plan, filter))
        rows = planned_rows(
            spark, context.stores, state, plan, filter, columns=columns, consolidate=consolidate,
            settings=context.settings.read,
        )  # fmt: skip
        return plan, packed_up(rows).toArrow()
