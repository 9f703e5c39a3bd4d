"""Entry point of the `compact` task: merge the short runs of shards into long ones.

Run by `spark-submit jobs/compact/main.py --config FILE --result FILE`; without `--shard` all
shards are compacted. The driver plans due merges from the state alone; executors merge slices.
Each merge is one compare-and-set on the driver; a long merge saves its progress from time to time.
Safe to repeat: a merge that loses a race is dropped, a killed merge continues where it stopped, and
a merge whose lease has expired is fenced. `--plan` prints what a run would do, and does nothing.

Exit codes: 0 done, 1 failed, 2 bad request, 4 overtaken by other writers.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from strata.compact import compact_shard, preview
from strata.config.settings import load_settings
from strata.jobs.compact.sweep import sweep_all
from strata.jobs.entry import Noted, each_shard, logged, run_job
from strata.jobs.pulse import PULSE
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.model.settings import Settings
from strata.publish.follow import publish_again
from strata.store.open import Stores, open_stores


def main(argv: Sequence[str] | None = None) -> int:
    """Compact the shards and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shard", action="append", default=[], help="repeat for several")
    parser.add_argument("--full", action="store_true", help="everything into one run a shard")
    parser.add_argument("--migrate", action="store_true", help="also old orders and layouts")
    parser.add_argument("--plan", action="store_true", help="say what would be done, do nothing")
    parser.add_argument("--sweep", action="store_true", help="collect garbage, merge nothing")
    parser.add_argument("--config", help="settings file")
    parser.add_argument("--result", help="where to write the result as JSON")
    args = parser.parse_args(argv)
    what = "sweep" if args.sweep else "compact"
    noted = None if args.plan else Noted(what, args.config, args.shard)
    work = sweep_all if args.sweep else compact_all
    return run_job(args.result, lambda: work(args), noted)


def compact_all(args: argparse.Namespace) -> tuple[Mapping[str, Any], int]:
    """Compact, or only plan; return the result document and the exit code."""
    settings = load_settings(args.config, os.environ)
    stores = open_stores(settings.store)
    names = args.shard or Machine(stores).names()
    if args.plan:

        def planned(name: str) -> Mapping[str, Any]:
            return logged(preview(stores, name, settings, full=args.full, migrate=args.migrate))

        return {"shards": each_shard(names, planned)}, 0
    return {"shards": _compact(stores, settings, names, full=args.full, migrate=args.migrate)}, 0


def _compact(
    stores: Stores, settings: Settings, names: Sequence[str], *, full: bool, migrate: bool
) -> list[dict[str, Any]]:
    from strata.spark import spark_runner, spark_session, tasks_under_way  # refuses a mixed PySpark

    with (
        spark_session("strata compact", settings.spark, workers=True) as spark,
        PULSE.watching(tasks_under_way(spark)),
    ):

        def compacted(name: str) -> Mapping[str, Any]:
            lease = Lease(Machine(stores), name, "compact")
            runner = spark_runner(spark)
            report = compact_shard(
                stores, name, settings, runner, full=full, migrate=migrate, lease=lease
            )
            published = publish_again(stores, settings, name)
            return {**logged(report)} | ({} if published is None else {"published": published})

        return each_shard(names, compacted)


if __name__ == "__main__":
    sys.exit(main())
