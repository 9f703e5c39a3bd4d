"""Filter rows in the written order of conditions, with the clock stopped.

A part is skipped because no row of it satisfies the filter *at a given now*. Spark would read the
clock again when it executes the filter; here every reading is replaced by that same now.
"""

from collections.abc import Callable

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, SparkSession

from strata.spark.front.ordered import run_at_once, run_in_order
from strata.spark.front.tree import analysed_filter, filtered

MICROS_PER_SECOND = 1_000_000


def row_filter(spark: SparkSession, df: DataFrame, where: str | Column, now: int) -> DataFrame:
    """Return the rows of `df` that satisfy `where`, with the clock stopped at `now`.

    `strata.spark.front.ordered` fixes the evaluation order for any settings of the session.
    Units: `now` in microseconds since 1970.
    Raises: InvalidRequest when Spark does not accept `where` as a condition on `df`.
    """
    frame = filtered(df, where)
    plan = analysed_filter(frame)
    if plan is None:
        return frame
    return run_in_order(spark, plan, stopped(spark, plan.condition(), now))


def row_filter_at_once(
    spark: SparkSession, df: DataFrame, where: str | Column, now: int
) -> DataFrame | None:
    """Return what `row_filter` returns, of rows that the driver has; None: it cannot run there.

    A filter that fails is None, too: where it is optimised, it may not.
    """
    plan = analysed_filter(filtered(df, where))
    if plan is None:
        return None
    return run_at_once(spark, plan, stopped(spark, plan.condition(), now))


def stopped(spark: SparkSession, condition: JavaObject, now: int) -> JavaObject:
    """Return the condition with its clock stopped at `now`, in microseconds since 1970."""
    return with_clocks(spark, condition, lambda node: _literal(spark, node, now))


def with_clocks(
    spark: SparkSession, node: JavaObject, instead: Callable[[JavaObject], JavaObject]
) -> JavaObject:
    """Return the expression with each reading of the clock replaced; itself if there is none."""
    if not _reads_clock(node):
        return node
    if node.getClass().getSimpleName() in CLOCKS:
        return instead(node)
    children = node.children()
    fixed = [with_clocks(spark, children.apply(i), instead) for i in range(children.size())]
    return node.withNewChildren(spark._jvm.PythonUtils.toSeq(fixed))  # type: ignore[union-attr]


ZONED = ("CurrentDate", "LocalTimestamp")  # they read the clock of a time zone
CLOCKS = ("CurrentTimestamp", "Now", *ZONED)


def _reads_clock(node: JavaObject) -> bool:
    # One call for a whole tree, while a walk would take one for each node.
    text = str(node.toJSON())
    return any(f'expressions.{name}"' in text for name in CLOCKS)


def _literal(spark: SparkSession, node: JavaObject, now: int) -> JavaObject:
    """Return the literal that stands for a clock node."""
    name = node.getClass().getSimpleName()
    jvm = spark._jvm
    assert jvm is not None  # set as long as the session lives
    seconds, micros = divmod(now, MICROS_PER_SECOND)
    instant = jvm.java.time.Instant.ofEpochSecond(seconds, micros * 1000)
    if name == "CurrentDate":
        value = instant.atZone(node.zoneId()).toLocalDate()
    elif name == "LocalTimestamp":
        value = instant.atZone(node.zoneId()).toLocalDateTime()
    else:
        value = instant
    return jvm.org.apache.spark.sql.catalyst.expressions.Literal.create(value, node.dataType())
