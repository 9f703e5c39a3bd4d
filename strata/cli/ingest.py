"""The command that puts files into a shard: ingest."""

from typing import Annotated, Final

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, ShardArgument, answer
from strata.cli.remarks import busy, remark
from strata.cli.visible import shown_count
from strata.compact import pay_debt
from strata.config.shards import ensure_shards
from strata.ingest.engine import ingest as ingest_files
from strata.model.runner import threads
from strata.model.time import parse_time

TASKS: Final = 2  # threads that parse and encode files


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "ingest", ingest, row="ingest")


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
    empty: Annotated[
        bool, typer.Option("--empty", help="Close the interval although no file came for it.")
    ] = False,
) -> Answer:
    """Commit files as one batch, exactly once; create a shard that is only declared so far."""
    ensure_shards(context.machine, context.settings.shards_dir, [shard], remark)
    with busy(f"ingesting into {shard}"):
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
            empty=empty,
        )
        paid = pay_debt(context.stores, shard, context.settings, threads(TASKS))
    if paid is not None:
        runs = f"from {paid.runs_before:,} runs to {paid.runs_after:,}"
        remark(f"{shard}: too many runs waited to be merged; merged {runs}")
    if report.already_committed:
        before = report.counts.taken_before
        known = f"{shown_count(before, 'file')} taken in before; once more: --again"
        why = known if before else "this interval is already committed"
        remark(f"{shard}: nothing was changed: {why}")
    return answer(report.to_json())
