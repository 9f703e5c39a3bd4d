"""The command that shows shards to other engines: publish."""

from typing import Annotated, Any, Final

import typer

from strata.cli.command import Given, command
from strata.cli.context import Answer, Context, ShardArgument, answer
from strata.cli.tables import pairs, rows
from strata.errors import InvalidRequest
from strata.model.time import format_time
from strata.publish.follow import own_publication
from strata.state.holds import PUBLISHED

COLUMNS: Final = ("table", "hold", "readable_until", "state")


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "publish", publish, row="publish", idle=_only_lists)


def _only_lists(given: Given) -> bool:
    return not given.get("iceberg")


def publish(
    context: Context,
    shard: ShardArgument,
    iceberg: Annotated[
        bool, typer.Option("--iceberg", help="As an Iceberg table, with a snapshot of now.")
    ] = False,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="Folder of the table: file:///folder or s3://bucket/prefix. Default: "
            "[publish] iceberg, and the shard's name.",
        ),
    ] = "",
    catalog: Annotated[
        str,
        typer.Option(
            "--catalog",
            help="Catalog of PyIceberg's configuration, or sqlite:////file.db. "
            "Default: [publish] catalog, or a catalog of files in the folder.",
        ),
    ] = "",
    name: Annotated[
        str,
        typer.Option(
            "--as",
            help="NAMESPACE.TABLE in the catalog. Default: [publish] namespace, then SHARD.",
        ),
    ] = "",
    expire: Annotated[
        bool, typer.Option("--expire", help="Remove all snapshots but the newest now.")
    ] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="Remove the table and its metadata; parts stay.")
    ] = False,
) -> Answer:
    """Show a shard to other engines as an Iceberg table, without a copy; or list its tables.

    The table names the parts of the shard, which stay stored while it does. Others only read it.
    """
    if not iceberg:
        if to or catalog or name or expire or drop:
            raise InvalidRequest("as what is the shard published?", cure="--iceberg")
        return _listed(context, shard)
    publication = own_publication(
        context.stores, context.settings, shard, to=to, catalog=catalog, name=name
    )
    document = publication.drop() if drop else publication.publish(expire=expire).to_json()
    return answer(document, pairs("", document))


def _listed(context: Context, shard: str) -> Answer:
    state = context.machine.load(shard)
    found: list[dict[str, Any]] = [
        {
            "table": hold.opaque.removeprefix("iceberg "),
            "hold": hold.name,
            "readable_until": format_time(hold.expires_ms or 0),
            "state": hold.seqno,
        }
        for hold in state.holds
        if hold.name.startswith(PUBLISHED)
    ]
    return answer({"shard": shard, "tables": found}, rows("tables", found, COLUMNS))
