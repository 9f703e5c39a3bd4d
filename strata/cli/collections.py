"""Commands about logical shards: collection create, list, read."""

from pathlib import Path
from typing import Annotated

import typer

from strata.cli.command import command
from strata.cli.context import (
    Answer,
    Context,
    ShardArgument,
    answer,
    pairs,
    rows,
    who,
)
from strata.cli.reading import chosen_names, write_rows
from strata.machine.reader_hold import reading
from strata.model.time import format_time, parse_time
from strata.read.collections import (
    create_collections,
    figures,
    load_catalog,
    planned_collection,
    scan_collection,
)
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
    """Make collections; the first column of the shard's sort order tells them apart."""
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
            "name": one.name, "parts": one.parts, "bytes": one.size_bytes,
            "created": format_time(known[one.name].created_ms), "note": known[one.name].note,
        }
        for one in figures(context.stores, state)
    ]  # fmt: skip
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
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="Time of the snapshot; default: the newest.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Names, separated by commas; default: all.")
    ] = None,
    consolidate: Annotated[
        bool, typer.Option("--consolidate", help="Return each row once, with its count in d.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Parquet file to write.")] = None,
) -> Answer:
    """Read one collection; parts without rows of it are not touched."""
    with reading(context.stores, shard, context.settings.read, f"read-{who(None)}") as state:
        chosen = chosen_names(state, columns)
        at = None if as_of is None else parse_time(as_of)
        wanted = planned_collection(context.stores, state, name, as_of=at)
        batches = scan_collection(
            context.stores, state, wanted, columns=chosen, consolidate=consolidate
        )
        count = write_rows(batches, scan_schema(state.relation, chosen), out)
    document = {
        "collection": name, "rows": count, "as_of": wanted.plan.as_of,
        "parts_fetched": wanted.plan.parts_fetched, "parts_total": wanted.parts_total,
        "bytes_fetched": wanted.plan.bytes_fetched, "bytes_total": wanted.bytes_total,
        "out": None if out is None else str(out),
    }  # fmt: skip
    return answer(document)
