"""Analyse registered filters, which soft evaluation checks and trimming weighs statistics with."""

from pyspark.sql import SparkSession

from strata.config.filters import RegisteredFilter
from strata.expr.filter import Filter
from strata.model.schema import Relation
from strata.spark.front.admit import admitted


def analyse_registered(
    spark: SparkSession, relation: Relation, registered: RegisteredFilter, now: int | None = None
) -> Filter:
    """Return a registered filter in the engine's form.

    Units: `now` in milliseconds: the value of now(), which overrides that of the filter.
    Raises: InvalidRequest for a filter that Spark refuses, or that is more than an expression.
    """
    span = registered.now if now is None else (now, now)
    micros = None if span is None else (span[0] * 1000, span[1] * 1000)
    return admitted(spark, relation, registered.where, now=micros)
