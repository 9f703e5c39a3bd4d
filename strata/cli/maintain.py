"""Commands that keep a shard in shape: compact, stats backfill, stats trim, stats show."""

from typing import Annotated, Any

import typer

from strata.cli.context import ConfigOption, Context, JsonOption, ShardArgument, answer, pairs, rows
from strata.model.time import parse_time

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, change nothing.")]
FromTime = Annotated[str | None, typer.Option("--from", help="Batches at or after this time.")]
ToTime = Annotated[str | None, typer.Option("--to", help="Batches before this time.")]
