"""The command line's use of Spark: analyse filters and execute them on rows.

Only commands with a filter import this module, so that all others start at once.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strata.audit.receipts import issue, write_receipt
from strata.cli.context import Context
from strata.cli.remarks import remark, watched
from strata.config.environment import check_java, require_matching_pyspark
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.history import usage
from strata.read.count import FilterRun
from strata.read.values import ValueSource
from strata.session.session import spark_session
from strata.spark.failures import failing_in_words
from strata.spark.front.catalyst import analyse
from strata.state.state import State
from strata.store.cures import temporary_room

if TYPE_CHECKING:  # `strata.spark` comes first: it names the cure for a missing PySpark
    from pyspark.sql import SparkSession

JAVA_OPTIONS: Final = "SPARK_SUBMIT_OPTS"  # Spark starts Java with them
QUICKLY: Final = "-XX:TieredStopAtLevel=1"


@contextmanager
def session(context: Context) -> "Iterator[SparkSession]":
    """Yield a local Spark session; say that it starts, because that takes some seconds.

    Raises: InvalidRequest for a Java or PySpark that cannot be used, with the cure.
    """
    from pyspark.sql import SparkSession

    with ExitStack() as stack:
        if SparkSession.getActiveSession() is None:
            _check_machine()
            if watched():
                remark("starting Spark to understand the filter ...")
            _start_quickly()
            with _quiet():
                spark = stack.enter_context(spark_session("strata", context.settings.spark))
        else:
            spark = stack.enter_context(spark_session("strata", context.settings.spark))
        yield spark


def _check_machine() -> None:
    java = check_java()
    if not java.ok:
        raise InvalidRequest(
            "a filter needs Spark, and Spark needs Java", found=java.found, cure=java.cure
        )
    require_matching_pyspark()


def _start_quickly() -> None:
    """Let Java compile by its quick compiler alone; the other would take as long as the command.

    What a user asks of Java comes later on its command line, and wins.
    """
    asked = os.environ.get(JAVA_OPTIONS, "")
    if QUICKLY not in asked.split():
        os.environ[JAVA_OPTIONS] = f"{QUICKLY} {asked}".strip()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the Java machine prints while it starts, and show it only if Spark fails.

    A process of Java inherits standard error as a file, not as Python's stream.
    """
    with ExitStack() as stack:
        with temporary_room():
            noise = stack.enter_context(tempfile.TemporaryFile())
        sys.stderr.flush()
        errors = os.dup(2)
        os.dup2(noise.fileno(), 2)
        try:
            yield
        except Exception:
            noise.seek(0)
            os.write(errors, noise.read())
            raise
        finally:
            os.dup2(errors, 2)
            os.close(errors)


def analysed(context: Context, state: State, where: str, now: int | None) -> Filter:
    """Return `where` as an analysed filter; raises InvalidRequest when Spark refuses it."""
    with session(context) as spark:
        return analyse(spark, state.relation, where, now=now)


@contextmanager
def counting(
    context: Context, state: State, where: str, by: str | None, now: int | None
) -> Iterator[tuple[Filter, FilterRun]]:
    """Yield a filter to count by, and how Spark runs it, while Spark is there."""
    from strata.spark.count import spark_run

    with session(context) as spark, failing_in_words(where):
        filter = analyse(spark, state.relation, where, now=now)
        yield (
            filter,
            spark_run(spark, context.stores, state, filter, by, context.settings.read),
        )


@contextmanager
def finding(
    context: Context, state: State, where: str, column: str, now: int | None
) -> Iterator[tuple[Filter, ValueSource]]:
    """Yield a filter, and how Spark finds values of a column by it, while Spark is there."""
    from strata.spark.values import spark_values

    with session(context) as spark, failing_in_words(where):
        filter = analyse(spark, state.relation, where, now=now)
        settings = context.settings.read
        yield filter, spark_values(spark, context.stores, state, column, filter, settings)


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
    rows_max: int | None = None,
) -> tuple[ReadPlan, pa.Table]:
    """Return the plan and the rows of a snapshot that satisfy a filter; write its receipt.

    At most `rows_max` rows are collected; None: all. The receipt is of the whole read.
    """
    from strata.spark.carried import packed_up
    from strata.spark.snapshot import planned_rows

    with session(context) as spark, failing_in_words(where):
        filter = analyse(spark, state.relation, where, now=now)
        plan = plan_read(context.stores, state, as_of=as_of, filter=filter, pushdown=pushdown)
        usage.record(context.stores, state, plan, filter, context.settings.usage, context.metrics)
        if receipt is not None:
            write_receipt(receipt, issue(context.stores, state, plan, filter))
        rows = planned_rows(
            spark,
            context.stores,
            state,
            plan,
            filter,
            columns=columns,
            consolidate=consolidate,
            settings=context.settings.read,
        )
        chosen = rows if rows_max is None else rows.limit(rows_max)
        return plan, packed_up(chosen).toArrow()
