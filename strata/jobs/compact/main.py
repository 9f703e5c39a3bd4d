"""Entry point of the `compact` task: merge the short runs of shards into long ones.

Run by `spark-submit jobs/compact/main.py --config FILE --result FILE`; without `--shard` all
shards are compacted. The driver plans due merges from the state alone; executors merge slices.
Each merge is one compare-and-set on the driver; a long merge saves its progress from time to time.
Safe to repeat: a merge that loses a race is dropped, a killed merge continues where it stopped, and
a merge whose lease has expired is fenced. `--plan` prints what a run would do, and does nothing.

Exit codes: 0 done, 1 failed, 2 bad request, 4 overtaken by other writers.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from strata.jobs.chosen import add_shards
from strata.jobs.entry import Noted, run_job
from strata.jobs.session import job_session


def main(argv: Sequence[str] | None = None) -> int:
    """Compact the shards and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_shards(parser)
    parser.add_argument("--full", action="store_true", help="everything into one run a shard")
    parser.add_argument("--migrate", action="store_true", help="also old orders and layouts")
    parser.add_argument("--plan", action="store_true", help="say what would be done, do nothing")
    parser.add_argument("--sweep", action="store_true", help="collect garbage, merge nothing")
    parser.add_argument("--config", help="settings file")
    parser.add_argument("--result", help="where to write the result as JSON")
    args = parser.parse_args(argv)
    what = "sweep" if args.sweep else "compact"
    noted = None if args.plan else Noted(what, args.config, args.shard)
    work = _swept if args.sweep else compact_all
    return run_job(args.result, lambda: work(args), noted)


def compact_all(args: argparse.Namespace) -> tuple[Mapping[str, Any], int]:
    """Compact, or only plan; return the result document and the exit code."""
    if args.plan:
        from strata.jobs.compact.preview import preview_shards

        return {"shards": preview_shards(args)}, 0
    with job_session("strata compact", args.config) as (spark, found):
        from strata.jobs.compact.work import compact_shards

        return {"shards": compact_shards(spark, found, args)}, 0


def _swept(args: argparse.Namespace) -> tuple[Mapping[str, Any], int]:
    from strata.jobs.compact.sweep import sweep_all

    return sweep_all(args)


if __name__ == "__main__":
    sys.exit(main())
