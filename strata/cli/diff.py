"""Commands about what happened between two times of a shard: diff, revert."""

from typing import Annotated

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, ReasonOption, ShardArgument, answer, who
from strata.cli.output import Output
from strata.cli.reading import Columns, Count, FormatOption, Limit, Out, chosen_names, written
from strata.cli.remarks import remark
from strata.cli.tables import shown_bytes
from strata.cli.visible import shown_count, shown_time
from strata.decide.descent import resolve_as_of
from strata.history import usage
from strata.machine.reader_hold import reading
from strata.model.time import parse_time
from strata.plain.parse import plain_filter
from strata.read.changed import ChangePlan, changed_rows, changed_schema, plan_changed
from strata.read.moments import resolve_moment


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "diff", diff)
    command(app, "revert", revert, row="revert")


def diff(
    context: Context,
    shard: ShardArgument,
    first: Annotated[
        str, typer.Argument(help="A time, a label or clock:WALLTIME.", metavar="FIRST")
    ],
    second: Annotated[
        str | None, typer.Argument(help="A later one; default: the newest.", metavar="[SECOND]")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", help="Plain filter in Spark SQL.")] = None,
    columns: Columns = None,
    format: FormatOption = None,
    limit: Limit = None,
    count: Count = False,
    out: Out = None,
) -> Answer:
    """Show the rows whose counts differ between two times, each with the difference in d."""
    output = Output(format, limit, count, out, context.as_json)
    with reading(context.stores, shard, context.settings.read, f"diff-{who(None)}") as state:
        begin = resolve_as_of(state, resolve_moment(context.stores, state, first))
        end = resolve_moment(context.stores, state, second)
        filter = None if where is None else plain_filter(state.relation, where)
        assert begin is not None
        wanted = plan_changed(context.stores, state, begin, end, filter=filter)
        usage.record(
            context.stores, state, wanted.plan, filter, context.settings.usage, context.metrics
        )
        chosen = chosen_names(state, columns)
        batches = changed_rows(context.stores, state, wanted, filter=filter, columns=chosen)
        rows, shown, more = written(output, batches, changed_schema(state, chosen))
    if output.shows_table:
        remark(_summary(wanted, rows, more))
    document = {
        "rows": rows,
        "first": wanted.after,
        "second": wanted.plan.as_of,
        "parts_read": wanted.parts,
        "parts_total": wanted.plan.parts_total,
        "bytes_read": wanted.size_bytes,
        "mode": wanted.plan.mode,
        "out": None if out is None else str(out),
    }
    return answer(document, *shown)


def _summary(wanted: ChangePlan, rows: int, more: bool) -> str:
    """Return one line about a difference that is shown as a table."""
    many = shown_count(rows, "row")
    shown = f"the first {many}, --limit 0 shows all" if more else many
    return (
        f"{shown}; from {shown_time(wanted.after)} to {shown_time(wanted.plan.as_of)};"
        f" {wanted.parts:,} of {shown_count(wanted.plan.parts_total, 'part')} read,"
        f" {shown_bytes(wanted.size_bytes)}"
    )


def revert(
    context: Context,
    shard: ShardArgument,
    lower: Annotated[
        str, typer.Argument(help="Start of the interval, inclusive.", metavar="LOWER")
    ],
    upper: Annotated[str, typer.Argument(help="End of the interval, exclusive.", metavar="UPPER")],
    where: Annotated[
        str | None, typer.Option("--where", help="Plain filter in Spark SQL; default: all rows.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many rows would be retracted.")
    ] = False,
    reason: ReasonOption = "",
) -> Answer:
    """Append the retraction of an interval, as if it had not been; a repeat changes nothing."""
    found = context.shard(shard).revert(
        parse_time(lower), parse_time(upper), where=where, dry_run=dry_run
    )
    if found.already_reverted:
        remark(f"{shard}: this interval is already reverted; nothing was changed")
    elif not found.rows:
        remark(f"{shard}: there is nothing to retract; nothing was changed")
    elif not dry_run:
        remark(f"strata diff {shard} {found.at - 1} {found.at} shows what was retracted")
    return answer(found.to_json() | ({"reason": reason} if reason else {}))
