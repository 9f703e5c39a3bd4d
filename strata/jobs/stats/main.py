"""Entry point of the `stats` task: collect missing statistics, or trim them to a budget.

Run by `spark-submit jobs/stats/main.py backfill|trim --config FILE --result FILE`; without
`--shard` all shards are taken. Parts are read, and manifests trimmed, on the executors; each
manifest is committed on the driver, a long backfill in chunks. Safe to kill and to repeat: finished
parts are not done again. Exit codes: 0 done, 1 failed, 2 bad request, 4 overtaken by other writers.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from strata.jobs.chosen import add_shards
from strata.jobs.entry import Noted, run_job
from strata.jobs.session import job_session


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say and return the exit code."""
    args = arguments().parse_args(argv)
    noted = None if args.dry_run else Noted(args.action, args.config, args.shard)
    return run_job(args.result, lambda: run(args), noted)


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=["backfill", "trim"])
    add_shards(parser)
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
    name, trims = f"strata stats {args.action}", args.action == "trim"
    # Little work needs no workers; trimming weighs filters, and Spark analyses most of them.
    with job_session(name, args.config, workers=False, session=trims) as (spark, settings):
        from strata.jobs.stats.work import work_on_shards

        return {"shards": work_on_shards(spark, settings, args)}, 0


if __name__ == "__main__":
    sys.exit(main())
