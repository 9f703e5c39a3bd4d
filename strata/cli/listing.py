"""The command `strata shards`, which loads nothing that plans or reads: people type it often."""

from typing import Annotated

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, answer
from strata.cli.tables import rows
from strata.model.journals import is_journal
from strata.state.described import summarise


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "shards", list_shards)


def list_shards(
    context: Context,
    journals: Annotated[
        bool, typer.Option("--journals", help="Also the shards that Strata writes about itself.")
    ] = False,
    declared: Annotated[
        bool,
        typer.Option("--declared", help="Only those declared in shards_dir, as ingest uses them."),
    ] = False,
) -> Answer:
    """List the shards with their sizes and modes."""
    machine = context.machine
    names = [name for name in machine.names() if journals or not is_journal(name)]
    there = set(names)
    if declared:
        from strata.config.shards import declared_shards  # loads what reads declarations

        names = sorted(declared_shards(context.settings.shards_dir))
    documents = [
        summarise(machine.load(name)) if name in there else {"shard": name, "bytes": 0}
        for name in names
    ]
    columns = ("shard", "since", "upper", "runs", "parts", "updates", "bytes", "mode")
    return answer({"shards": documents}, rows("shards", documents, columns))
