"""Commands about filters: explain what one would skip, validate that skipping is right."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from strata.audit.run import Scope
from strata.cli.context import (
    ConfigOption,
    Context,
    JsonOption,
    ShardArgument,
    answer,
    pairs,
    rows,
)
from strata.filters import RegisteredFilter, load_filters
from strata.model.time import parse_time
from strata.read import explain as explain_parts

MISMATCH = 3  # exit code
FAILED = 1


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("explain")(explain)
    app.command("validate")(validate)


def explain(
    shard: ShardArgument,
    where: Annotated[str, typer.Option("--where", help="Filter in Spark SQL.")],
    as_of: Annotated[str | None, typer.Option("--as-of", help="Time of the snapshot.")] = None,
    now: Annotated[str | None, typer.Option("--now", help="What now() means.")] = None,
    parts: Annotated[bool, typer.Option("--parts", help="List every part and why.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Say which parts a filter would skip, and what stops the proof for the others."""
    from strata.cli.spark import analysed

    context = Context(config)
    state = context.machine.load(shard)
    filter = analysed(context, state, where, None if now is None else parse_time(now) * 1000)
    at = None if as_of is None else parse_time(as_of)
    verdicts = list(explain_parts(context.stores, state, filter, at))
    kept = [verdict for verdict in verdicts if verdict.keep]
    listed = [
        {
            "key": verdict.ref.key,
            "verdict": "keep" if verdict.keep else "skip",
            "reason": verdict.reason,
            "rows": verdict.ref.rows,
            "bytes": verdict.ref.size_bytes,
        }
        for verdict in verdicts
    ]
    document: dict[str, object] = {
        "shard": shard,
        "as_of": state.upper - 1 if at is None else at,
        "filter": where,
        "parts_total": len(verdicts),
        "parts_kept": len(kept),
        "bytes_total": sum(verdict.ref.size_bytes for verdict in verdicts),
        "bytes_kept": sum(verdict.ref.size_bytes for verdict in kept),
    }
    tables = [pairs(shard, document)]
    if parts:
        document["parts"] = listed
        tables.append(rows("parts", listed, ("verdict", "rows", "bytes", "reason", "key")))
    answer(document, json, *tables)


def validate(
    shard: ShardArgument,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="Filter in Spark SQL; repeat. Default: the registered ones."),
    ] = None,
    now: Annotated[str | None, typer.Option("--now", help="What now() means.")] = None,
    part: Annotated[
        list[str] | None, typer.Option("--part", help="Check only this part; repeat for more.")
    ] = None,
    percent: Annotated[
        int, typer.Option("--percent", min=1, max=100, help="Share of skipped parts to fetch.")
    ] = 100,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch what would be skipped and look; exit 3 on a mismatch, with the mode set back."""
    from strata.cli.spark import session
    from strata.spark.evaluate import validate as validate_on_spark

    context = Context(config)
    context.machine.load(shard)
    if filters:
        chosen = [RegisteredFilter(shard, f"filter {n}", sql) for n, sql in enumerate(filters, 1)]
    else:
        chosen = load_filters(context.settings.filters_dir, shard)
    run = f"cli {datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    scope = Scope(run, percent, frozenset(part) if part else None)
    with session(context) as spark:
        report = validate_on_spark(
            spark, context.stores, shard, chosen, scope,
            now=None if now is None else parse_time(now),
        )  # fmt: skip
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
    answer(document, json, pairs(shard, document), rows("findings", findings, columns))
    if report.mismatches:
        raise typer.Exit(MISMATCH)
    if document["errors"] or document["missing"]:
        raise typer.Exit(FAILED)
