"""The `strata` command.

Exit codes: 0 done, 1 failed, 2 bad request, 3 mismatch found, 4 fenced or lost a race.

A command imports only its own module: the table below names it, so that the help, completion and
a misspelt command need none of them.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Final

import typer

from strata import __version__
from strata.cli.start import leave_pandas_out
from strata.cli.typed import finished_words, is_completion
from strata.errors import StrataError

HELP: Final = "Changelogs on object storage, with reads that skip only what is proven irrelevant."


@dataclass(frozen=True)
class CommandEntry:
    """A command or a group of commands: its module, and one line of help."""

    module: str
    help: str
    group: bool = False


# In the order of the help. A test compares each line with the command's own.
ENTRIES: Final[dict[str, CommandEntry]] = {
    "doctor": CommandEntry(
        "doctor",
        "Check Python, Java, PySpark, libraries and stores; exit 1 when something is wrong.",
    ),
    "demo": CommandEntry(
        "demo",
        "Make a folder with a shard of example orders, and say what to try on it. Needs no Java.",
    ),
    "settings": CommandEntry(
        "doctor",
        "Show every setting's value, and whether a file, a variable or the default sets it.",
    ),
    "shards": CommandEntry("listing", "List the shards with their sizes and modes."),
    "catalog": CommandEntry(
        "catalog",
        "List what there is to read: whose it is, what is in it, until when it is complete.",
    ),
    "create": CommandEntry(
        "shards", "Create a shard from its declaration; repeating it changes nothing."
    ),
    "apply": CommandEntry(
        "apply",
        "Make shards what their files declare; without --yes or --confirm only show the plan.",
    ),
    "inspect": CommandEntry(
        "shards", "Show a shard's frontiers, batches, runs, formats, statistics and mode."
    ),
    "history": CommandEntry(
        "shards",
        "Show the last operations on a shard, and what each of its last commits changed.",
    ),
    "drop": CommandEntry(
        "shards",
        "Drop a whole shard; a tombstone stays, garbage collection deletes the blobs later.",
    ),
    "ingest": CommandEntry(
        "ingest",
        "Commit files as one batch, exactly once; create a shard that is only declared so far.",
    ),
    "read": CommandEntry(
        "reading", "Show the rows of a snapshot; with --where those that satisfy it."
    ),
    "diff": CommandEntry(
        "diff",
        "Show the rows whose counts differ between two times, each with the difference in d.",
    ),
    "revert": CommandEntry(
        "diff",
        "Append the retraction of an interval, as if it had not been; a repeat changes nothing.",
    ),
    "count": CommandEntry(
        "counting", "Count rows, by statistics where they prove the answer, else by reading."
    ),
    "min": CommandEntry(
        "values", "Print the least value of a column, reading only parts that may hold it."
    ),
    "max": CommandEntry(
        "values", "Print the greatest value of a column, reading only parts that may hold it."
    ),
    "distinct": CommandEntry("values", "List the different values of a column, in their order."),
    "exists": CommandEntry(
        "values",
        "Say whether a row satisfies a filter: true or false; stop at the first that counts.",
    ),
    "changes": CommandEntry(
        "changes",
        "Show the updates of a stretch of time as they were written, retractions included.",
    ),
    "deliver": CommandEntry(
        "changes", "Hand a consumer the changes that it does not have yet, each exactly once."
    ),
    "consumers": CommandEntry(
        "changes", "List who follows the changes, and how far behind; or remove a consumer."
    ),
    "sums": CommandEntry(
        "sums",
        "Keep sums, counts, least and greatest values by groups in another shard, from changes.",
    ),
    "tag": CommandEntry(
        "labels", "Give a time of a shard a name; it stays readable until `strata untag`."
    ),
    "tags": CommandEntry(
        "labels", "List the labels of a shard, and the times that they keep readable."
    ),
    "untag": CommandEntry(
        "labels", "Take a label away; compaction may then merge the history up to the kept time."
    ),
    "together": CommandEntry(
        "together",
        "Print the newest time at which all these shards can be read, to be given as --as-of.",
    ),
    "explain": CommandEntry(
        "explain", "Say which parts a filter would skip, and what stops the proof for the others."
    ),
    "advise": CommandEntry(
        "advise",
        "Say what would have skipped more of the reads of late, measured, and what it costs.",
    ),
    "validate": CommandEntry(
        "filters",
        "Fetch what would be skipped and check it; on a mismatch set the mode back and exit 3.",
    ),
    "replay": CommandEntry(
        "filters",
        "Make the decision of a receipt again; exit 3 if it, or what was skipped, was wrong.",
    ),
    "ui": CommandEntry(
        "ui", "Show the console in a browser of this machine, until you press Ctrl-C."
    ),
    "report": CommandEntry(
        "ui", "Write everything about a shard as one page that needs no network."
    ),
    "compact": CommandEntry("maintain", "Merge the runs that are due; readers see the same rows."),
    "merges": CommandEntry(
        "maintain",
        "Show the merges under way and the last ones applied, with the cost of each.",
    ),
    "stats": CommandEntry("maintain", "Collect, trim and show statistics.", group=True),
    "schema": CommandEntry("schema", "Show and change the columns of a shard.", group=True),
    "collection": CommandEntry("collections", "Many small collections in one shard.", group=True),
    "gc": CommandEntry("gc", "Find and delete blobs that are no longer needed.", group=True),
    "publish": CommandEntry(
        "publish",
        "Show a shard to other engines as an Iceberg table, without a copy; or list its tables.",
    ),
    "adopt": CommandEntry(
        "adopt",
        "Take a table of Delta or Iceberg in, or what changed in it since the last time.",
    ),
    "backup": CommandEntry(
        "backup",
        "Add a point to a backup: all blobs that it lacks, and the states of the shards.",
    ),
    "backups": CommandEntry(
        "backup", "List the points of a backup, oldest first; with --drop remove some before."
    ),
    "restore": CommandEntry(
        "backup", "Bring shards back from a backup; each begins in mode soft at most."
    ),
    "verify": CommandEntry(
        "backup",
        "Read every blob that shards need and compare it with its name; exit 1 if one is wrong.",
    ),
    "erase": CommandEntry(
        "erase",
        "Erase rows for good, from all stored bytes; without --confirm only say what would go.",
    ),
    "erasures": CommandEntry("erase", "List the certificates of a shard's erasures, or show one."),
    "holds": CommandEntry(
        "holds",
        "List holds: what each keeps, since when and until when; or take one, or release one.",
    ),
    "rollout": CommandEntry(
        "rollout", "Which shards may skip parts, since when, and on what evidence.", group=True
    ),
    "quarantine": CommandEntry("quarantine", "Rows that ingest rejected.", group=True),
    "source": CommandEntry("source", "Whether incoming rows are trusted.", group=True),
}


def whole() -> typer.Typer:
    """Return the application with every command. Cost: imports the engine."""
    app = _empty()
    _add_modules(app, ENTRIES)
    return app


def application(words: Sequence[str]) -> typer.Typer:
    """Return the application for a command line: the named command, or a stub of each."""
    app = _empty()
    first = next((word for word in words if not word.startswith("-")), "")
    if first in ENTRIES:
        _add_modules(app, [first])
    else:
        for name, entry in ENTRIES.items():
            app.command(name, help=entry.help)(_stub(name))
    return app


def _empty() -> typer.Typer:
    app = typer.Typer(
        name="strata",
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=HELP)(_general)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"strata {__version__}\n")
        raise typer.Exit


def _general(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options of all commands."""


def _add_modules(app: typer.Typer, names: Iterable[str]) -> None:
    for module in dict.fromkeys(ENTRIES[name].module for name in names):
        import_module(f"strata.cli.{module}").register(app)


def _stub(name: str) -> Callable[[], None]:
    def stands_for() -> None:
        raise AssertionError(f"{name} was not loaded")

    return stands_for


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; turn errors into one clear line and an exit code."""
    words = finished_words() if argv is None and is_completion() else argv
    if argv is None and not {"--help", "--version"}.intersection(sys.argv) and sys.argv[1:]:
        leave_pandas_out()
    app = application(sys.argv[1:] if words is None else words)
    try:
        app(args=list(argv) if argv is not None else None)
    except StrataError as error:
        from strata.cli.visible import shown_error

        kind, _, rest = shown_error(error).partition(":")
        bold, plain = ("\x1b[1;31m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
        sys.stderr.write(f"{bold}{kind}{plain}:{rest}\n")
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main()
