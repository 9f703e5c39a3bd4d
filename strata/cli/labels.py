"""Commands that name times of a shard: tag, tags, untag."""

from typing import Annotated, Final

import typer

from strata.cli.command import command
from strata.cli.completion import label_names
from strata.cli.context import Answer, Context, ReasonOption, ShardArgument, answer
from strata.cli.tables import rows
from strata.errors import InvalidRequest
from strata.model.near import one_of
from strata.state.labels import labels_of

COLUMNS: Final = ("label", "time", "at")
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "tag", tag, row="tag")
    command(app, "tags", tags)
    command(app, "untag", untag, row="untag")


def tag(
    context: Context,
    shard: ShardArgument,
    label: Annotated[
        str, typer.Argument(help="The name; reads take it as --as-of.", metavar="LABEL")
    ],
    at: Annotated[
        str | None,
        typer.Option(
            "--at", help="The time, another label, or clock:WALLTIME; default: the newest time."
        ),
    ] = None,
    dry_run: DryRun = False,
    reason: ReasonOption = "",
) -> Answer:
    """Give a time of a shard a name; it stays readable until `strata untag`."""
    found = context.shard(shard).tag(label, at=at, dry_run=dry_run)
    done = {"shard": shard, **found.to_json(), "dry_run": dry_run}
    return answer(done | {"reason": reason} if reason else done)


def tags(context: Context, shard: ShardArgument) -> Answer:
    """List the labels of a shard, and the times that they keep readable."""
    state = context.machine.load(shard)
    listed = [label.to_json() for label in labels_of(state)]
    document = {"shard": shard, "since": state.since, "labels": listed}
    return answer(document, rows(f"labels of {shard}", listed, COLUMNS))


def untag(
    context: Context,
    shard: ShardArgument,
    label: Annotated[
        str, typer.Argument(help="The label.", metavar="LABEL", autocompletion=label_names)
    ],
    dry_run: DryRun = False,
    reason: ReasonOption = "",
) -> Answer:
    """Take a label away; compaction may then merge the history up to the kept time."""
    there = context.shard(shard).tags()
    found = next((one for one in there if one.name == label), None)
    if found is None:
        cure = one_of(label, (one.name for one in there), none="there is none")
        raise InvalidRequest("no such label", shard=shard, label=label, cure=cure)
    if not dry_run:
        context.shard(shard).untag(label)
    done = {"shard": shard, **found.to_json(), "dry_run": dry_run}
    return answer(done | {"reason": reason} if reason else done)
