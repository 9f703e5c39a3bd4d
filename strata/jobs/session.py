"""The session of a job, made by Java while Python loads the engine.

So a job is two modules: `main`, which knows its arguments and loads nothing, and `work`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from strata.config.settings import load_settings
from strata.jobs.pulse import PULSE
from strata.model.settings import Settings

if TYPE_CHECKING:  # `strata.session` comes first: it names the cure for a missing PySpark
    from pyspark.sql import SparkSession


@contextmanager
def session_beside(
    name: str, config: str | None, work: str
) -> "Iterator[tuple[SparkSession, Settings]]":
    """Yield the session of a job and its settings, with the module `work` loaded.

    Raises: InvalidRequest for settings, a PySpark or executors that cannot be used.
    """
    from strata.session.session import spark_session

    settings = load_settings(config, os.environ)
    with spark_session(name, settings.spark, workers=True, engine=work) as spark:
        from strata.spark import tasks_under_way

        with PULSE.watching(tasks_under_way(spark)):
            yield spark, settings
