"""Entry point of the `stats` task: give parts the statistics they lack, or trim them to a budget.

Run by `spark-submit jobs/stats/main.py backfill|trim --config FILE --result FILE`; without
`--shard` all shards are taken. Parts are read, and manifests trimmed, on the executors; each
batch is one commit on the driver. Safe to repeat: what is done is not done again. Exit codes: 0
done, 1 failed, 2 bad request, 4 overtaken by other writers.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.entry import run_job
from jobs.session import spark_session
from strata.backfill import Selection, StatsReport, backfill_shard, trim_shard
from strata.machine import Machine
from strata.model.runner import Runner
from strata.model.time import parse_time
from strata.settings import load_settings
from strata.store.open import Stores, open_stores


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say and return the exit code."""
    args = arguments().parse_args(argv)
    return run_job(args.result, lambda: run(args))


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=["backfill", "trim"])
    parser.add_argument("--shard", action="append", default=[], help="repeat for several")
    parser.add_argument("--from", "--from-time", dest="lower", help="batches that reach past it")
    parser.add_argument("--to", "--to-time", dest="upper", help="batches that begin before it")
    parser.add_argument("--column", action="append", default=[], help="backfill only these")
    parser.add_argument("--budget", type=int, help="bytes a part; default: as the shard declares")
    parser.add_argument("--dry-run", action="store_true", help="count, change nothing")
    parser.add_argument("--config", help="settings file")
    parser.add_argument("--result", help="where to write the result as JSON")
    return parser


def run(args: argparse.Namespace) -> tuple[Mapping[str, Any], int]:
    """Work on each shard in turn; return the result document and the exit code."""
    from strata.spark.runner import spark_runner

    settings = load_settings(args.config, os.environ)
    stores = open_stores(settings.store)
    reports = []
    with spark_session(f"strata stats {args.action}", settings.spark) as spark:
        for shard in args.shard or Machine(stores).names():
            report = run_shard(stores, shard, args, spark_runner(spark))
            reports.append(report.document())
            print(report.line(), flush=True)  # noqa: T201 - the task's log
    return {"shards": reports}, 0


def run_shard(stores: Stores, shard: str, args: argparse.Namespace, runner: Runner) -> StatsReport:
    """Backfill or trim one shard."""
    lower, upper = (None if text is None else parse_time(text) for text in (args.lower, args.upper))
    selection = Selection(lower, upper, tuple(args.column))
    if args.action == "backfill":
        return backfill_shard(stores, shard, selection, runner=runner, dry_run=args.dry_run)
    return trim_shard(
        stores, shard, selection, budget_bytes=args.budget, runner=runner, dry_run=args.dry_run
    )


if __name__ == "__main__":
    sys.exit(main())
