"""The jobs' Spark session; it is built in one place, which the command line uses as well."""

from strata.spark.session import spark_session

__all__ = ["spark_session"]
