"""Entry point of the `validate` task: soft evaluation, format checks, verdicts, report.

Run by `spark-submit jobs/validate/main.py --config FILE --result FILE`; without `--shard` all
shards are validated, without `--filter` all registered filters. Safe to repeat: the same run
name chooses the same sample. Exit codes: 0 clean, 1 failed, 2 bad request, 3 mismatch found
(the mode of each affected shard is already set back by then).
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from strata.jobs.chosen import add_shards
from strata.jobs.entry import Noted, run_job
from strata.jobs.session import job_session
from strata.model.extras import require


def main(argv: Sequence[str] | None = None) -> int:
    """Validate the shards and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_shards(parser)
    parser.add_argument("--filter", action="append", default=[], help="name of a registered filter")
    parser.add_argument("--now", help="what now() means where a filter does not say")
    parser.add_argument("--run", help="name of this run in verdicts and report")
    parser.add_argument("--percent", type=int, help="share of skipped parts to fetch")
    parser.add_argument("--format", type=int, help="share of the parts whose format is checked")
    parser.add_argument("--budget-bytes", type=int, help="bytes to read of a shard; 0: no limit")
    parser.add_argument("--budget-seconds", type=float, help="seconds a shard; 0: no limit")
    parser.add_argument("--console", default="", help="address of the console, for links to it")
    parser.add_argument("--config", help="settings file")
    parser.add_argument("--result", help="where to write the result as JSON")
    args = parser.parse_args(argv)
    noted = Noted("validate", args.config, args.shard)
    return run_job(args.result, lambda: validate_all(args), noted)


def validate_all(args: argparse.Namespace) -> tuple[Mapping[str, Any], int]:
    """Validate the shards that `args` names; return the result document and the exit code."""
    require("validate", "soft evaluation with its report")
    with job_session("strata validate", args.config, session=True) as (spark, settings):
        from strata.jobs.validate.work import validate_shards

        report = validate_shards(spark, settings, args)
    return report()  # Spark has its executors back by now


if __name__ == "__main__":
    sys.exit(main())
