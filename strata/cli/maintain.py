"""Commands that keep a shard in shape: compact, stats backfill, stats trim, stats show."""

from typing import Annotated, Any

import pyarrow as pa
import typer

from strata.backfill import Selection, StatsReport, backfill_shard, trim_shard
from strata.cli.context import ConfigOption, Context, JsonOption, ShardArgument, answer, pairs, rows
from strata.compact import compact_shard, preview
from strata.format.manifest import part_refs, stats_columns
from strata.model.runner import threads
from strata.model.time import parse_time
from strata.read import load_manifest
from strata.state.state import State
from strata.stats.wire import parse_name
from strata.store.open import Stores

TASKS = 2  # merges and collections side by side

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, change nothing.")]
FromTime = Annotated[str | None, typer.Option("--from", help="Batches at or after this time.")]
ToTime = Annotated[str | None, typer.Option("--to", help="Batches before this time.")]
Columns = Annotated[
    str | None, typer.Option("--columns", help="Only these columns, by name, with commas.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("compact")(compact)
    stats = typer.Typer(help="Collect, trim and show statistics.", no_args_is_help=True)
    stats.command("backfill")(backfill)
    stats.command("trim")(trim)
    stats.command("show")(show)
    app.add_typer(stats, name="stats")


def compact(
    shard: ShardArgument,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what would be merged, and why.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Merge everything into one run.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Merge the runs that are due; what a reader sees does not change."""
    context = Context(config)
    if plan:
        report = preview(context.stores, shard, context.settings, full=full)
    else:
        report = compact_shard(context.stores, shard, context.settings, threads(TASKS), full=full)
    document = report.to_json()
    columns = ("lower", "upper", "runs", "parts", "bytes", "updates", "reason", "outcome")
    answer(document, json, pairs(shard, document), rows("requests", document["requests"], columns))


def backfill(
    shard: ShardArgument,
    dry_run: DryRun = False,
    from_time: FromTime = None,
    to_time: ToTime = None,
    columns: Columns = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Collect statistics for the parts that have none; parts are read, not rewritten."""
    context = Context(config)
    report = backfill_shard(
        context.stores, shard, _selection(from_time, to_time, columns),
        runner=threads(TASKS), dry_run=dry_run,
    )  # fmt: skip
    answer(_document(report), json)


def trim(
    shard: ShardArgument,
    budget: Annotated[
        int | None, typer.Option("--budget", min=0, help="Bytes a part; default: as declared.")
    ] = None,
    dry_run: DryRun = False,
    from_time: FromTime = None,
    to_time: ToTime = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Bring the statistics of each part down to a budget; only manifests are rewritten."""
    context = Context(config)
    report = trim_shard(
        context.stores, shard, _selection(from_time, to_time, None),
        budget_bytes=budget, runner=threads(TASKS), dry_run=dry_run,
    )  # fmt: skip
    answer(_document(report), json)


def show(
    shard: ShardArgument,
    part: Annotated[str | None, typer.Option("--part", help="Only this part.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show the statistics that the manifests hold, a line for each part and column."""
    context = Context(config)
    state = context.machine.load(shard)
    found = _statistics(context.stores, state, part)
    flat = [{**item, **item["statistics"]} for item in found]
    names = ("part", "rows", "column", "nulls", "low", "high", "present", "num_low", "num_high")
    answer({"shard": shard, "statistics": found}, json, rows(shard, flat, names))


def _statistics(stores: Stores, state: State, part: str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for batch in state.batches:
        if batch.manifest is None:
            continue
        manifest = load_manifest(stores, state, batch)
        table: pa.Table = stats_columns(manifest)
        for row, ref in enumerate(part_refs(manifest)):
            if part is not None and ref.key != part:
                continue
            for name in table.column_names:
                parsed, value = parse_name(name), None
                if parsed is not None:
                    value = table[name][row].as_py()
                if parsed is None or value is None or parsed[0] not in state.relation.by_id:
                    continue
                column = state.relation.by_id[parsed[0]].name + name.removeprefix(f"s.{parsed[0]}")
                known = {k: v for k, v in value.items() if v is not None}
                found.append(
                    {"part": ref.key, "rows": ref.rows, "column": column, "statistics": known}
                )
    return found


def _selection(from_time: str | None, to_time: str | None, columns: str | None) -> Selection:
    return Selection(
        lower=None if from_time is None else parse_time(from_time),
        upper=None if to_time is None else parse_time(to_time),
        columns=tuple(c.strip() for c in (columns or "").split(",") if c.strip()),
    )


def _document(report: StatsReport) -> dict[str, Any]:
    return {
        "shard": report.shard,
        "dry_run": report.dry_run,
        "parts_selected": report.parts_selected,
        "parts_changed": report.parts_changed,
        "stats_bytes_before": report.stats_bytes_before,
        "stats_bytes_after": report.stats_bytes_after,
        "bytes_read": report.bytes_read,
        "batches_gone": report.batches_gone,
    }
