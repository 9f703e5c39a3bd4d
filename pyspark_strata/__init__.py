"""Makes `spark.read.format("strata")` work without registration.

PySpark looks for importable packages called `pyspark_*` and takes the `DefaultSource` of each.
"""

from strata.spark.datasource import StrataSource as DefaultSource

__all__ = ["DefaultSource"]
