"""The command that takes in files that parts refer to: own."""

from typing import Annotated

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, ReasonOption, ShardArgument, answer
from strata.cli.tables import rows
from strata.maintain.own import referred_files, take_in


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "own", own, row="own")


def own(
    context: Context,
    shard: ShardArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the files that parts refer to.")
    ] = False,
    reason: ReasonOption = "",
) -> Answer:
    """Copy files of others that parts refer to into the store; then their owner may remove them."""
    context.machine.load(shard)
    stores = context.stores
    found = referred_files(stores.blob, shard) if dry_run else take_in(stores, shard)
    listed = [one.to_json() for one in found]
    size = sum(one.size_bytes for one in found)
    document = {"shard": shard, "files": listed, "bytes": size, "dry_run": dry_run}
    document |= {"reason": reason} if reason else {}
    title = f"files outside of {shard}" if dry_run else f"files of {shard} that were taken in"
    return answer(document, rows(title, listed, ("file", "size_bytes", "part")))
