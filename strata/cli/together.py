"""The command that finds one time for several shards: together."""

from typing import Annotated

import typer

from strata.cli.command import command
from strata.cli.completion import shard_names
from strata.cli.context import Answer, Context, answer
from strata.model.time import format_time
from strata.read.together import common_moment


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "together", together)


def together(
    context: Context,
    shards: Annotated[
        list[str],
        typer.Argument(help="Names of shards.", metavar="SHARD...", autocompletion=shard_names),
    ],
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            help="Time, label or clock:2026-11-20T10:00, for all of them. Default: the newest.",
        ),
    ] = None,
) -> Answer:
    """Print one time at which all these shards can be read, to be given as --as-of."""
    states = [context.machine.load(name) for name in shards]
    at = common_moment(context.stores, states, as_of)
    each = [{"shard": s.name, "since": s.since, "upper": s.upper} for s in states]
    moment = format_time(at)
    return answer({"as_of": at, "at": moment, "shards": each}, f"{moment}\n")
