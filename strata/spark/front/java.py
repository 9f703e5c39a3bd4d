"""Classes of Spark, found once in a session.

Each step of a name such as `org.apache.spark.sql` is a question to the JVM, which looks for a class
by that name; some fifty of them took a quarter of the time that a small read is planned in.
"""

from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession


@lru_cache(maxsize=64)
def java(spark: SparkSession, name: str) -> Any:
    """Return a class of the session's JVM, or a static member of one, by its whole name."""
    found: Any = spark._jvm
    for step in name.split("."):
        found = getattr(found, step)
    return found


def spark_sql(spark: SparkSession, name: str) -> Any:
    """Return a class of `org.apache.spark.sql`, or a static member of one."""
    return java(spark, f"org.apache.spark.sql.{name}")


def expression(spark: SparkSession, name: str) -> Any:
    """Return a class of expressions."""
    return spark_sql(spark, f"catalyst.expressions.{name}")


@lru_cache(maxsize=8)
def boolean(spark: SparkSession, value: bool) -> Any:
    """Return the literal `true` or `false`."""
    kind = spark_sql(spark, "types.DataTypes.BooleanType")
    return expression(spark, "Literal.create")(value, kind)
