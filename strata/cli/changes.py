"""The commands about changes: show them, hand them to a consumer, list and remove consumers."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from strata.cli.command import Given, command
from strata.cli.context import Answer, Context, ShardArgument, SomeShards, answer, who
from strata.cli.output import Output
from strata.cli.reading import Columns, Count, FormatOption, Limit, Out, chosen_names, written
from strata.cli.remarks import busy, remark
from strata.cli.tables import rows, shown_bytes
from strata.cli.visible import shown_count, shown_time
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.history import usage
from strata.machine.reader_hold import reading
from strata.model.journals import without_journals
from strata.model.near import one_of
from strata.model.settings import without_password
from strata.model.time import MIN_TIME, format_time, parse_time
from strata.plain.parse import plain_filter
from strata.read.bucket_sink import ParquetBucket
from strata.read.changes import changes, planned_stretch
from strata.read.folder_sink import ParquetFolder
from strata.read.scan import scan_schema
from strata.read.subscription import Sink, Wish, following
from strata.state.consumers import Consumer, consumers_of, detach
from strata.state.state import State

DAY_MS: Final = 86_400_000
LISTED: Final = (
    "shard",
    "consumer",
    "position",
    "batches_behind",
    "history_kept_until",
    "lease_alive",
    "readable",
)

ConsumerArgument = Annotated[str, typer.Argument(help="Name of the consumer.", metavar="CONSUMER")]
Where = Annotated[
    str | None, typer.Option("--where", help="Filter in Spark SQL that needs no Spark.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "changes", show)
    command(app, "deliver", deliver, row="deliver changes")
    command(app, "consumers", consumers, row="remove a consumer", idle=_only_lists)


def _only_lists(given: Given) -> bool:
    return given.get("remove") is None


def show(
    context: Context,
    shard: ShardArgument,
    lower: Annotated[
        str | None, typer.Option("--from", help="First time; default: the beginning.")
    ] = None,
    upper: Annotated[
        str | None, typer.Option("--to", help="Time at which they end, exclusive; default: all.")
    ] = None,
    where: Where = None,
    columns: Columns = None,
    format: FormatOption = None,
    limit: Limit = None,
    count: Count = False,
    out: Out = None,
) -> Answer:
    """Show the updates of a stretch of time as they were written, retractions included."""
    output = Output(format, limit, count, out, context.as_json)
    begin = MIN_TIME if lower is None else parse_time(lower)
    with reading(context.stores, shard, context.settings.read, f"changes-{who(None)}") as state:
        end = state.upper if upper is None else parse_time(upper)
        filter = None if where is None else plain_filter(state.relation, where)
        names = chosen_names(state, columns)
        stretch, plan = planned_stretch(context.stores, state, begin, end, filter)
        usage.record(context.stores, state, plan, filter, context.settings.usage, context.metrics)
        found = changes(
            context.stores,
            state,
            stretch,
            filter=filter,
            columns=names,
            settings=context.settings.read,
        )
        given = usage.emitted(found, context.metrics, shard)
        number, shown, more = written(output, given, scan_schema(state.relation, names))
    size = sum(ref.size_bytes for ref in stretch.parts)
    if output.shows_table:
        many = shown_count(number, "update")
        first = f"the first {many}, --limit 0 shows all" if more else many
        remark(
            f"{first}; before {shown_time(end)}; mode {plan.mode};"
            f" {shown_count(len(stretch.parts), 'part')}, {shown_bytes(size)}"
        )
    document = {
        "updates": number,
        "lower": begin,
        "upper": end,
        "parts_fetched": len(stretch.parts),
        "bytes_fetched": size,
        "mode": plan.mode,
        "out": None if out is None else str(out),
    }
    return answer(document, *shown)


def deliver(
    context: Context,
    shard: ShardArgument,
    consumer: ConsumerArgument,
    into: Annotated[
        str,
        typer.Option(
            "--into",
            help="Folder or s3://bucket/prefix for Parquet files, or postgresql://… with --table.",
        ),
    ],
    table: Annotated[
        str | None, typer.Option("--table", help="Table of that database; made if it is not there.")
    ] = None,
    where: Where = None,
    columns: Columns = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="Where a new consumer begins; default: the beginning."),
    ] = None,
    step: Annotated[
        int | None, typer.Option("--step-ms", min=1, help="Most time in one delivery, in ms.")
    ] = None,
    keep: Annotated[
        int, typer.Option("--keep-days", min=1, help="How long history waits for the consumer.")
    ] = 7,
) -> Answer:
    """Hand a consumer the changes that it does not have yet, each exactly once."""

    def planned(state: State, plan: Any, filter: Filter | None) -> None:
        usage.record(context.stores, state, plan, filter, context.settings.usage, context.metrics)

    names = chosen_names(context.machine.load(shard), columns)
    wish = Wish(
        None if where is None else lambda state: plain_filter(state.relation, where), names, step
    )
    sink = _sink(into, table)
    session = following(
        context.stores,
        shard,
        consumer,
        sink,
        wish,
        start=None if start is None else parse_time(start),
        keep_ms=keep * DAY_MS,
        planned=planned,
        settings=context.settings.read,
    )
    with busy(f"handing changes of {shard} to {consumer}"):
        deliveries, updates = session.into(sink)
    return answer(
        {
            "shard": shard,
            "consumer": consumer,
            "deliveries": deliveries,
            "updates": updates,
            "position": None if session.position == MIN_TIME else format_time(session.position),
            "into": without_password(into)
            if table is None
            else f"{without_password(into)} {table}",
        }
    )


def _sink(into: str, table: str | None) -> Sink:
    if into.startswith(("postgresql://", "postgres://")):
        if table is None:
            raise InvalidRequest(
                "a database needs a table", into=without_password(into), cure="--table"
            )
        from strata.read.table_sink import PostgresTable

        return PostgresTable(into, table)
    if into.startswith("s3://") and table is None:
        return ParquetBucket(into)
    if table is not None or "://" in into:
        raise InvalidRequest(
            "not a place for changes",
            into=without_password(into),
            cure="a folder of this machine, s3://bucket/prefix, or postgresql://… with --table",
        )
    return ParquetFolder(Path(into))


def consumers(
    context: Context,
    shards: SomeShards = None,
    remove: Annotated[
        str | None, typer.Option("--remove", help="Name of a consumer of SHARD to remove.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; it stays in the history.")] = "",
) -> Answer:
    """List who follows the changes, and how far behind; or remove a consumer."""
    machine = context.machine
    names = shards or without_journals(machine.names())
    document: dict[str, Any] = {}
    if remove is not None:
        document = {"shard": names[0], "removed": _remove(context, shards, remove, reason)}
    now_ms = context.stores.clock()
    found = [
        _entry(state, one, now_ms)
        for state in map(machine.load, names)
        for one in consumers_of(state)
    ]
    return answer({**document, "consumers": found}, rows("consumers", found, LISTED))


def _remove(context: Context, shards: list[str] | None, name: str, reason: str) -> str:
    if shards is None or len(shards) != 1:
        raise InvalidRequest("a consumer is removed on one shard", consumer=name, cure="name it")
    if not reason.strip():
        raise InvalidRequest("removing a consumer needs a reason", consumer=name, cure="--reason")
    there = [one.name for one in consumers_of(context.machine.load(shards[0]))]
    if name not in there:
        cure = one_of(name, there, none="there is none")
        raise InvalidRequest("no such consumer", shard=shards[0], consumer=name, cure=cure)
    context.machine.apply(shards[0], lambda state, now_ms: detach(state, now_ms, name=name))
    return name


def _entry(state: State, one: Consumer, now_ms: int) -> dict[str, Any]:
    begun = one.position > MIN_TIME
    batches = sum(1 for b in state.batches if b.manifest and b.upper > one.position)
    return {
        "shard": state.name,
        "consumer": one.name,
        "position": format_time(one.position) if begun else None,
        "batches_behind": batches,
        "history_kept_until": format_time(one.expires_ms),
        "lease_alive": one.expires_ms > now_ms,
        "readable": not begun or one.position > state.since,
    }
