"""One Spark session for many questions: it starts with the first filter, and stays."""

from contextlib import ExitStack

from pyspark.sql import SparkSession

from strata.config.environment import check_java
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.model.schema import Relation
from strata.model.settings import Settings
from strata.spark.front.admit import admitted
from strata.spark.session import spark_session


class WarmSpark:
    """A Spark session that starts with the first filter and stays until `close`."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is started yet."""
        self._settings, self._stack = settings, ExitStack()
        self._spark: SparkSession | None = None

    def __call__(self, relation: Relation, where: str) -> Filter:
        """Analyse a filter. Raises: InvalidRequest, also for a Java that is missing."""
        if self._spark is None:
            java = check_java()
            if not java.ok:
                raise InvalidRequest(
                    "a filter needs Spark, and Spark needs Java", found=java.found, cure=java.cure
                )
            session = spark_session("strata ui", self._settings.spark)
            self._spark = self._stack.enter_context(session)
        return admitted(self._spark, relation, where)

    def close(self) -> None:
        """Stop the session if there is one."""
        self._stack.close()
        self._spark = None
