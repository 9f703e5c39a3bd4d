"""Several shards as temporary views of a Spark session, all at one time and with one clock.

    as_of = temporary_views(spark, ["flights", "planes"], where={"flights": "dep_delay > 600"})
    spark.sql("select model, sum(f.d) from flights f join planes using (tailnum) group by model")

A condition in `where` chooses parts; one in the SQL that reads a view filters only its rows.
"""

import os
import time
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from strata.config.settings import load_settings
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.read.moments import Moment
from strata.read.together import common_moment
from strata.spark.rows import quoted
from strata.spark.snapshot import snapshot
from strata.store.open import open_stores


def temporary_views(  # noqa: PLR0913 - options, by name
    spark: SparkSession,
    shards: Sequence[str],
    *,
    as_of: Moment | None = None,
    where: Mapping[str, str] | None = None,
    consolidate: bool = False,
    pushdown: str | None = None,
    config: str | Settings | None = None,
    now: int | None = None,
) -> int:
    """Make a temporary view of each shard, under its name; return the time that they all show.

    `as_of` None is the newest time at which all can be read; a text is a time, a label that means
    one time on all of them, or a moment by the clock (`strata.read.together`). `where` is a
    condition in Spark SQL by shard; `now` is the clock of all of them. Everything else is as in
    `strata.spark.snapshot`, with the columns t and d. A view of the same name is replaced; if one
    shard cannot be read, no view is made.
    Units: `as_of` in milliseconds, `now` in microseconds.
    Raises: InvalidRequest for an unknown shard, a condition on one that is not named, no such time.
    """
    conditions = where or {}
    for name in conditions:
        if name not in shards:
            named = ", ".join(shards)
            raise InvalidRequest("a condition on a shard without a view", shard=name, shards=named)
    settings = config if isinstance(config, Settings) else load_settings(config, os.environ)
    machine = Machine(open_stores(settings.store))
    at = common_moment(machine.stores, [machine.load(name) for name in shards], as_of)
    clock = time.time_ns() // 1000 if now is None else now
    frames = {
        name: snapshot(
            spark,
            name,
            as_of=at,
            where=conditions.get(name),
            consolidate=consolidate,
            pushdown=pushdown,
            config=settings,
            now=clock,
        )
        for name in shards
    }
    for name, frame in frames.items():
        frame.createOrReplaceTempView(quoted(name))
    return at
