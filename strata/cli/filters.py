"""Commands about filters: explain what one would skip, validate that skipping is right."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

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
from strata.explain import explain_filter
from strata.filters import RegisteredFilter, load_filters
from strata.model.time import parse_time
from strata.plan import plan_read
from strata.prune import outlook
from strata.receipts import issue, read_receipt, write_receipt
from strata.receipts import replay as replay_receipt

MISMATCH = 3  # exit code
FAILED = 1


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("explain")(explain)
    app.command("validate")(validate)
    app.command("replay")(replay)


def explain(
    shard: ShardArgument,
    where: Annotated[str, typer.Option("--where", help="Filter in Spark SQL.")],
    as_of: Annotated[str | None, typer.Option("--as-of", help="Time of the snapshot.")] = None,
    now: Annotated[str | None, typer.Option("--now", help="What now() means.")] = None,
    parts: Annotated[bool, typer.Option("--parts", help="List every part and why.")] = False,
    static: Annotated[
        bool, typer.Option("--static", help="Only: could it skip a part at all? Reads no manifest.")
    ] = False,
    receipt: Annotated[
        Path | None, typer.Option("--receipt", help="Write the decision down, for `strata replay`.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Say which parts a filter would skip, and what stops the proof for the others."""
    from strata.cli.spark import analysed

    context = Context(config)
    state = context.machine.load(shard)
    filter = analysed(context, state, where, None if now is None else parse_time(now) * 1000)
    if static:
        found = outlook(filter, state.rollout.quarantine).document()
        answer({"shard": shard, "filter": where, **found}, json, *_static_tables(shard, found))
        return
    at = None if as_of is None else parse_time(as_of)
    told = explain_filter(context.stores, state, filter, at, every_part=parts)
    document = told.document(parts=parts)
    if receipt is not None:
        plan = plan_read(context.stores, state, as_of=at, filter=filter, mode="on")
        write_receipt(receipt, issue(context.stores, state, plan, filter))
    columns = ("cause", "expression", "parts", "bytes", "help")
    tables = [
        pairs(shard, document),
        rows("levels", document["levels"], ("level", "total", "kept")),
        rows("row groups", document["row_groups"], ("because", "parts", "total", "kept")),
        rows("kept because", document["kept_because"], columns),
        rows("skipped because", document["skipped_because"], columns[1:4]),
    ]
    if not document["static"]["could_skip"]:
        tables += _static_tables("no part can ever be skipped", document["static"])
    if parts:
        shown = ("verdict", "level", "rows", "bytes", "reason", "help", "row groups", "key")
        tables.append(rows("parts", [_line(part) for part in document["parts"]], shown))
    answer(document, json, *tables)


def _line(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return one part as a line for people: its row groups in one cell."""
    groups = part["row_groups"]
    if groups is None:
        return {**part, "row groups": ""}
    shown = f"{groups['kept']} of {groups['total']}: {groups['reason'] or groups['because']}"
    return {**part, "row groups": shown}


def _static_tables(title: str, found: Mapping[str, Any]) -> list[Table]:
    columns = ("expression", "proves", "fails", "because")
    return [pairs(title, found), rows("conjuncts", found["conjuncts"], columns)]


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
        int | None,
        typer.Option(
            "--percent",
            min=1,
            max=100,
            help="Share of skipped parts to fetch. Default: all; in audit and on, the shard's.",
        ),
    ] = None,
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
    scope = Scope(run, percent, frozenset(part) if part else None, gates=context.settings.rollout)
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


def replay(
    receipt: Annotated[Path, typer.Argument(help="File that `read --receipt` wrote.")],
    look: Annotated[
        bool, typer.Option("--rows", help="Fetch the skipped parts and look for matching rows.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Make the decision of a receipt again; exit 3 if it, or what was skipped, was wrong."""
    context = Context(config)
    found = read_receipt(receipt)
    state = context.machine.load(str(found.get("shard")))
    if look:
        from strata.cli.spark import session
        from strata.spark.evaluate import spark_evaluator

        relations = state.relations[: int(found["relation_version"]) + 1]
        with session(context) as spark:
            evaluator = spark_evaluator(spark, context.stores.settings, relations)
            result = replay_receipt(context.stores, state, found, evaluator)
    else:
        result = replay_receipt(context.stores, state, found)
    document = result.document()
    lists = ("differences", "unchecked", "matching")
    listed = [{"finding": name, "what": what} for name in lists for what in document[name]]
    answer(
        document, json, pairs(str(receipt), document), rows("found", listed, ("finding", "what"))
    )
    if result.altered or result.differences or result.matching:
        raise typer.Exit(MISMATCH)
    if result.unchecked:
        raise typer.Exit(FAILED)
