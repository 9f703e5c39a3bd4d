"""Commands that check skipping: validate that it is right, decide again from receipts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from strata.audit import table
from strata.audit.cost import cost_counts
from strata.audit.receipts import (
    Receipt,
    Replay,
    kept_receipts,
    read_receipt,
)
from strata.audit.receipts import replay as replay_receipt
from strata.audit.run import Scope, ValidationReport
from strata.audit.used import budget_of, used_filters
from strata.cli.command import command
from strata.cli.context import Answer, Context, ShardArgument, answer
from strata.cli.parts import full_keys
from strata.cli.remarks import remark
from strata.cli.tables import Table, pairs, rows
from strata.config.filters import RegisteredFilter, load_filters
from strata.errors import InvalidRequest, StrataError
from strata.model.time import parse_time
from strata.sums.check import checked_as_declared

COST = (
    "check",
    "percent",
    "parts_skipped",
    "audited_parts",
    "audited_bytes",
    "left_out_parts",
    "left_out_bytes",
    "seconds",
)
SHARES = ("percent", "parts", "size_bytes", "requests", "seconds")
COLUMNS = ("column", "parts", "values", "differing", "statistics", "lies", "kept_missing")
MISMATCH = 3  # exit code
FAILED = 1


# One line per paragraph: the help is wrapped when it is shown.
_REPLAY: Final = (
    "Make the decision of a receipt again; exit 3 if it, or what was skipped, was wrong.\n\n"
    "A receipt names the filter, its clock, the manifests by their content and the verdict on "
    "each part. `read` and `explain` write one with --receipt; every validation keeps one for "
    "each filter that skips a part.\n\n"
    "\b\n"
    "strata replay why.json          decide again: same code, same statistics?\n"
    "strata replay why.json --rows   and run the filter on the skipped rows\n"
    "strata replay --shard flights   every receipt that validations kept of a shard"
)


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "validate", validate, row="validate")
    command(app, "replay", replay, help=_REPLAY)


def validate(
    context: Context,
    shard: ShardArgument,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="Filter in Spark SQL; repeat. Default: the registered ones."),
    ] = None,
    now: Annotated[str | None, typer.Option("--now", help="What now() means.")] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part",
            help="Check only this part: its key, or the first digits of its name. Repeat.",
        ),
    ] = None,
    percent: Annotated[
        int | None,
        typer.Option(
            "--percent",
            min=1,
            max=100,
            help="Share of skipped parts to fetch. Default: all; in audit and on, the shard's own.",
        ),
    ] = None,
    budget_bytes: Annotated[
        int | None,
        typer.Option(
            "--budget-bytes",
            min=0,
            help="Bytes of parts to read at most; 0: no limit. Default: validate.budget_bytes.",
        ),
    ] = None,
    budget_seconds: Annotated[
        float | None,
        typer.Option(
            "--budget-seconds",
            min=0,
            help="Seconds to take at most; 0: no limit. Default: validate.budget_seconds.",
        ),
    ] = None,
) -> Answer:
    """Fetch what would be skipped and check it; on a mismatch set the mode back and exit 3."""
    from strata.cli.spark import session
    from strata.spark.evaluate import validate as validate_on_spark

    state = context.machine.load(shard)
    chosen_parts = full_keys(context.stores, state, part or ())
    if filters:
        chosen = [RegisteredFilter(shard, f"filter {n}", sql) for n, sql in enumerate(filters, 1)]
    else:
        chosen = load_filters(context.settings.filters_dir, shard)
    settings = context.settings
    used = (
        []
        if filters or part
        else used_filters(
            context.stores, shard, settings.usage, chosen, settings.validate.used_filters
        )
    )
    run = f"cli {datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    scope = Scope(
        run,
        percent,
        frozenset(chosen_parts) if part else None,
        policy=context.policy,
        format_percent=settings.validate.format_percent,
        check_format=settings.validate.format_percent > 0 or bool(part),
        config=context.settings_file,
        budget=budget_of(
            context.stores, shard, settings, size_bytes=budget_bytes, seconds=budget_seconds
        ),
    )
    with session(context) as spark:
        report = validate_on_spark(
            spark,
            context.stores,
            shard,
            chosen,
            scope,
            now=None if now is None else parse_time(now),
            used=used,
            read=settings.read,
            seconds=settings.validate.filter_seconds,
        )
    if not part:
        with _behind(report):
            table.publish(context.stores, run, report.verdicts)
    findings = [
        {"part": v.part, "check": v.check, "column": v.column, "bound": v.bound, "error": v.error}
        for v in report.verdicts
        if v.outcome != "clean"
    ]
    document = {
        **report.totals(),
        "mode_before": report.mode_before,
        "mode_after": report.mode_after,
        "run": report.run,
        "findings": findings,
    }
    columns = ("check", "column", "bound", "error", "part")
    cost = [{name: getattr(s, name) for name in COST} for s in report.summaries]
    counts = [asdict(column) for column in report.columns]
    shares = [asdict(one) for one in report.costs]
    document |= {
        "columns": counts,
        "unusable_filters": list(report.unusable),
        "cost": cost,
        "audit_cost": shares,
        **cost_counts(report.costs),
        **report.recorded(),
    }
    compared = None
    if not part:
        most = scope.budget.size_bytes
        with _behind(report):
            compared = checked_as_declared(context.stores, shard, settings.read, most)
    if compared is not None:
        # No values of rows: `strata sums --check` shows the group.
        document["sums"] = {k: v for k, v in compared.to_json().items() if k != "first"}
        if compared.different:
            remark(f"{shard}: {compared.different:,} sums differ from {compared.source}")
    failed = FAILED if document["errors"] or document["missing"] else 0
    return answer(
        document,
        pairs(shard, document),
        rows("findings", findings, columns),
        rows("cost", cost, COST),
        rows("an audit of", shares, SHARES),
        rows("columns", counts, COLUMNS),
        code=MISMATCH if report.mismatches or (compared and compared.different) else failed,
    )


@contextmanager
def _behind(report: ValidationReport) -> Iterator[None]:
    """Let what follows a mismatch fail with a remark: what lied is shown in any case.

    A repetition would not find it: it is in quarantine, and no filter skips it any more.
    """
    try:
        yield
    except StrataError as error:
        if not report.mismatches:
            raise
        remark(str(error))


def replay(
    context: Context,
    receipt: Annotated[
        Path | None, typer.Argument(help="File that `read` or `explain` wrote with --receipt.")
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", help="Instead: every receipt that its audits kept.")
    ] = None,
    look: Annotated[
        bool, typer.Option("--rows", help="Fetch the skipped parts and look for matching rows.")
    ] = False,
) -> Answer:
    """Make the decision of a receipt again; exit 3 if it, or what was skipped, was wrong."""
    if (receipt is None) == (shard is None):
        raise InvalidRequest("one receipt or one shard", cure="give a file, or --shard NAME")
    if receipt is not None:
        (result,) = _replayed(context, [read_receipt(receipt)], look)
        document = result.to_json()
        code = _exit_code([result], gone_is_failure=True)
        return answer(document, *_replay_tables(str(receipt), document), code=code)
    assert shard is not None
    kept = dict(kept_receipts(context.stores, context.machine.load(shard)))
    results = _replayed(context, list(kept.values()), look)
    documents = [{"key": k, **r.to_json()} for k, r in zip(kept, results, strict=True)]
    columns = ("filter", "parts", "skipped", "reproduced", "altered", "key")
    tables = [rows(f"{shard}: receipts that audits kept", documents, columns)]
    for found in documents:
        tables += _replay_tables(found["key"], found)[1:]
    # Garbage collection sweeps manifests that compaction replaced: their receipts outlive them.
    code = _exit_code(results, gone_is_failure=not any(result.reproduced for result in results))
    return answer({"shard": shard, "receipts": documents}, *tables, code=code)


def _replayed(context: Context, found: Sequence[Receipt], look: bool) -> list[Replay]:
    """Replay receipts of one shard; with `look` also check the skipped rows."""
    if not found:
        return []
    state = context.machine.load(str(found[0].get("shard")))
    if not look:
        return [replay_receipt(context.stores, state, one) for one in found]
    from strata.cli.spark import session
    from strata.spark.evaluate import replayed

    seconds = context.settings.validate.filter_seconds
    with session(context) as spark:
        return [replayed(spark, context.stores, state, one, seconds) for one in found]


def _replay_tables(title: str, document: Mapping[str, Any]) -> list[Table]:
    """Return a table of the verdict, and one of the findings if there are any."""
    lists = ("differences", "unchecked", "matching")
    listed = [{"finding": name, "what": what} for name in lists for what in document[name]]
    found = [rows(f"found: {title}", listed, ("finding", "what"))] if listed else []
    return [pairs(title, document), *found]


def _exit_code(results: Sequence[Replay], *, gone_is_failure: bool) -> int:
    if any(result.altered or result.differences or result.matching for result in results):
        return MISMATCH
    return FAILED if gone_is_failure and any(result.unchecked for result in results) else 0
