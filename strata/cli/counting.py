"""The command that counts rows: count."""

from contextlib import ExitStack
from typing import Annotated

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, ShardArgument, answer, who
from strata.cli.reading import AsOf
from strata.cli.remarks import remark
from strata.cli.tables import Table, shown_bytes
from strata.cli.visible import shown_count, shown_time
from strata.decide.plan import check_pushdown
from strata.decide.whole import BUCKETS
from strata.history.usage import record_count
from strata.machine.reader_hold import reading
from strata.model.time import parse_time
from strata.plain.parse import plain_or_none
from strata.read.count import Counted, count_rows
from strata.read.moments import resolve_moment
from strata.state.state import State


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "count", count)


def count(
    context: Context,
    shard: ShardArgument,
    where: Annotated[str | None, typer.Option("--where", help="Filter in Spark SQL.")] = None,
    as_of: AsOf = None,
    per: Annotated[
        str | None,
        typer.Option("--by", help=f"Also by the time of writing, in UTC: {', '.join(BUCKETS)}."),
    ] = None,
    pushdown: Annotated[
        str | None,
        typer.Option("--pushdown", help="off: read everything; on: as the shard's mode allows."),
    ] = None,
    now: Annotated[
        str | None, typer.Option("--now", help="What now() means; default: the time of the call.")
    ] = None,
) -> Answer:
    """Count rows, by statistics where they prove the answer, else by reading."""
    check_pushdown(pushdown)
    clock = None if now is None else parse_time(now) * 1000
    with reading(context.stores, shard, context.settings.read, f"count-{who(None)}") as state:
        at = resolve_moment(context.stores, state, as_of)
        found = _counted(context, state, where, at, per, pushdown, clock)
    remark(_summary(found))
    if per is None:
        return answer(found.to_json(), f"{found.count}\n")
    lines = tuple(found.by_bucket.items())
    return answer(found.to_json(), Table(f"Rows by {per}", (per, "rows"), lines))


def _counted(
    context: Context,
    state: State,
    where: str | None,
    as_of: int | None,
    by: str | None,
    pushdown: str | None,
    now: int | None,
) -> Counted:
    filter, run = None if where is None else plain_or_none(state.relation, where, now), None
    with ExitStack() as spark:
        if where is not None and filter is None:
            from strata.cli.spark import counting

            filter, run = spark.enter_context(counting(context, state, where, by, now))
        found = count_rows(
            context.stores,
            state,
            filter=filter,
            as_of=as_of,
            by=by,
            pushdown=pushdown,
            run=run,
            settings=context.settings.read,
        )
    record_count(context.stores, state, found, filter, context.settings.usage, context.metrics)
    return found


def _summary(found: Counted) -> str:
    """Return one line about what an answer was made from."""
    plan = found.plan
    return (
        f"as of {shown_time(plan.as_of)}; mode {plan.mode};"
        f" {shown_count(found.parts_counted, 'part')} ({shown_bytes(found.bytes_counted)})"
        f" counted by their manifests,"
        f" {plan.parts_skipped:,} skipped, {plan.parts_fetched:,} read"
        f" ({shown_bytes(plan.bytes_fetched)})"
    )
