"""Commands about the source of a shard: source show, source release."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from strata.cli.command import command
from strata.cli.context import (
    Answer,
    Context,
    ReasonOption,
    ShardArgument,
    WhoOption,
    answer,
    who,
)
from strata.cli.tables import pairs
from strata.errors import InvalidRequest
from strata.model.time import format_time
from strata.state.source import release as released
from strata.state.state import State


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(help="Whether incoming rows are trusted.", no_args_is_help=True)
    command(group, "show", show)
    command(group, "release", release, row="source release")
    app.add_typer(group, name="source")


def show(context: Context, shard: ShardArgument) -> Answer:
    """Show how incoming rows are verified, and what has stopped ingest, if anything."""
    document = _document(context.machine.load(shard))
    ingest = context.settings.ingest
    document |= {
        "days": ingest.verify_days,
        "percent": ingest.verify_percent,
        "rows": ingest.verify_rows,
    }
    return answer(document, pairs(shard, document))


def release(
    context: Context,
    shard: ShardArgument,
    reason: ReasonOption,
    seen: Annotated[
        str | None,
        typer.Option(
            "--token", help="Release only if this batch tripped it, as `source show` prints."
        ),
    ] = None,
    by: WhoOption = None,
) -> Answer:
    """Let ingest continue after a value that would have been stored wrong; keep the reason."""
    if not reason.strip():
        raise InvalidRequest("a reason is needed", cure="--reason TEXT; it stays in the history")
    state = context.machine.load(shard)
    if seen is not None and (state.tripped is None or state.tripped.token != seen):
        raise InvalidRequest(
            "another batch has tripped the source",
            shard=shard,
            token=seen,
            tripped_by=None if state.tripped is None else state.tripped.token,
            cure=f"look at it first: strata source show {shard}",
        )
    found = context.machine.apply(shard, released)
    document = {"shard": shard, "released": asdict(found), "by": who(by), "reason": reason}
    return answer(document, pairs(shard, document))


def _document(state: State) -> dict[str, Any]:
    began = 0 if state.consumed is None else state.consumed.began_ms
    return {
        "shard": state.name,
        "verify": state.spec.source.verify,
        "began": format_time(began) if began else None,
        "tripped": None if state.tripped is None else asdict(state.tripped),
    }
