"""Entry point of the `validate` task: soft evaluation, format checks, verdicts, report.

Run by `spark-submit jobs/validate/main.py --config FILE --result FILE`; without `--shard` all
shards are validated, without `--filter` all registered filters. Safe to repeat: the same run
name chooses the same sample. Exit codes: 0 clean, 1 failed, 2 bad request, 3 mismatch found
(the mode of each affected shard is already set back by then).
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from strata.audit import table
from strata.audit.run import Scope, ValidationReport
from strata.audit.used import LoggedFilter, budget_of, used_filters
from strata.audit.verdict import check_run
from strata.config.filters import RegisteredFilter, load_filters
from strata.config.settings import load_settings, settings_file
from strata.errors import InvalidRequest, StrataError
from strata.jobs.entry import Noted, each_shard, run_job, say
from strata.jobs.pulse import PULSE
from strata.jobs.validate.outcome import document, exit_code, lines, sums_counts, sums_line
from strata.machine.machine import Machine
from strata.model.extras import require
from strata.model.journals import is_journal
from strata.model.settings import Settings
from strata.model.time import parse_time
from strata.rollout.policy import Policy, policy_of
from strata.store.open import Stores, open_stores
from strata.sums.check import SumsCheck, checked_as_declared


def main(argv: Sequence[str] | None = None) -> int:
    """Validate the shards and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shard", action="append", default=[], help="repeat for several")
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
    from strata.spark import spark_session, tasks_under_way  # refuses a mixed PySpark
    from strata.spark.evaluate import validate

    run = f"validate {datetime.now(UTC):%Y-%m-%d %H:%M:%S}" if args.run is None else args.run
    check_run(run)  # a bad name fails before hours of work, not after
    settings = load_settings(args.config, os.environ)
    stores = open_stores(settings.store)
    policy = policy_of(stores, settings.rollout)
    now = parse_time(args.now) if args.now else None
    names = args.shard or [n for n in Machine(stores).names() if not is_journal(n)]
    reports: list[ValidationReport] = []
    sums: dict[str, SumsCheck] = {}
    _load_ahead()
    with (
        spark_session("strata validate", settings.spark, workers=True) as spark,
        PULSE.watching(tasks_under_way(spark)),
    ):

        def validated(name: str) -> Mapping[str, Any]:
            filters = _chosen(settings, name, args.filter)
            used = [] if args.filter else _used(settings, stores, name, filters)
            scope = _scope(args, settings, policy, run, stores, name)
            report = validate(
                spark,
                stores,
                name,
                filters,
                scope,
                now=now,
                used=used,
                read=settings.read,
                seconds=settings.validate.filter_seconds,
            )
            reports.append(report)
            say(*lines(report))
            most_bytes = scope.budget.size_bytes
            compared = checked_as_declared(stores, name, settings.read, most_bytes)
            if compared is None:
                return {"shard": name}
            sums[name] = compared
            say(sums_line(compared))
            return {"shard": name, **sums_counts(compared)}

        done = each_shard(names, validated)
    table.publish(stores, run, [verdict for one in reports for verdict in one.verdicts])
    result = _report(settings, stores, run, reports, args.console, sums)
    counts = {one["shard"]: one for one in result["shards"]}
    return {**result, "shards": [one | counts.get(one["shard"], {}) for one in done]}, (
        exit_code(reports, sums)
    )


def _load_ahead() -> None:
    """Import what builds the report while Spark works, because that takes 5 s.

    A failure is left to the report, which imports it again.
    """

    def load() -> None:
        with suppress(Exception):
            import_module("strata.jobs.validate.expectations")

    Thread(target=load, daemon=True).start()


def _scope(
    args: argparse.Namespace,
    settings: Settings,
    policy: Policy,
    run: str,
    stores: Stores,
    name: str,
) -> Scope:
    share = settings.validate.format_percent if args.format is None else args.format
    budget = budget_of(
        stores, name, settings, size_bytes=args.budget_bytes, seconds=args.budget_seconds
    )
    return Scope(
        run,
        args.percent,
        check_format=share > 0,
        format_percent=share,
        policy=policy,
        budget=budget,
        config=settings_file(args.config, os.environ),
    )


def _used(
    settings: Settings, stores: Stores, name: str, known: Sequence[RegisteredFilter]
) -> list[LoggedFilter]:
    most = settings.validate.used_filters
    return used_filters(stores, name, settings.usage, known, most)


def _chosen(settings: Settings, shard: str, names: Sequence[str]) -> list[RegisteredFilter]:
    filters = load_filters(settings.filters_dir)
    unknown = sorted(set(names) - {f.name for f in filters})
    if unknown:
        known = ", ".join(f.name for f in filters)
        raise InvalidRequest("no such registered filter", filter=unknown[0], cure=f"one of {known}")
    return [f for f in filters if f.shard == shard and (not names or f.name in names)]


def _report(
    settings: Settings,
    stores: Stores,
    run: str,
    reports: Sequence[ValidationReport],
    console: str,
    sums: Mapping[str, SumsCheck],
) -> Mapping[str, Any]:
    from strata.jobs.validate.report import WrittenReport, build_report, index_of

    machine = Machine(stores)
    merges = {one.shard: machine.load(one.shard).merges for one in reports}
    said, folder = settings.validate, Path(settings.validate.report_dir)
    try:
        report = build_report(
            folder,
            run,
            reports,
            merges,
            max_failed_rows=said.max_failed_rows,
            url=said.report_url,
            console=console,
            sums=sums,
        )
    except StrataError as error:  # a failed page must not lose the alerts
        report = WrittenReport(index_of(folder), False, (f"the report is not complete: {error}",))
        say(report.failed[0])
    if not console:  # who called from Airflow knows the report's address there
        say(f"report: {report.index} {report.url}".rstrip())
    return document(reports, report, sums)


if __name__ == "__main__":
    sys.exit(main())
