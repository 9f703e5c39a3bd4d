"""The filter on rows, with the clock stopped where the planner's clock stood.

A part is skipped because no row of it satisfies the filter *at a given now*. Spark would read
the clock again when it executes the filter; here every reading is replaced by that same now.
"""

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, SparkSession

from strata.spark.tree import analysed_filter, filtered

MICROS_PER_SECOND = 1_000_000


def row_filter(spark: SparkSession, df: DataFrame, where: str | Column, now: int) -> DataFrame:
    """Return the rows of `df` that satisfy `where`, its clock standing at `now`.

    Units: `now` in microseconds since 1970.
    Raises: InvalidRequest when Spark does not accept `where` as a condition on `df`.
    """
    frame = filtered(df, where)
    plan = analysed_filter(frame)
    if plan is None:
        return frame
    condition = plan.condition()
    fixed = _stop_clock(spark, condition, now)
    if fixed is condition:
        return frame
    jvm = spark._jvm
    assert jvm is not None  # set as long as the session lives
    stopped = plan.copy(fixed, plan.child())
    jdf = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, stopped)
    return DataFrame(jdf, spark)


def _stop_clock(spark: SparkSession, node: JavaObject, now: int) -> JavaObject:
    """Return the expression with every reading of the clock replaced; itself if there is none."""
    if not _reads_clock(node):
        return node
    stopped = _literal(spark, node, now)
    if stopped is not None:
        return stopped
    children = node.children()
    fixed = [_stop_clock(spark, children.apply(i), now) for i in range(children.size())]
    return node.withNewChildren(spark._jvm.PythonUtils.toSeq(fixed))  # type: ignore[union-attr]


CLOCKS = ("CurrentTimestamp", "Now", "CurrentDate", "LocalTimestamp")


def _reads_clock(node: JavaObject) -> bool:
    # One call for a whole tree, where a walk would be one for each node.
    text = str(node.toJSON())
    return any(f'expressions.{name}"' in text for name in CLOCKS)


def _literal(spark: SparkSession, node: JavaObject, now: int) -> JavaObject | None:
    """Return the literal that stands for a clock node; None if the node is none."""
    name = node.getClass().getSimpleName()
    if name not in CLOCKS:
        return None
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
