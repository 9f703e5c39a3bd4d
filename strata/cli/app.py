"""The `strata` command.

Exit codes: 0 done, 1 failed, 2 bad request, 3 mismatch found, 4 fenced or lost a race.
"""

import sys
from collections.abc import Sequence

import typer
from rich.console import Console

from strata.cli import (
    backup,
    collections,
    doctor,
    erase,
    filters,
    gc,
    holds,
    maintain,
    quarantine,
    reading,
    rollout,
    schema,
    shards,
    source,
)
from strata.errors import StrataError

app = typer.Typer(
    name="strata",
    help="Changelogs on object storage, with reads that skip only what is proven irrelevant.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
doctor.register(app)
shards.register(app)
reading.register(app)
filters.register(app)
maintain.register(app)
schema.register(app)
collections.register(app)
gc.register(app)
backup.register(app)
erase.register(app)
holds.register(app)
rollout.register(app)
quarantine.register(app)
source.register(app)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; turn errors into one clear line and an exit code."""
    try:
        app(args=list(argv) if argv is not None else None)
    except StrataError as error:
        kind = type(error).__name__
        Console(stderr=True, soft_wrap=True).print(f"[bold red]{kind}[/]: ", end="")
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main()
