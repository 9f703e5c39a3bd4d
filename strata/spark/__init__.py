"""The engine on Spark: filters in, snapshots out, tasks on executors."""

import strata.session  # noqa: F401  # looks at PySpark before its first import
from strata.session.session import spark_session
from strata.spark.datasource import where_option
from strata.spark.progress import tasks_under_way
from strata.spark.runner import spark_runner
from strata.spark.snapshot import snapshot
from strata.spark.views import temporary_views
from strata.spark.write import write

__all__ = [
    "snapshot",
    "spark_runner",
    "spark_session",
    "tasks_under_way",
    "temporary_views",
    "where_option",
    "write",
]
