"""Entry point of the `ingest` task: commit what the sources hold for an interval.

Run by `spark-submit jobs/ingest/main.py --from-time T --to-time T --config FILE`; without
`--shard` all declared shards with a source are ingested, and those that do not exist yet are
created. With
`--every` the interval is cut into steps, one batch each; the files of many steps are read by
Spark's tasks side by side, and the batches are committed in time order. Safe to repeat: a batch
that is in is left alone.

Exit codes: 0 done, 1 failed, 2 bad request (wrong shape of a file included).
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from strata.jobs.chosen import add_shards
from strata.jobs.entry import Noted, run_job
from strata.jobs.session import job_session
from strata.model.time import parse_time


def main(argv: Sequence[str] | None = None) -> int:
    """Ingest the shards and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_shards(parser)
    parser.add_argument("--from-time", required=True, help="where the interval begins, inclusive")
    parser.add_argument("--to-time", required=True, help="where the interval ends, exclusive")
    parser.add_argument("--every", help="length of a batch, ISO 8601: P1D, P7D, P1M, PT6H")
    parser.add_argument("--write-format", help="row, both or structured; else as declared")
    parser.add_argument("--dry-run", action="store_true", help="read and check, write nothing")
    parser.add_argument("--config", help="settings file")
    parser.add_argument("--result", help="where to write the result as JSON")
    args = parser.parse_args(argv)
    noted = None if args.dry_run else Noted("ingest", args.config, args.shard)
    return run_job(args.result, lambda: ingest_all(args), noted)


def ingest_all(args: argparse.Namespace) -> tuple[Mapping[str, Any], int]:
    """Ingest the shards that `args` names; return the result document and the exit code."""
    for text in (args.from_time, args.to_time):
        parse_time(text)  # a wrong one is said before Spark starts
    with job_session("strata ingest", args.config) as (spark, found):
        from strata.jobs.ingest.work import ingest_shards

        return {"dry_run": args.dry_run, "shards": ingest_shards(spark, found, args)}, 0


if __name__ == "__main__":
    sys.exit(main())
