"""Commands that keep a shard in shape: compact, merges, stats backfill, stats trim, stats show."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

import pyarrow as pa
import typer

from strata.cli.command import command
from strata.cli.completion import column_names
from strata.cli.context import Answer, Context, ShardArgument, answer
from strata.cli.parts import full_keys, short_names
from strata.cli.remarks import remark, watched
from strata.cli.tables import Table, pairs, rows
from strata.compact import compact_shard, merge_history, preview
from strata.config.filters import RegisteredFilter, load_filters
from strata.expr.filter import Filter
from strata.format.manifest import stats_columns
from strata.history import usage
from strata.maintain.backfill import backfill_shard
from strata.maintain.coverage import coverage
from strata.maintain.exchange import Selection, ids_of, manifest_of, statistics_label
from strata.maintain.registered import named_filters
from strata.maintain.trim import trim_shard
from strata.maintain.trim_report import Named, TrimShardReport
from strata.model.runner import threads
from strata.model.time import format_time, parse_time
from strata.publish.follow import publish_again
from strata.state.state import State
from strata.store.open import Stores
from strata.sums.follow import follow_sums, known_sums

TASKS = 2  # concurrent merges and collections

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, change nothing.")]
FromTime = Annotated[
    str | None, typer.Option("--from", help="Parts with an update at or after this time.")
]
ToTime = Annotated[str | None, typer.Option("--to", help="Parts with an update before this time.")]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Only these columns: names or ids, separated by commas.",
        autocompletion=column_names,
    ),
]
Version = Annotated[
    int | None,
    typer.Option("--version", min=1, help="Only parts with statistics older than this version."),
]
MaxParts = Annotated[
    int | None, typer.Option("--max-parts", min=0, help="At most this many parts, oldest first.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "compact", compact, row="compact")
    command(app, "merges", merges)
    stats = typer.Typer(help="Collect, trim and show statistics.", no_args_is_help=True)
    command(stats, "backfill", backfill, row="backfill")
    command(stats, "trim", trim, row="trim")
    command(stats, "show", show)
    app.add_typer(stats, name="stats")


def compact(
    context: Context,
    shard: ShardArgument,
    plan: Annotated[
        bool, typer.Option("--plan", "--dry-run", help="Print what would be merged, or why not.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Merge everything into one run.")] = False,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Also rewrite parts in an old order or form.")
    ] = False,
) -> Answer:
    """Merge the runs that are due; readers see the same rows."""
    published, sums = None, list[dict[str, Any]]()
    if plan:
        report = preview(context.stores, shard, context.settings, full=full, migrate=migrate)
    else:
        report = compact_shard(
            context.stores, shard, context.settings, threads(TASKS), full=full, migrate=migrate
        )
        published = publish_again(context.stores, context.settings, shard)
        sums = follow_sums(context.stores, known_sums(context.stores, shard), context.settings.read)
    document = {**report.to_json()} | ({} if published is None else {"published": published})
    document |= {"sums": sums} if sums else {}
    for one in sums:
        remark(f"{one['shard']}: sums of {shard} with {one['changes']:,} more changes")
    columns = ("lower", "upper", "runs", "parts", "bytes", "updates", "reason", "outcome")
    if published is not None:
        remark(f"{shard}: {published['table']} shows it, snapshot {published['snapshot']}")
    return answer(
        document, pairs(shard, report.to_json()), rows("requests", document["requests"], columns)
    )


def merges(
    context: Context,
    shard: ShardArgument,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many, newest first.")] = 20,
) -> Answer:
    """Show the merges under way and the last ones applied, with the cost of each."""
    document = merge_history(context.machine.load(shard), limit)
    shown = [{**m, "at": format_time(m["at_ms"])} for m in document["merges"]]
    columns = (
        "at", "seqno", "runs_in", "updates_in", "updates_out", "bytes_in", "bytes_out",
        "parts_in", "parts_out", "parts_kept", "tasks", "resumed", "seconds", "reason",
    )  # fmt: skip
    under_way = ("lower", "upper", "done", "tasks", "bytes_in", "bytes_out")
    return answer(
        document,
        pairs(shard, document),
        rows("under way", document["under_way"], under_way),
        rows("applied", shown, columns),
    )


def backfill(
    context: Context,
    shard: ShardArgument,
    dry_run: DryRun = False,
    from_time: FromTime = None,
    to_time: ToTime = None,
    columns: Columns = None,
    version: Version = None,
    max_parts: MaxParts = None,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", min=0, help="Parts of at most this many bytes together."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also for parts that already have these statistics.")
    ] = False,
    sets: Annotated[
        str | None, typer.Option("--sets", help="Also sets of values of these places, as declared.")
    ] = None,
    blooms: Annotated[
        str | None, typer.Option("--blooms", help="Also bloom filters of these places.")
    ] = None,
) -> Answer:
    """Collect statistics for the parts that have none; parts are read, not rewritten."""
    chosen = _selection(from_time, to_time, columns, version, max_parts, max_bytes)
    selection = replace(chosen, again=again, sets=_words(sets), blooms=_words(blooms))
    known = usage.recent(context.stores, shard, context.settings.usage)
    report = backfill_shard(
        context.stores,
        shard,
        selection,
        runner=threads(TASKS),
        dry_run=dry_run,
        usefulness=usage.usefulness(known, {}),
        log=_tell,
    )
    document = report.to_json()
    unmeasured = dry_run and report.cost.seconds is None
    shown = {**document, **({"seconds": "unknown: no run was measured yet"} if unmeasured else {})}
    return answer(document, pairs(shard, shown))


def trim(
    context: Context,
    shard: ShardArgument,
    budget: Annotated[
        int | None, typer.Option("--budget", min=0, help="Bytes per part; default: as declared.")
    ] = None,
    dry_run: DryRun = False,
    from_time: FromTime = None,
    to_time: ToTime = None,
    columns: Columns = None,
    version: Version = None,
    max_parts: MaxParts = None,
    registered: Annotated[
        bool,
        typer.Option(
            "--registered/--no-registered",
            help="Also weigh with the registered filters (starts Spark if there are any).",
        ),
    ] = True,
) -> Answer:
    """Cut the statistics of each part to a budget; only manifests are rewritten."""
    selection = _selection(from_time, to_time, columns, version, max_parts)
    report = trim_shard(
        context.stores,
        shard,
        selection,
        budget_bytes=budget,
        registered=_registered(context, shard) if registered else (),
        log=context.settings.usage,
        runner=threads(TASKS),
        dry_run=dry_run,
    )
    return answer(report.to_json(), *_trim_tables(report))


def show(
    context: Context,
    shard: ShardArgument,
    part: Annotated[
        str | None,
        typer.Option("--part", help="Only this part: its key, or the first digits of its name."),
    ] = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    columns: Columns = None,
    version: Version = None,
) -> Answer:
    """Show the statistics in the manifests: each part's, and what is known of each column."""
    state = context.machine.load(shard)
    selection = _selection(from_time, to_time, columns, version)
    wanted = None if part is None else full_keys(context.stores, state, [part])[0]
    found = list(_statistics(context.stores, state, selection, wanted))
    used = usage.recent(context.stores, shard, context.settings.usage)
    weights = [
        {"column": statistics_label(name, state.relation), "usefulness": round(weight, 4)}
        for name, weight in usage.usefulness(used, {}).items()
    ]
    short = short_names([item["part"] for item in found])
    flat = [
        {**item, **_as_values(item["statistics"]), "part": short[item["part"]]} for item in found
    ]
    names = ("part", "rows", "column", "nulls", "low", "high", "present", "num_low", "num_high")
    covered = list(coverage(_by_part(found), state.relation))
    for one in covered:
        if one.left_out and one.widest is not None:
            remark(
                f"in a part, {one.widest.said(one.column)}; name those that filters need in "
                f"stats.keep of {shard}"
            )
    known = [one.to_json() for one in covered]
    document = {
        "shard": shard,
        "statistics": found,
        "columns": known,
        "usefulness": weights,
        "filters_seen": sum(one.reads for one in used),
    }
    return answer(
        document,
        rows("what is known, by column", known, [*known[0]] if known else ()),
        rows("what readers' filters skipped with", weights, ("column", "usefulness")),
        rows("what is known, by part", flat, names),
    )


def _as_values(statistics: Mapping[str, Any]) -> dict[str, Any]:
    """Return bounds as texts, because they are values of the shard and no counts."""
    bounds = ("low", "high", "num_low", "num_high")
    return {k: str(v) if k in bounds else v for k, v in statistics.items()}


def _statistics(
    stores: Stores, state: State, selection: Selection, part: str | None
) -> Iterator[dict[str, Any]]:
    ids = selection.ids(state.relation)
    for batch in filter(selection.covers, state.batches):
        manifest = manifest_of(stores, state.name, batch)
        if manifest is None:  # merged away since the state was loaded
            continue
        chosen = selection.in_time(manifest)
        table: pa.Table = stats_columns(manifest)
        for row, (key, version) in enumerate(
            zip(manifest["key"].to_pylist(), manifest["stats_version"].to_pylist(), strict=True)
        ):
            young = selection.version is not None and (version or 0) >= selection.version
            if not chosen[row] or young or (part is not None and key != part):
                continue
            yield from _of_part(table.slice(row, 1), state, ids, {"part": key, "version": version})


def _of_part(
    table: pa.Table, state: State, ids: Sequence[int], head: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    for name in table.column_names:
        of, value = ids_of(name), table[name][0].as_py()
        known = bool(of) and of <= state.relation.by_id.keys()
        if value is None or not known or (ids and not of & {*ids}):
            continue
        yield {
            **head,
            "rows": table["rows"][0].as_py(),
            "column": statistics_label(name, state.relation),
            "name": name,
            "statistics": {k: v for k, v in value.items() if v is not None},
        }


def _by_part(found: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the statistics of each part, by name."""
    for _, items in groupby(found, key=itemgetter("part")):
        yield {item["name"]: item["statistics"] for item in items}


def _selection(
    from_time: str | None,
    to_time: str | None,
    columns: str | None,
    version: int | None = None,
    max_parts: int | None = None,
    max_bytes: int | None = None,
) -> Selection:
    return Selection(
        lower=None if from_time is None else parse_time(from_time),
        upper=None if to_time is None else parse_time(to_time),
        columns=_words(columns),
        version=version,
        parts_max=max_parts,
        bytes_max=max_bytes,
    )


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _registered(context: Context, shard: str) -> list[Named]:
    """Return the shard's registered filters; Spark starts only if one of them is not plain."""
    filters = load_filters(context.settings.filters_dir, shard)
    relation = context.machine.load(shard).relation
    with ExitStack() as stack:

        def analyse(filter: RegisteredFilter) -> Filter:
            from strata.cli.spark import session

            spark = stack.enter_context(session(context))  # the first one for all
            from strata.spark.front.registered import analyse_registered

            return analyse_registered(spark, relation, filter)

        return named_filters(relation, filters, analyse)


def _trim_tables(report: TrimShardReport) -> list[Table]:
    document = report.to_json()
    columns = (
        "column",
        "parts",
        "dropped",
        "shortened",
        "bytes_before",
        "bytes_after",
        "usefulness",
    )
    filters = ("name", "filter", "reads", "parts_total", "skipped_before", "skipped_after")
    return [
        pairs(report.shard, document),
        rows("statistics that lost something", document["columns"], columns),
        rows("parts that filters skip, before and after", document["filters"], filters),
    ]


def _tell(line: str) -> None:
    if watched():
        remark(line)
