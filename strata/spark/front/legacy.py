"""What gives functions another meaning than the certified one, which no rule knows.

That is another Spark, as a cluster may bring it, and settings of a session. Spark reads some of the
settings when it analyses a filter, others only while it runs. They share a prefix, and each has a
default, with which the certificates were made.
"""

from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

CERTIFIED: Final = "4.3"  # the release of Spark that certificates were made with
PREFIX: Final = "spark.sql.legacy."
PARSER: Final = "spark.sql.legacy.timeParserPolicy"  # asked for where a pattern is read or written
# They concern files and tables of others, not the values of expressions.
ELSEWHERE: Final = (
    "spark.sql.legacy.parquet.",
    "spark.sql.legacy.avro.",
    "spark.sql.legacy.createHiveTable",
    "spark.sql.legacy.allowNonEmptyLocation",
    "spark.sql.legacy.allowCreatingManagedTable",
)


def other_release(spark: SparkSession) -> str | None:
    """Return the session's version of Spark if it is of another release than `CERTIFIED`."""
    version = spark.version
    return None if f"{version}.".startswith(f"{CERTIFIED}.") else version


def older_meaning(spark: SparkSession) -> str | None:
    """Return a setting with which functions may mean something older; None without one.

    A setting that stands at its default changes nothing, nor does one that Spark does not know.
    Cost: 0.7 ms; 25 ms where a session has such settings.
    """
    # All settings as one text: each of them alone takes some calls into the JVM.
    shown = str(spark._jsparkSession.sessionState().conf().getAllConfs().toString())
    if shown.count(PREFIX) == shown.count(PARSER):
        return None
    for key, value in spark.conf.getAll.items():
        if key.startswith(PREFIX) and key != PARSER and not key.startswith(ELSEWHERE):
            default = _default(spark, key)
            if default is not None and default.lower() != value.lower():
                return f"{key}={value}"
    return None


def _default(spark: SparkSession, key: str) -> str | None:
    """Return what Spark takes for a setting that nobody has set; None for an unknown one."""
    jvm = spark._jvm
    assert jvm is not None  # set as long as the session lives
    try:
        return str(jvm.org.apache.spark.sql.internal.SQLConf().getConfString(key))
    except (Py4JError, PySparkException):
        return None


def reads_patterns_anew(spark: SparkSession) -> bool:
    """Return whether patterns of times mean what they do since Spark 3."""
    return str(spark.conf.get(PARSER)).upper() == "CORRECTED"
