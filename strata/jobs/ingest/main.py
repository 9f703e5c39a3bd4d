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
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from strata.compact import pay_debt
from strata.config.settings import load_settings
from strata.config.shards import ensure_shards
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.ingest.summary import line, summary_of, table
from strata.jobs.entry import Noted, each_shard, run_job, say
from strata.jobs.pulse import PULSE
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.model.time import parse_time
from strata.store.open import open_stores
from strata.store.rehearsal import Rehearsal

STEPS_AT_ONCE: Final = 256  # between them too many unmerged runs are merged


def main(argv: Sequence[str] | None = None) -> int:
    """Ingest the shards and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shard", action="append", default=[], help="repeat for several")
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
    from strata.spark import spark_runner, spark_session, tasks_under_way  # refuses a mixed PySpark

    settings = load_settings(args.config, os.environ)
    stores = open_stores(settings.store)
    if args.dry_run:  # a declared shard that does not exist yet is made in memory only
        stores = replace(stores, consensus=Rehearsal(stores.consensus))
    steps = steps_of(parse_time(args.from_time), parse_time(args.to_time), args.every)
    with (
        spark_session("strata ingest", settings.spark, workers=True) as spark,
        PULSE.watching(tasks_under_way(spark)),
    ):

        def ingested(name: str) -> Mapping[str, Any]:
            reports, started, run = [], time.monotonic(), spark_runner(spark)
            for first in range(0, len(steps), STEPS_AT_ONCE):
                for report in ingest_steps(
                    stores,
                    settings,
                    name,
                    steps[first : first + STEPS_AT_ONCE],
                    write_format=args.write_format,
                    runner=run,
                    dry_run=args.dry_run,
                    lease=Lease(Machine(stores), name, "ingest"),
                ):
                    reports.append(report)
                    say(line(report, len(reports), len(steps)))
                lease = Lease(Machine(stores), name, "merge after ingest")
                paid = None if args.dry_run else pay_debt(stores, name, settings, run, lease=lease)
                if paid is not None:
                    say(f"{name}: merged from {paid.runs_before:,} runs to {paid.runs_after:,}")
            return summary_of(name, reports, time.monotonic() - started)

        names = ensure_shards(Machine(stores), settings.shards_dir, args.shard, say)
        if not args.shard:
            names = _with_source(Machine(stores), names)
        summaries = each_shard(names, ingested)
    say(*table([one for one in summaries if "error" not in one]).splitlines())
    return {"dry_run": args.dry_run, "shards": summaries}, 0


def _with_source(machine: Machine, names: Sequence[str]) -> list[str]:
    """Return the shards that declare where their files are; say which do not."""
    found = [name for name in names if machine.load(name).spec.source.paths]
    for name in sorted({*names}.difference(found)):
        say(f"{name}: passed over, because it declares no source")
    return found


if __name__ == "__main__":
    sys.exit(main())
