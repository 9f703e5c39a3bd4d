"""The session of a job, made by Java while Python loads the engine.

So a job is two modules: `main`, which knows its arguments and loads nothing, and `work`.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from strata.config.settings import load_settings
from strata.jobs.entry import each_shard
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


def each_on_spark(
    spark: "SparkSession",
    settings: Settings,
    names: Iterable[str],
    work: Callable[[str], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Work on shards as `each_shard`, `spark.shards_at_once` of them side by side.

    A shard of a few parts leaves most cores idle, and so does the end of each shard's last wave.
    """
    from strata.session.session import activate

    return each_shard(names, work, settings.spark.shards_at_once, partial(activate, spark))
