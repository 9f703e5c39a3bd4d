"""The command that takes snapshots out of a shard: read."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from strata.audit.receipts import issue, write_receipt
from strata.cli.command import command
from strata.cli.completion import column_names
from strata.cli.context import (
    Answer,
    Context,
    ShardArgument,
    answer,
    who,
)
from strata.cli.output import FIRST, FORMATS, Output
from strata.cli.remarks import remark
from strata.cli.tables import Table, shown_bytes
from strata.cli.visible import shown_count, shown_time
from strata.decide.plan import check_pushdown, plan_read
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.history import usage
from strata.machine.reader_hold import reading
from strata.model.time import parse_time
from strata.plain.parse import plain_or_none
from strata.read.filtered import filtered_scan
from strata.read.moments import resolve_moment
from strata.read.scan import scan, scan_schema
from strata.rollout.obey import SKIPPING
from strata.state.state import State

AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", help="Time of the snapshot, a label or clock:WALLTIME; default: the newest."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", help="Names, separated by commas; default: all.", autocompletion=column_names
    ),
]
Consolidate = Annotated[
    bool, typer.Option("--consolidate", help="Return each row once, with its count in d.")
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help=f"{', '.join(FORMATS)}; default: a table, or as --out is named."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", min=0, help=f"At most this many rows; 0: all. Default: all, {FIRST} in a table."
    ),
]
Count = Annotated[bool, typer.Option("--count", help="Print only how many rows there are.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="File for the rows, all or nothing; else shown.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "read", read)


@dataclass(frozen=True)
class _Wanted:
    """Which snapshot, and how it is read."""

    as_of: int | None
    columns: list[str] | None
    consolidate: bool
    pushdown: str | None


def read(
    context: Context,
    shard: ShardArgument,
    where: Annotated[str | None, typer.Option("--where", help="Filter in Spark SQL.")] = None,
    as_of: AsOf = None,
    columns: Columns = None,
    format: FormatOption = None,
    limit: Limit = None,
    count: Count = False,
    out: Out = None,
    consolidate: Consolidate = False,
    pushdown: Annotated[
        str | None,
        typer.Option("--pushdown", help="off: fetch everything; on: as the shard's mode allows."),
    ] = None,
    now: Annotated[
        str | None, typer.Option("--now", help="What now() means; default: the time of the call.")
    ] = None,
    receipt: Annotated[
        Path | None,
        typer.Option(
            "--receipt", help="File to write the decision of --where to, for `strata replay`."
        ),
    ] = None,
) -> Answer:
    """Show the rows of a snapshot; with --where those that satisfy it."""
    output = Output(format, limit, count, out, context.as_json)
    check_pushdown(pushdown)
    if receipt is not None and where is None:
        raise InvalidRequest("a read without a filter decides nothing", cure="give --where")
    with reading(context.stores, shard, context.settings.read, f"read-{who(None)}") as state:
        at = resolve_moment(context.stores, state, as_of)
        wanted = _Wanted(at, chosen_names(state, columns), consolidate, pushdown)
        if where is None:
            return _read_all(context, state, wanted, output)
        clock = None if now is None else parse_time(now) * 1000
        filter = plain_or_none(state.relation, where, clock)
        if filter is not None:
            return _read_plain(context, state, filter, wanted, output, receipt)
        from strata.cli.spark import read_filtered

        plan, table = read_filtered(
            context,
            state,
            where,
            as_of=at,
            columns=wanted.columns,
            consolidate=consolidate,
            pushdown=pushdown,
            now=clock,
            receipt=receipt,
            rows_max=output.rows_max,
        )
    given = usage.emitted(table.to_batches(), context.metrics, shard)
    return _obeyed(_answer(output, plan, given, table.schema), plan, wanted, shard)


def _read_plain(
    context: Context,
    state: State,
    filter: Filter,
    wanted: _Wanted,
    output: Output,
    receipt: Path | None,
) -> Answer:
    """Return the answer of a read with a filter that needs no Spark."""
    plan = plan_read(
        context.stores, state, as_of=wanted.as_of, filter=filter, pushdown=wanted.pushdown
    )
    usage.record(context.stores, state, plan, filter, context.settings.usage, context.metrics)
    if receipt is not None:
        write_receipt(receipt, issue(context.stores, state, plan, filter))
    batches = filtered_scan(
        context.stores,
        state,
        plan,
        filter,
        columns=wanted.columns,
        consolidate=wanted.consolidate,
        settings=context.settings.read,
    )
    given = usage.emitted(batches, context.metrics, state.name)
    found = _answer(output, plan, given, scan_schema(state.relation, wanted.columns))
    return _obeyed(found, plan, wanted, state.name)


def _obeyed(found: Answer, plan: ReadPlan, wanted: _Wanted, shard: str) -> Answer:
    """Return an answer; say so if skipping was asked for and the shard's mode forbids it."""
    if wanted.pushdown == "on" and plan.mode not in SKIPPING:
        remark(f"{shard} is in mode {plan.mode}, which was obeyed: every part was fetched")
    return found


def _read_all(context: Context, state: State, wanted: _Wanted, output: Output) -> Answer:
    """Return the answer of a read without a filter."""
    plan = plan_read(context.stores, state, as_of=wanted.as_of, pushdown=wanted.pushdown)
    batches = scan(
        context.stores,
        state,
        plan,
        columns=wanted.columns,
        consolidate=wanted.consolidate,
        settings=context.settings.read,
    )
    given = usage.emitted(batches, context.metrics, state.name)
    return _answer(output, plan, given, scan_schema(state.relation, wanted.columns))


def _answer(
    output: Output, plan: ReadPlan, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Answer:
    """Write or show the rows of a plan, and return what is known of the read."""
    rows, shown, more = written(output, batches, schema)
    if output.shows_table:
        remark(_summary(plan, rows, more))
    return answer(_document(plan, rows, output.out), *shown)


def written(
    output: Output, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> tuple[int, list[Table | str], bool]:
    """Return how many rows were written or shown, what to show, and whether there are more."""
    if output.shows_table:
        table, more = output.table(batches, schema)
        return len(table.lines), [table], more
    rows = output.write(batches, schema)
    if output.count:
        return rows, [f"{rows}\n"], False
    return rows, [] if output.out is not None else [""], False


def _summary(plan: ReadPlan, rows: int, more: bool) -> str:
    """Return one line about a read that is shown as a table."""
    many = shown_count(rows, "row")
    shown = f"the first {many}, --limit 0 shows all" if more else many
    total = plan.parts_fetched + plan.parts_skipped
    skipped = f", {shown_bytes(plan.bytes_skipped)} skipped" if plan.parts_skipped else ""
    return (
        f"{shown}; as of {shown_time(plan.as_of)}; mode {plan.mode}; the plan has"
        f" {plan.parts_fetched:,} of {shown_count(total, 'part')},"
        f" {shown_bytes(plan.bytes_fetched)}{skipped}"
    )


def chosen_names(state: State, columns: str | None) -> list[str] | None:
    """Return the column names in an option, as the shard spells them; None without the option."""
    if columns is None:
        return None
    names = [name.strip() for name in columns.split(",") if name.strip()]
    return [state.relation.column(name).name for name in names]


def _document(plan: ReadPlan, rows: int, out: Path | None) -> dict[str, object]:
    return {
        "rows": rows,
        "parts_fetched": plan.parts_fetched,
        "parts_skipped": plan.parts_skipped,
        "bytes_fetched": plan.bytes_fetched,
        "bytes_skipped": plan.bytes_skipped,
        "as_of": plan.as_of,
        "mode": plan.mode,
        "monotonic": plan.monotonic,
        "out": None if out is None else str(out),
    }
