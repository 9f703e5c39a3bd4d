"""Commands about logical shards: collection create, list, read."""

from typing import Annotated

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, ShardArgument, answer, who
from strata.cli.output import Output
from strata.cli.reading import (
    AsOf,
    Columns,
    Consolidate,
    Count,
    FormatOption,
    Limit,
    Out,
    chosen_names,
    written,
)
from strata.cli.remarks import remark
from strata.cli.tables import pairs, rows
from strata.cli.visible import shown_count
from strata.machine.reader_hold import reading
from strata.model.time import format_time
from strata.read.collections import (
    create_collections,
    figures,
    load_catalog,
    planned_collection,
    scan_collection,
)
from strata.read.moments import resolve_moment
from strata.read.scan import scan_schema

COLUMNS = ("name", "parts", "bytes", "created", "note")
Name = Annotated[str, typer.Argument(help="Name of the collection.", metavar="COLLECTION")]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(help="Many small collections in one shard.", no_args_is_help=True)
    command(group, "create", create, row="collection create")
    command(group, "list", show)
    command(group, "read", read)
    app.add_typer(group, name="collection")


def create(
    context: Context,
    shard: ShardArgument,
    names: Annotated[list[str], typer.Argument(help="Names of the new collections.")],
    note: Annotated[str, typer.Option("--note", help="A line for people.")] = "",
) -> Answer:
    """Make collections; they differ in the first column of the shard's sort order."""
    catalog = create_collections(context.machine, shard, names, note)
    state = context.machine.load(shard)
    document = {
        "shard": shard,
        "column": state.relation.by_id[catalog.column].name,
        "collections": len(catalog.collections),
        "names": list(names),
    }
    return answer(document, pairs(shard, document))


def show(context: Context, shard: ShardArgument) -> Answer:
    """List a shard's collections, with the parts and bytes that a read of each touches."""
    state = context.machine.load(shard)
    catalog = load_catalog(context.stores, state)
    known = catalog.by_name if catalog else {}
    listed = [
        {
            "name": one.name,
            "parts": one.parts,
            "bytes": one.size_bytes,
            "created": format_time(known[one.name].created_ms),
            "note": known[one.name].note,
        }
        for one in figures(context.stores, state)
    ]
    document = {
        "shard": shard,
        "column": state.relation.by_id[catalog.column].name if catalog else None,
        "parts": sum(batch.parts for batch in state.batches),
        "collections": listed,
    }
    return answer(document, pairs(shard, document), rows("collections", listed, COLUMNS))


def read(
    context: Context,
    shard: ShardArgument,
    name: Name,
    as_of: AsOf = None,
    columns: Columns = None,
    format: FormatOption = None,
    limit: Limit = None,
    count: Count = False,
    out: Out = None,
    consolidate: Consolidate = False,
) -> Answer:
    """Show the rows of one collection; parts without rows of it are not touched."""
    output = Output(format, limit, count, out, context.as_json)
    with reading(context.stores, shard, context.settings.read, f"read-{who(None)}") as state:
        chosen = chosen_names(state, columns)
        at = resolve_moment(context.stores, state, as_of)
        wanted = planned_collection(context.stores, state, name, as_of=at)
        batches = scan_collection(
            context.stores, state, wanted, columns=chosen, consolidate=consolidate
        )
        found, shown, _ = written(output, batches, scan_schema(state.relation, chosen))
    document = {
        "collection": name,
        "rows": found,
        "as_of": wanted.plan.as_of,
        "parts_fetched": wanted.plan.parts_fetched,
        "parts_total": wanted.parts_total,
        "bytes_fetched": wanted.plan.bytes_fetched,
        "bytes_total": wanted.bytes_total,
        "out": None if out is None else str(out),
    }
    if output.shows_table:
        remark(
            f"{shown_count(found, 'row')} of {name}, from {wanted.plan.parts_fetched} of"
            f" {shown_count(wanted.parts_total, 'part')}"
        )
    return answer(document, *shown)
