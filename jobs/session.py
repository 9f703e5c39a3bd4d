"""The Spark session of a job; it is built in one place, which the command line uses as well."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from strata.config.environment import require_matching_pyspark
from strata.model.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_session(
    app_name: str, settings: SparkSettings, extra: Mapping[str, str] | None = None
) -> "Iterator[SparkSession]":
    """Yield the session of a job; see `strata.spark.session`.

    Raises: InvalidRequest when PySpark is missing or mixed from two versions, with the cure.
    """
    require_matching_pyspark()
    # Only now: importing a broken mixture would fail with something unhelpful.
    from strata.spark.session import spark_session as build

    with build(app_name, settings, extra) as spark:
        yield spark
