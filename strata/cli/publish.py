"""The command that shows shards to other engines: publish."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from strata.cli.command import Given, command
from strata.cli.context import Answer, Context, ShardArgument, answer
from strata.cli.tables import pairs, rows
from strata.errors import InvalidRequest
from strata.model.extras import needed
from strata.model.time import format_time
from strata.publish.follow import DAY_MS, table_address
from strata.state.holds import PUBLISHED

if TYPE_CHECKING:
    from strata.publish.iceberg import Publication

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
            "Default: a catalog of files in the folder.",
        ),
    ] = "",
    name: Annotated[
        str, typer.Option("--as", help="NAMESPACE.TABLE in the catalog; default: strata.SHARD.")
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
    if name and not catalog:
        raise InvalidRequest("a catalog of files has no names", name=name, cure="--catalog")
    with needed("iceberg", "a publication as Iceberg"):
        publication = _publication(context, shard, to, catalog, name or f"strata.{shard}")
        if drop:
            document = publication.drop()
        else:
            document = publication.publish(expire=expire).to_json()
    return answer(document, pairs("", document))


def _publication(context: Context, shard: str, to: str, catalog: str, name: str) -> "Publication":
    from strata.publish.catalogs import FilesTable, catalog_table
    from strata.publish.iceberg import Publication
    from strata.publish.place import open_folder

    settings = context.settings
    place = open_folder(to or table_address(settings, shard))
    table = catalog_table(place, catalog, name) if catalog else FilesTable(place)
    keep_ms = settings.publish.keep_days * DAY_MS
    return Publication(context.stores, shard, place, table, keep_ms)


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
