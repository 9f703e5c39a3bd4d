"""The `strata` command.

Exit codes: 0 done, 1 failed, 2 bad request, 3 mismatch found, 4 fenced or lost a race.

A command imports only its own module: the table below names it, so that the help, completion and
a misspelt command need none of them.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Annotated, Final

import typer

from strata import __version__
from strata.cli.entries import ENTRIES, PANELS
from strata.cli.start import (
    check_words,
    collect_seldom,
    end_orderly,
    error_without_file,
    leave_pandas_out,
    limit_reached,
    open_streams,
    without_output,
)
from strata.cli.typed import finished_words, is_completion
from strata.errors import StrataError

HELP: Final = "Changelogs on object storage, with reads that skip only what is proven irrelevant."


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
        for panel, names in PANELS.items():
            for name in names:
                app.command(name, help=ENTRIES[name].help, rich_help_panel=panel)(_stub(name))
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
    open_streams()
    if argv is None:
        collect_seldom()
        end_orderly()
    words = finished_words() if argv is None and is_completion() else argv
    if argv is None and not {"--help", "--version"}.intersection(sys.argv) and sys.argv[1:]:
        leave_pandas_out()
    words = sys.argv[1:] if words is None else words
    app = application(words)
    try:
        check_words(words)
        _run(app, argv)
    except StrataError as error:
        raise SystemExit(_say(error)) from None
    except OSError as error:
        limit = limit_reached(error)
        if limit is not None:
            raise SystemExit(_say(limit)) from None
        meant = error_without_file(error)
        if meant is None:
            raise
        without_output()
        raise SystemExit(_say(meant)) from None


def _run(app: typer.Typer, argv: Sequence[str] | None) -> None:
    """Run a command, and write what it printed: an output that fails at the exit has no words."""
    try:
        app(args=list(argv) if argv is not None else None)
    except SystemExit:
        sys.stdout.flush()
        raise


def _say(error: StrataError) -> int:
    """Print an error as one line, and return the exit code."""
    from strata.cli.visible import shown_error

    kind, _, rest = shown_error(error).partition(":")
    bold, plain = ("\x1b[1;31m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
    sys.stderr.write(f"{bold}{kind}{plain}:{rest}\n")
    return error.exit_code


if __name__ == "__main__":
    main()
