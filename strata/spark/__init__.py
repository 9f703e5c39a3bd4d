"""The only part of the engine that knows Spark: filters in, snapshots out, tasks on executors."""

from strata.config.archives import import_from_files
from strata.config.environment import require_matching_pyspark

# Before the first import of pyspark, whose installation may be a broken mixture
import_from_files()
require_matching_pyspark()

from strata.spark.datasource import where_option  # noqa: E402
from strata.spark.progress import tasks_under_way  # noqa: E402
from strata.spark.runner import spark_runner  # noqa: E402
from strata.spark.session import spark_session  # noqa: E402
from strata.spark.snapshot import snapshot  # noqa: E402
from strata.spark.views import temporary_views  # noqa: E402
from strata.spark.write import write  # noqa: E402

__all__ = [
    "snapshot",
    "spark_runner",
    "spark_session",
    "tasks_under_way",
    "temporary_views",
    "where_option",
    "write",
]
