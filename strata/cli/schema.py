"""Commands about a shard's columns: schema show, add, drop, rename, widen, sort."""

import json
from decimal import Decimal
from typing import Annotated, Any, Final

import typer

from strata.cli.command import command
from strata.cli.completion import column_name
from strata.cli.context import Answer, Context, ShardArgument, answer
from strata.cli.tables import pairs, rows
from strata.config.filters import load_filters
from strata.errors import InvalidRequest
from strata.format.encodings import encoding
from strata.maintain.schema import change_schema, describe_schema
from strata.model.types import ColumnType, parse_type
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, SortBy, WidenColumn

COLUMNS: Final = ("id", "name", "type", "nullable", "default", "role")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, change nothing.")]
Expect = Annotated[
    int | None,
    typer.Option("--expect", help="Change only if the relation still has this version.", min=0),
]
Force = Annotated[
    bool, typer.Option("--force", help="Also when registered filters use the column.")
]
NameArgument = Annotated[
    str, typer.Argument(help="Name of the column.", metavar="COLUMN", autocompletion=column_name)
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    schema = typer.Typer(help="Show and change the columns of a shard.", no_args_is_help=True)
    command(schema, "show", show)
    for change in (add, drop, rename, widen, sort):
        command(schema, change.__name__, change, row=f"schema {change.__name__}")
    app.add_typer(schema, name="schema")


def show(context: Context, shard: ShardArgument) -> Answer:
    """Show the columns, the dropped columns, and what each version changed."""
    document = describe_schema(context.machine.load(shard))
    versions = [{**v, "changes": "; ".join(v["changes"])} for v in document["versions"]]
    names = ("source",) if any("source" in column for column in document["columns"]) else ()
    return answer(
        document,
        pairs(shard, document),
        rows("columns", [*document["columns"], *document["dropped"]], (*COLUMNS, *names)),
        rows("versions", versions, ("version", "parts", "changes")),
    )


def add(
    context: Context,
    shard: ShardArgument,
    column: NameArgument,
    type: Annotated[str, typer.Argument(help="As in a declaration: int32, numeric(10,2), ...")],
    default: Annotated[
        str | None,
        typer.Option("--default", help="Value of the column in existing rows; else null."),
    ] = None,
    not_null: Annotated[bool, typer.Option("--not-null", help="Refuse null.")] = False,
    key: Annotated[bool, typer.Option("--key", help="Not possible: prints why.")] = False,
    dry_run: DryRun = False,
    expect: Expect = None,
) -> Answer:
    """Add a value column; stored parts are not rewritten."""
    kind = parse_type(type)
    value = None if default is None else _default(default, kind)
    change = AddColumn(column, kind, not not_null, value, key)
    return _change(context, shard, change, dry_run=dry_run, expect=expect)


def drop(
    context: Context,
    shard: ShardArgument,
    column: NameArgument,
    force: Force = False,
    dry_run: DryRun = False,
    expect: Expect = None,
) -> Answer:
    """Drop a value column: readers no longer see it, and compaction leaves it out."""
    change = DropColumn(column)
    return _change(context, shard, change, dry_run=dry_run, expect=expect, force=force)


def rename(
    context: Context,
    shard: ShardArgument,
    column: NameArgument,
    to: Annotated[str, typer.Argument(help="The new name.")],
    force: Force = False,
    dry_run: DryRun = False,
    expect: Expect = None,
) -> Answer:
    """Give a column another name; it stays the same column."""
    change = RenameColumn(column, to)
    return _change(context, shard, change, dry_run=dry_run, expect=expect, force=force)


def widen(
    context: Context,
    shard: ShardArgument,
    column: NameArgument,
    type: Annotated[str | None, typer.Argument(help="A type that holds every value.")] = None,
    null: Annotated[bool, typer.Option("--null", help="Allow null from now on.")] = False,
    dry_run: DryRun = False,
    expect: Expect = None,
) -> Answer:
    """Give a column a wider type, or allow null in it."""
    change = WidenColumn(column, None if type is None else parse_type(type), null or None)
    return _change(context, shard, change, dry_run=dry_run, expect=expect)


def sort(
    context: Context,
    shard: ShardArgument,
    columns: Annotated[
        list[str] | None,
        typer.Argument(help="Columns to sort by first; default: the order of the key."),
    ] = None,
    dry_run: DryRun = False,
    expect: Expect = None,
) -> Answer:
    """Sort by other columns from now on; `strata compact --migrate` rewrites stored parts."""
    change = SortBy(tuple(columns or ()))
    return _change(context, shard, change, dry_run=dry_run, expect=expect)


def _default(text: str, kind: ColumnType) -> Any:
    """Return the JSON value of a typed default; texts need no quotes.

    Raises: InvalidRequest.
    """
    if encoding(kind).quoted:
        return text
    try:
        return json.loads(text, parse_float=_exact, object_pairs_hook=_once)
    except InvalidRequest:
        raise
    except ValueError as error:
        raise InvalidRequest(
            "a default of this type is written as JSON",
            type=str(kind),
            value=text,
            cure="""as in 5, true, '"text"' or '[1, 2]'""",
        ) from error


def _exact(text: str) -> float:
    """Return a number. Raises: InvalidRequest for one that is not the shortest of its float64."""
    value = float(text)
    if Decimal(repr(value)) != Decimal(text):
        raise InvalidRequest(
            "this number has no equal among the numbers of 64 bits",
            value=text,
            nearest=value,
            cure="the nearest one; in a numeric the number as a text",
        )
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises: InvalidRequest for a key that stands twice in it."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidRequest("a key stands twice in this default", keys=[key for key, _ in pairs])
    return found


def _change(
    context: Context,
    shard: str,
    change: Change,
    *,
    dry_run: bool,
    expect: int | None,
    force: bool = False,
) -> Answer:
    done = change_schema(
        context.machine,
        shard,
        change,
        expected_version=expect,
        dry_run=dry_run,
        force=force,
        filters=load_filters(context.settings.filters_dir, shard),
    )
    document = done.to_json()
    return answer(document, pairs(shard, document), rows("columns", document["columns"], COLUMNS))
