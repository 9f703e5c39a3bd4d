"""What the `validate` task does to each shard on its Spark: checks, verdicts, report."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from strata.audit import table
from strata.audit.run import Scope, ValidationReport
from strata.audit.used import LoggedFilter, budget_of, used_filters
from strata.audit.verdict import check_run
from strata.config.filters import RegisteredFilter, load_filters
from strata.config.settings import settings_file
from strata.errors import InvalidRequest, StrataError
from strata.jobs.chosen import still
from strata.jobs.entry import each_shard, say
from strata.jobs.runner import job_runner
from strata.jobs.validate.outcome import document, exit_code, lines, sums_counts, sums_line
from strata.machine.machine import Machine
from strata.model.journals import without_journals
from strata.model.settings import Settings
from strata.model.time import parse_time
from strata.rollout.policy import Policy, policy_of
from strata.session.job_spark import JobSpark, beside
from strata.spark.evaluate import validate
from strata.store.open import Stores, open_stores
from strata.sums.check import SumsCheck, checked_as_declared


def validate_shards(
    spark: JobSpark, settings: Settings, args: argparse.Namespace
) -> Callable[[], tuple[Mapping[str, Any], int]]:
    """Validate the shards that `args` names; return what reports on it without the session.

    That writes the report, and returns the result document and the exit code.
    """
    run = f"validate {datetime.now(UTC):%Y-%m-%d %H:%M:%S}" if args.run is None else args.run
    check_run(run)  # a bad name fails before hours of work, not after
    stores, runner = open_stores(settings.store), job_runner(spark)
    policy = policy_of(stores, settings.rollout)
    now = parse_time(args.now) if args.now else None
    there = Machine(stores).names
    names = args.shard or without_journals(there())
    found: dict[str, ValidationReport] = {}
    sums: dict[str, SumsCheck] = {}
    beside(import_module, "strata.jobs.validate.expectations")  # what builds the report: 5 s

    def validated(name: str) -> Mapping[str, Any]:
        filters = _chosen(settings, name, args.filter)
        used = [] if args.filter else _used(settings, stores, name, filters)
        scope = _scope(args, settings, policy, run, stores, name)
        report = validate(
            spark.session,
            stores,
            name,
            filters,
            scope,
            now=now,
            used=used,
            read=settings.read,
            seconds=settings.validate.filter_seconds,
            runner=runner,
        )
        found[name] = report
        most_bytes = scope.budget.size_bytes
        compared = checked_as_declared(stores, name, settings.read, most_bytes)
        if compared is None:
            say(*lines(report))
            return {"shard": name}
        sums[name] = compared
        say(*lines(report), sums_line(compared))
        return {"shard": name, **sums_counts(compared)}

    def validated_all() -> list[dict[str, Any]]:
        at_once = settings.spark.shards_at_once
        done = each_shard(names, validated, at_once, still=still(args, there))
        verdicts = [v for name in names if name in found for v in found[name].verdicts]
        table.publish(stores, run, verdicts)
        return done

    try:
        done = validated_all()
    except StrataError as error:
        if not any(one.mismatches for one in found.values()):
            raise
        # Another try would not find what lied: it is in quarantine, and no filter skips it now.
        say(f"the run broke off, and reports the mismatch that it found: {error}")
        done = [{"shard": name} for name in names if name in found]
    reports = [found[name] for name in names if name in found]

    def reported() -> tuple[Mapping[str, Any], int]:
        result = _report(settings, stores, run, reports, args.console, sums)
        counts = {one["shard"]: one for one in result["shards"]}
        shards = [one | counts.get(one["shard"], {}) for one in done]
        return {**result, "shards": shards}, exit_code(reports, sums)

    return reported


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
    said, folder = settings.validate, Path(settings.validate.report_dir)
    try:
        merges = {one.shard: machine.load(one.shard).merges for one in reports}
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
        problem = f"the report is not complete: {error}"
        report = WrittenReport(index_of(folder), False, (problem,), problem=problem)
        say(problem)
    if not console:  # who called from Airflow knows the report's address there
        say(f"report: {report.index} {report.url}".rstrip())
    return document(reports, report, sums)
