"""What the `stats` task does to each shard, once it has its session."""

import argparse
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from strata.config.filters import load_filters
from strata.history import usage
from strata.jobs.entry import logged, say
from strata.jobs.session import each_on_spark
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.maintain.backfill import BackfillReport, backfill_shard
from strata.maintain.exchange import Selection
from strata.maintain.trim import trim_shard
from strata.maintain.trim_report import TrimShardReport
from strata.model.journals import is_journal
from strata.model.settings import Settings
from strata.model.time import parse_time
from strata.spark import spark_runner
from strata.spark.front.registered import named
from strata.store.open import Stores, open_stores


def work_on_shards(
    spark: SparkSession, settings: Settings, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Work on each shard; return its document."""
    stores = open_stores(settings.store)
    work = backfill if args.action == "backfill" else trim

    def done(shard: str) -> Mapping[str, Any]:
        return logged(work(spark, stores, settings, shard, args))

    every = [name for name in Machine(stores).names() if not is_journal(name)]
    return each_on_spark(spark, settings, args.shard or every, done)


def backfill(
    spark: SparkSession, stores: Stores, settings: Settings, shard: str, args: argparse.Namespace
) -> BackfillReport:
    """Backfill one shard, and log each commit."""
    known = usage.recent(stores, shard, settings.usage)
    return backfill_shard(
        stores,
        shard,
        selection(args),
        runner=spark_runner(spark),
        dry_run=args.dry_run,
        usefulness=usage.usefulness(known, {}),
        log=say,
        lease=Lease(Machine(stores), shard, "backfill"),
    )


def trim(
    spark: SparkSession, stores: Stores, settings: Settings, shard: str, args: argparse.Namespace
) -> TrimShardReport:
    """Trim one shard; weigh its statistics with the registered and the logged filters."""
    registered = load_filters(settings.filters_dir, shard)
    relation = Machine(stores).load(shard).relation
    return trim_shard(
        stores,
        shard,
        selection(args),
        budget_bytes=args.budget,
        registered=named(spark, relation, registered),
        log=settings.usage,
        runner=spark_runner(spark),
        dry_run=args.dry_run,
        lease=Lease(Machine(stores), shard, "trim"),
    )


def selection(args: argparse.Namespace) -> Selection:
    """Return the selection of parts that the arguments describe; raises InvalidRequest."""
    lower, upper = (None if text is None else parse_time(text) for text in (args.lower, args.upper))
    return Selection(
        lower,
        upper,
        tuple(args.column),
        args.version,
        args.max_parts,
        args.max_bytes,
        again=args.again and args.action == "backfill",
    )
