"""What the `stats` task does to each shard, on its Spark."""

import argparse
from collections.abc import Mapping
from typing import Any

from strata.config.filters import RegisteredFilter, load_filters
from strata.expr.filter import Filter
from strata.history import usage
from strata.jobs.chosen import still
from strata.jobs.entry import each_shard, logged, say
from strata.jobs.runner import job_runner
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.maintain.backfill import BackfillReport, backfill_shard
from strata.maintain.exchange import Selection
from strata.maintain.registered import named_filters
from strata.maintain.trim import trim_shard
from strata.maintain.trim_report import TrimShardReport
from strata.model.journals import without_journals
from strata.model.runner import Runner
from strata.model.settings import Settings
from strata.model.time import parse_time
from strata.session.job_spark import JobSpark
from strata.store.open import Stores, open_stores


def work_on_shards(
    spark: JobSpark, settings: Settings, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Work on each shard; return its document."""
    stores, runner = open_stores(settings.store), job_runner(spark)

    def done(shard: str) -> Mapping[str, Any]:
        if args.action == "backfill":
            return logged(backfill(runner, stores, settings, shard, args))
        return logged(trim(spark, runner, stores, settings, shard, args))

    there = Machine(stores).names
    names, at_once = args.shard or without_journals(there()), settings.spark.shards_at_once
    return each_shard(names, done, at_once, still=still(args, there))


def backfill(
    runner: Runner, stores: Stores, settings: Settings, shard: str, args: argparse.Namespace
) -> BackfillReport:
    """Backfill one shard, and log each commit."""
    known = usage.recent(stores, shard, settings.usage)
    return backfill_shard(
        stores,
        shard,
        selection(args),
        runner=runner,
        dry_run=args.dry_run,
        usefulness=usage.usefulness(known, {}),
        log=say,
        lease=Lease(Machine(stores), shard, "backfill"),
    )


def trim(
    spark: JobSpark,
    runner: Runner,
    stores: Stores,
    settings: Settings,
    shard: str,
    args: argparse.Namespace,
) -> TrimShardReport:
    """Trim one shard; weigh its statistics with the registered and the logged filters."""
    registered = load_filters(settings.filters_dir, shard)
    relation = Machine(stores).load(shard).relation

    def analyse(filter: RegisteredFilter) -> Filter:
        from strata.spark.front.registered import analyse_registered  # loads PySpark

        return analyse_registered(spark.session, relation, filter)

    return trim_shard(
        stores,
        shard,
        selection(args),
        budget_bytes=args.budget,
        registered=named_filters(relation, registered, analyse),
        log=settings.usage,
        runner=runner,
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
