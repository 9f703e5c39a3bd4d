"""Commands that put updates into a shard and take snapshots out: ingest, read."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from strata.cli.command import command
from strata.cli.context import (
    Answer,
    Context,
    ShardArgument,
    answer,
    progress,
    who,
)
from strata.compact import pay_debt
from strata.config.shards import ensure_shards
from strata.decide.plan import check_pushdown, plan_read
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.history import usage
from strata.ingest.engine import ingest as ingest_files
from strata.machine.reader_hold import reading
from strata.model.runner import threads
from strata.model.time import parse_time
from strata.read.scan import scan, scan_schema
from strata.rollout.obey import SKIPPING
from strata.state.state import State

TASKS = 2  # threads that parse and encode files


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "ingest", ingest, row="ingest")
    command(app, "read", read)


def ingest(
    context: Context,
    shard: ShardArgument,
    sources: Annotated[
        list[str] | None,
        typer.Option("--from", help="File or folder; repeat for more. Default: as declared."),
    ] = None,
    lower: Annotated[
        str | None, typer.Option("--lower", help="Start of the interval, inclusive.")
    ] = None,
    upper: Annotated[
        str | None, typer.Option("--upper", help="End of the interval, exclusive.")
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", help="Name of this write; a repeat changes nothing.")
    ] = None,
    write_format: Annotated[
        str | None,
        typer.Option("--write-format", help="row, both or structured; default: as declared."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Ingest these files once more, although they are in.")
    ] = False,
) -> Answer:
    """Commit files as one batch, exactly once; create a shard that is only declared so far."""
    ensure_shards(context.machine, context.settings.shards_dir, [shard])
    with progress.status(f"ingesting into {shard}") if progress.is_terminal else nullcontext():
        report = ingest_files(
            context.stores,
            context.settings,
            shard,
            paths=sources or None,
            lower=None if lower is None else parse_time(lower),
            upper=None if upper is None else parse_time(upper),
            token=token,
            write_format=write_format,
            runner=threads(TASKS),
            again=again,
        )
        paid = pay_debt(context.stores, shard, context.settings, threads(TASKS))
    if paid is not None:
        runs = f"from {paid.runs_before:,} runs to {paid.runs_after:,}"
        progress.print(f"{shard}: too many runs waited to be merged; merged {runs}")
    if report.already_committed:
        progress.print(f"{shard}: this interval is already committed; nothing was changed")
    return answer(report.to_json())


def read(
    context: Context,
    shard: ShardArgument,
    where: Annotated[str | None, typer.Option("--where", help="Filter in Spark SQL.")] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="Time of the snapshot; default: the newest.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Names, separated by commas; default: all.")
    ] = None,
    consolidate: Annotated[
        bool, typer.Option("--consolidate", help="Return each row once, with its count in d.")
    ] = False,
    pushdown: Annotated[
        str | None,
        typer.Option("--pushdown", help="off: fetch everything; on: as the shard's mode allows."),
    ] = None,
    now: Annotated[
        str | None, typer.Option("--now", help="What now() means; default: the time of the call.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Parquet file to write.")] = None,
    receipt: Annotated[
        Path | None,
        typer.Option(
            "--receipt", help="File to write the decision of --where to, for `strata replay`."
        ),
    ] = None,
) -> Answer:
    """Read a snapshot; Spark evaluates a filter on the rows that are fetched."""
    check_pushdown(pushdown)
    if receipt is not None and where is None:
        raise InvalidRequest("a read without a filter decides nothing", cure="give --where")
    at = None if as_of is None else parse_time(as_of)
    with reading(context.stores, shard, context.settings.read, f"read-{who(None)}") as state:
        chosen = chosen_names(state, columns)
        if where is None:
            return answer(_read_all(context, state, at, chosen, consolidate, pushdown, out))
        from strata.cli.spark import read_filtered

        plan, table = read_filtered(
            context, state, where, as_of=at, columns=chosen, consolidate=consolidate,
            pushdown=pushdown, now=None if now is None else parse_time(now) * 1000,
            receipt=receipt,
        )  # fmt: skip
    given = usage.emitted(table.to_batches(), context.metrics, shard)
    rows = write_rows(given, table.schema, out)
    if pushdown == "on" and plan.mode not in SKIPPING:
        progress.print(f"{shard} is in mode {plan.mode}, which was obeyed: every part was fetched")
    return answer(_document(plan, rows, out))


def _read_all(
    context: Context,
    state: State,
    as_of: int | None,
    columns: list[str] | None,
    consolidate: bool,
    pushdown: str | None,
    out: Path | None,
) -> dict[str, object]:
    """Write the rows of a read without a filter to `out`, and return the answer."""
    plan = plan_read(context.stores, state, as_of=as_of, pushdown=pushdown)
    batches = scan(
        context.stores, state, plan, columns=columns, consolidate=consolidate,
        settings=context.settings.read,
    )  # fmt: skip
    given = usage.emitted(batches, context.metrics, state.name)
    return _document(plan, write_rows(given, scan_schema(state.relation, columns), out), out)


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


def write_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema, out: Path | None) -> int:
    """Write the batches to `out`, all or nothing, and return how many rows there were."""
    if out is None:
        return sum(batch.num_rows for batch in batches)
    rows = 0
    part = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        part.replace(out)
    except OSError as error:
        raise InvalidRequest("cannot write the output", file=str(out), reason=str(error)) from error
    finally:
        part.unlink(missing_ok=True)
    return rows
