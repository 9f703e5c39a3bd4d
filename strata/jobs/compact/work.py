"""What the `compact` task does to each shard, on its Spark."""

import argparse
from collections.abc import Mapping
from typing import Any

from strata.compact import compact_shard
from strata.jobs.chosen import still
from strata.jobs.entry import each_shard, logged
from strata.jobs.runner import job_runner
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.model.settings import Settings
from strata.publish.follow import publish_again
from strata.session.job_spark import JobSpark
from strata.store.open import open_stores


def compact_shards(
    spark: JobSpark, settings: Settings, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Merge what is due in each shard; return its document."""
    stores, runner = open_stores(settings.store), job_runner(spark)
    there = Machine(stores).names

    def compacted(name: str) -> Mapping[str, Any]:
        lease = Lease(Machine(stores), name, "compact")
        report = compact_shard(
            stores, name, settings, runner, full=args.full, migrate=args.migrate, lease=lease
        )
        published = publish_again(stores, settings, name)
        return {**logged(report)} | ({} if published is None else {"published": published})

    names, at_once = args.shard or there(), settings.spark.shards_at_once
    return each_shard(names, compacted, at_once, still=still(args, there))
