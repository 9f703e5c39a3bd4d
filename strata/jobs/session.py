"""The settings and the Spark of a job.

A job is two modules: `main`, which knows its arguments and loads nothing, and `work`, which `main`
imports while Java makes the context.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from strata.config.settings import load_settings
from strata.jobs.pulse import PULSE
from strata.model.settings import Settings

if TYPE_CHECKING:  # `strata.session` comes first: it names the cure for a missing PySpark
    from pyspark import SparkContext

    from strata.session.job_spark import JobSpark


@contextmanager
def job_session(
    name: str, config: str | None, *, workers: bool = True, session: bool = False
) -> "Iterator[tuple[JobSpark, Settings]]":
    """Yield the Spark of a job and its settings.

    What the job needs in any case is begun at once: `workers` for tasks, a `session` for filters.
    Raises: InvalidRequest for settings or a PySpark that cannot be used.
    """
    settings = load_settings(config, os.environ)
    from strata.session.job_spark import job_spark

    with job_spark(name, settings.spark) as spark:
        if workers or session:
            spark.begin(workers=workers, session=session)
        with PULSE.watching(lambda: spark.about(_tasks)):
            yield spark, settings


def _tasks(context: "SparkContext") -> str:
    from strata.spark.progress import tasks_under_way

    return tasks_under_way(context)
