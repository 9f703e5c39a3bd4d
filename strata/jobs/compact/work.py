"""What the `compact` task does to each shard, once it has its session."""

import argparse
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from strata.compact import compact_shard
from strata.jobs.entry import logged
from strata.jobs.session import each_on_spark
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.model.settings import Settings
from strata.publish.follow import publish_again
from strata.spark import spark_runner
from strata.store.open import open_stores


def compact_shards(
    spark: SparkSession, settings: Settings, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Merge what is due in each shard; return its document."""
    stores = open_stores(settings.store)

    def compacted(name: str) -> Mapping[str, Any]:
        lease = Lease(Machine(stores), name, "compact")
        runner = spark_runner(spark)
        report = compact_shard(
            stores, name, settings, runner, full=args.full, migrate=args.migrate, lease=lease
        )
        published = publish_again(stores, settings, name)
        return {**logged(report)} | ({} if published is None else {"published": published})

    return each_on_spark(spark, settings, args.shard or Machine(stores).names(), compacted)
