"""The command that lists what there is to read: whose it is, what is in it, how fresh it is."""

from typing import Annotated, Any, Final

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, SomeShards, answer
from strata.cli.tables import rows
from strata.model.journals import without_journals
from strata.model.time import MIN_TIME, format_time
from strata.state.state import State

LISTED: Final = (
    "shard",
    "owner",
    "tags",
    "complete_before",
    "updates",
    "bytes",
    "mode",
    "description",
)
COLUMNS: Final = ("shard", "column", "type", "null", "key")


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "catalog", catalog)


def catalog(
    context: Context,
    shards: SomeShards = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only with this tag; repeat for several.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only of this owner.")] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="List their columns and types instead.")
    ] = False,
) -> Answer:
    """List what there is to read: whose it is, what is in it, until when it is complete."""
    names = shards or without_journals(context.machine.names())
    wanted = {word.casefold() for word in tag or ()}
    found = [
        described(state)
        for state in map(context.machine.load, names)
        if wanted <= {word.casefold() for word in state.spec.about.tags}
        and (owner is None or owner.casefold() == state.spec.about.owner.casefold())
    ]
    document = {"shards": found}
    if columns:
        each = [{"shard": one["shard"], **column} for one in found for column in one["columns"]]
        return answer(document, rows("", each, COLUMNS))
    shown = [{**one, "tags": ", ".join(one["tags"])} for one in found]
    return answer(document, rows("", shown, LISTED))


def described(state: State) -> dict[str, Any]:
    """Return what a reader wants to know of a shard before the first read.

    Units: bytes of the stored parts; times in ISO 8601, None where there is none.
    """
    relation, about = state.relation, state.spec.about
    last = state.commits[-1].at_ms if state.commits else None
    return {
        "shard": state.name,
        "owner": about.owner,
        "description": about.description,
        "tags": list(about.tags),
        "columns": [
            {
                "column": column.name,
                "type": str(column.type),
                "null": column.nullable,
                "key": column.id in relation.key,
            }
            for column in relation.columns
        ],
        "readable_from": _time(state.since),
        "complete_before": _time(state.upper),
        "last_commit": None if not last else format_time(last),
        "updates": sum(batch.updates for batch in state.batches),
        "bytes": sum(batch.size_bytes for batch in state.batches),
        "mode": state.rollout.mode,
    }


def _time(value: int) -> str | None:
    return None if value == MIN_TIME else format_time(value)
