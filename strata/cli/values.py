"""The commands that answer with values of a column, or whether there is a row: min, max, ..."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any

import pyarrow as pa
import typer

from strata.cli.command import command
from strata.cli.completion import column_name
from strata.cli.context import Answer, Context, ShardArgument, answer, who
from strata.cli.output import Output
from strata.cli.reading import AsOf
from strata.cli.remarks import remark
from strata.cli.tables import shown_bytes
from strata.cli.visible import shown_count, shown_time
from strata.decide.plan import check_pushdown
from strata.expr.filter import Filter
from strata.format.values.beyond import python_values
from strata.history.usage import record, record_count
from strata.machine.reader_hold import reading
from strata.model.shown import as_json_value, visible
from strata.model.time import parse_time
from strata.plain.parse import plain_or_none
from strata.read.count import FilterRun, any_row
from strata.read.moments import resolve_moment
from strata.read.values import ValuesFound, ValueSource, distinct_values, extreme_value
from strata.state.state import State

ColumnArgument = Annotated[
    str, typer.Argument(help="Name of the column.", metavar="COLUMN", autocompletion=column_name)
]
Where = Annotated[str | None, typer.Option("--where", help="Filter in Spark SQL.")]
Pushdown = Annotated[
    str | None,
    typer.Option("--pushdown", help="off: read everything; on: as the shard's mode allows."),
]
Now = Annotated[
    str | None, typer.Option("--now", help="What now() means; default: the time of the call.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "min", least)
    command(app, "max", greatest)
    command(app, "distinct", distinct)
    command(app, "exists", exists)


def least(
    context: Context,
    shard: ShardArgument,
    column: ColumnArgument,
    where: Where = None,
    as_of: AsOf = None,
    pushdown: Pushdown = None,
    now: Now = None,
) -> Answer:
    """Print the least value of a column, reading only parts that may hold it."""
    asked = _Asked(where, as_of, pushdown, now)
    return _extreme(context, shard, column, asked, greatest=False)


def greatest(
    context: Context,
    shard: ShardArgument,
    column: ColumnArgument,
    where: Where = None,
    as_of: AsOf = None,
    pushdown: Pushdown = None,
    now: Now = None,
) -> Answer:
    """Print the greatest value of a column, reading only parts that may hold it."""
    asked = _Asked(where, as_of, pushdown, now)
    return _extreme(context, shard, column, asked, greatest=True)


def distinct(
    context: Context,
    shard: ShardArgument,
    column: ColumnArgument,
    where: Where = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="At most this many; a remark says if more exist.")
    ] = 100,
    as_of: AsOf = None,
    pushdown: Pushdown = None,
    now: Now = None,
) -> Answer:
    """List the different values of a column, in their order."""
    asked = _Asked(where, as_of, pushdown, now)
    found = asked.values(
        context,
        shard,
        lambda state, options: distinct_values(
            context.stores, state, column, limit=limit, **options
        ),
        column,
    )
    if not found.complete:
        remark(f"there are more than {limit:,} values; --limit shows more of them")
    batch = pa.record_batch([found.values], names=[column])
    table, _ = Output(limit=0).table(iter([batch]), batch.schema)
    document = {"values": list(map(as_json_value, python_values(found.values)))}
    return answer(document | found.to_json(), table)


def exists(
    context: Context,
    shard: ShardArgument,
    where: Where = None,
    as_of: AsOf = None,
    pushdown: Pushdown = None,
    now: Now = None,
) -> Answer:
    """Say whether a row satisfies a filter: true or false; stop at the first that counts."""
    asked = _Asked(where, as_of, pushdown, now)
    with asked.state(context, shard) as state, ExitStack() as spark:
        filter, run = asked.plain(state), None
        if where is not None and filter is None:
            from strata.cli.spark import counting

            filter, run = spark.enter_context(counting(context, state, where, None, asked.clock))
        there, found = _any_row(context, state, filter, run, asked)
    plan = found.plan
    remark(
        f"as of {shown_time(plan.as_of)}; mode {plan.mode};"
        f" {shown_count(plan.parts_fetched, 'part')} read ({shown_bytes(plan.bytes_fetched)})"
    )
    document = found.to_json()
    del document["count"]  # of what was read
    return answer({"exists": there} | document, f"{str(there).lower()}\n")


def _any_row(
    context: Context,
    state: State,
    filter: Filter | None,
    run: FilterRun | None,
    asked: "_Asked",
) -> tuple[bool, Any]:
    there, found = any_row(
        context.stores,
        state,
        filter=filter,
        as_of=resolve_moment(context.stores, state, asked.as_of),
        pushdown=asked.pushdown,
        run=run,
        settings=context.settings.read,
    )
    record_count(context.stores, state, found, filter, context.settings.usage, context.metrics)
    return there, found


def _extreme(
    context: Context, shard: str, column: str, asked: "_Asked", *, greatest: bool
) -> Answer:
    found = asked.values(
        context,
        shard,
        lambda state, options: extreme_value(
            context.stores, state, column, greatest=greatest, **options
        ),
        column,
    )
    value = as_json_value(found.value)
    shown = "null" if value is None else visible(str(value))
    return answer({"value": value} | found.to_json(), f"{shown}\n")


@dataclass(frozen=True)
class _Asked:
    """The rows that are meant."""

    where: str | None
    as_of: str | None
    pushdown: str | None
    now: str | None

    def __post_init__(self) -> None:
        check_pushdown(self.pushdown)

    @property
    def clock(self) -> int | None:
        return None if self.now is None else parse_time(self.now) * 1000

    def state(self, context: Context, shard: str) -> Any:
        """Return the newest state, held while the block runs."""
        return reading(context.stores, shard, context.settings.read, f"values-{who(None)}")

    def plain(self, state: State) -> Filter | None:
        """Return the filter if it is plain."""
        if self.where is None:
            return None
        return plain_or_none(state.relation, self.where, self.clock)

    def values(
        self,
        context: Context,
        shard: str,
        find: Callable[[State, dict[str, Any]], ValuesFound],
        column: str,
    ) -> ValuesFound:
        """Return what is found, logged, with a remark on what was read."""
        with self.state(context, shard) as state, ExitStack() as spark:
            filter = self.plain(state)
            source: ValueSource | None = None
            if self.where is not None and filter is None:
                from strata.cli.spark import finding

                found_by = finding(context, state, self.where, column, self.clock)
                filter, source = spark.enter_context(found_by)
            found = find(
                state,
                {
                    "filter": filter,
                    "as_of": resolve_moment(context.stores, state, self.as_of),
                    "pushdown": self.pushdown,
                    "source": source,
                    "settings": context.settings.read,
                },
            )
            usage = context.settings.usage
            record(context.stores, state, found.plan, found.filter, usage, context.metrics)
        plan = found.plan
        remark(
            f"as of {shown_time(plan.as_of)}; mode {plan.mode};"
            f" {shown_count(found.parts_read, 'part')} read ({shown_bytes(found.bytes_read)})"
            f" of {plan.parts_total:,}"
        )
        return found
