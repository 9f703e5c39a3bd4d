"""Entry point of the `stats` task: collect missing statistics, or trim them to a budget.

Run by `spark-submit jobs/stats/main.py backfill|trim --config FILE --result FILE`; without
`--shard` all shards are taken. Parts are read, and manifests trimmed, on the executors; each
manifest is committed on the driver, a long backfill in chunks. Safe to kill and to repeat: finished
parts are not done again. Exit codes: 0 done, 1 failed, 2 bad request, 4 overtaken by other writers.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from strata.config.filters import load_filters
from strata.config.settings import load_settings
from strata.history import usage
from strata.jobs.entry import Noted, each_shard, logged, run_job, say
from strata.jobs.pulse import PULSE
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.maintain.backfill import BackfillReport, backfill_shard
from strata.maintain.exchange import Selection
from strata.maintain.trim import trim_shard
from strata.maintain.trim_report import TrimShardReport
from strata.model.journals import is_journal
from strata.model.settings import Settings
from strata.model.time import parse_time
from strata.store.open import Stores, open_stores


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say and return the exit code."""
    args = arguments().parse_args(argv)
    noted = None if args.dry_run else Noted(args.action, args.config, args.shard)
    return run_job(args.result, lambda: run(args), noted)


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=["backfill", "trim"])
    parser.add_argument("--shard", action="append", default=[], help="repeat for several")
    parser.add_argument("--from", "--from-time", dest="lower", help="parts that reach past it")
    parser.add_argument("--to", "--to-time", dest="upper", help="parts that begin before it")
    parser.add_argument("--column", action="append", default=[], help="name or id; repeat")
    parser.add_argument("--version", type=int, help="parts with statistics older than this")
    parser.add_argument("--max-parts", type=int, help="no more parts of a shard than this")
    parser.add_argument("--max-bytes", type=int, help="backfill: parts of no more bytes than this")
    parser.add_argument("--again", action="store_true", help="backfill: also what is there")
    parser.add_argument("--budget", type=int, help="bytes a part; default: as the shard declares")
    parser.add_argument("--dry-run", action="store_true", help="count, change nothing")
    parser.add_argument("--config", help="settings file")
    parser.add_argument("--result", help="where to write the result as JSON")
    return parser


def run(args: argparse.Namespace) -> tuple[Mapping[str, Any], int]:
    """Work on each shard in turn; return the result document and the exit code."""
    from strata.spark import spark_session, tasks_under_way  # refuses a mixed PySpark

    settings = load_settings(args.config, os.environ)
    stores = open_stores(settings.store)
    work = backfill if args.action == "backfill" else trim
    with (
        spark_session(f"strata stats {args.action}", settings.spark, workers=True) as spark,
        PULSE.watching(tasks_under_way(spark)),
    ):

        def done(shard: str) -> Mapping[str, Any]:
            return logged(work(spark, stores, settings, shard, args))

        every = [name for name in Machine(stores).names() if not is_journal(name)]
        return {"shards": each_shard(args.shard or every, done)}, 0


def backfill(
    spark: Any, stores: Stores, settings: Settings, shard: str, args: argparse.Namespace
) -> BackfillReport:
    """Backfill one shard, and log each commit."""
    from strata.spark.runner import spark_runner

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
    spark: Any, stores: Stores, settings: Settings, shard: str, args: argparse.Namespace
) -> TrimShardReport:
    """Trim one shard; weigh its statistics with the registered and the logged filters."""
    from strata.spark.front.registered import named
    from strata.spark.runner import spark_runner

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


if __name__ == "__main__":
    sys.exit(main())
