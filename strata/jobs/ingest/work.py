"""What the `ingest` task does to each shard, on its Spark."""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from strata.compact import pay_debt
from strata.config.shards import ensure_shards
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.ingest.summary import line, summary_of, table
from strata.jobs.chosen import still
from strata.jobs.entry import each_shard, say
from strata.jobs.runner import job_runner
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.model.settings import Settings
from strata.model.time import parse_time
from strata.session.job_spark import JobSpark
from strata.store.open import open_stores
from strata.store.rehearsal import Rehearsal

STEPS_AT_ONCE: Final = 256  # between them too many unmerged runs are merged


def ingest_shards(
    spark: JobSpark, settings: Settings, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Ingest the shards that `args` names; return the document of each, and print a table."""
    stores = open_stores(settings.store)
    if args.dry_run:  # a declared shard that does not exist yet is made in memory only
        stores = replace(stores, consensus=Rehearsal(stores.consensus))
    run = job_runner(spark)
    steps = steps_of(parse_time(args.from_time), parse_time(args.to_time), args.every)

    def ingested(name: str) -> Mapping[str, Any]:
        reports, started = [], time.monotonic()
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

    machine = Machine(stores)
    names = ensure_shards(machine, settings.shards_dir, args.shard, say, found=args.found)
    if not args.shard:
        names = _with_source(machine, names)
    there = still(args, machine.names)
    summaries = each_shard(names, ingested, settings.spark.shards_at_once, still=there)
    say(*table([one for one in summaries if "error" not in one]).splitlines())
    return summaries


def _with_source(machine: Machine, names: Sequence[str]) -> list[str]:
    """Return the shards that declare where their files are; say which do not."""
    found = [name for name in names if machine.load(name).spec.source.paths]
    for name in sorted({*names}.difference(found)):
        say(f"{name}: passed over, because it declares no source")
    return found
