"""Commands about rejected rows: quarantine show, quarantine retry."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, ShardArgument, answer
from strata.cli.tables import rows
from strata.ingest.land.recode import encoding_said, shown_text
from strata.ingest.quarantine import rejected
from strata.ingest.retry import retry_rejected
from strata.model.charsets import UTF_8

Token = Annotated[
    str | None, typer.Option("--token", help="Only rows that are missing from this batch.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(help="Rows that ingest rejected.", no_args_is_help=True)
    command(group, "show", show)
    command(group, "retry", retry, row="quarantine retry")
    app.add_typer(group, name="quarantine")


def show(
    context: Context,
    shard: ShardArgument,
    token: Token = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many rows.")] = 20,
) -> Answer:
    """Show the rejected rows of a shard: the place, the error and the text of each."""
    total, shown = 0, list[dict[str, Any]]()
    for one in rejected(context.stores, shard, token):
        shown += [_shown(row) for row in one.rows[: max(limit - total, 0)]]
        total += len(one.rows)
    columns = ("token", "file", "line", "column_name", "value", "reason", "raw")
    document = {"shard": shard, "rows": total, "rejected": shown}
    title = f"{shard}: {min(limit, total)} of {total} rejected rows"
    return answer(document, rows(title, shown, columns))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its text for people; a forbidden byte is shown as it was in the file."""
    said, header = encoding_said(row["header"])
    text = shown_text(row["raw"], said or UTF_8)
    return {**row, "raw": text} if said is None else {**row, "raw": text, "header": header}


def retry(
    context: Context,
    shard: ShardArgument,
    token: Token = None,
) -> Answer:
    """Read rejected rows again, and ingest those that can be read now."""
    found = retry_rejected(context.stores, context.settings, shard, token)
    documents = [asdict(one) for one in found]
    columns = ("token", "rows", "taken", "reason")
    totals = {name: sum(one[name] for one in documents) for name in ("rows", "taken")}
    return answer({"shard": shard, **totals, "batches": documents}, rows(shard, documents, columns))
