"""One row of history for each command that changes something, whether it ends well or badly.

A command is wrapped where it is registered: `app.command("drop")(noted("drop")(drop))`. What it
answers is what the row tells of; a command that fails leaves a row with the error. What changes
nothing, a dry run for instance, leaves none.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, Final

import typer

from strata.cli.context import answered
from strata.config.settings import load_settings
from strata.errors import InvalidRequest, StrataError
from strata.history.metrics import Metrics
from strata.history.operations import EVERY_SHARD, note
from strata.store.keys import parse_key
from strata.store.open import open_stores, wall_clock

Given = Mapping[str, Any]  # the arguments of a command, by name
Command = Callable[..., None]
_IDLE: Final = ("dry_run", "plan")  # options with which a command only tells what it would do


def noted(
    what: str, *, idle: Callable[[Given], bool] | None = None
) -> Callable[[Command], Command]:
    """Return what makes a command leave a row named `what`; `idle`: it would change nothing."""

    def wrap(command: Command) -> Command:
        @wraps(command)
        def run(*args: Any, **given: Any) -> None:
            if any(given.get(name) for name in _IDLE) or (idle is not None and idle(given)):
                command(*args, **given)
                return
            _run(what, command, given)

        run.__dict__["leaves_row"] = what  # for the test that no command was forgotten
        return run

    return wrap


def _run(what: str, command: Command, given: Given) -> None:
    began_ms = wall_clock()
    document: dict[str, Any] = {}
    code, error = 1, ""
    before = answered.set(document)
    try:
        command(**given)
        code = 0
    except StrataError as problem:
        code, error = problem.exit_code, f"{type(problem).__name__}: {problem}"
        raise
    except typer.Exit as left:
        code = left.exit_code
        raise
    except Exception as problem:
        error = type(problem).__name__  # its text may hold values of rows
        raise
    finally:
        answered.reset(before)
        _note(what, began_ms, given, document, code, error)


def _note(what: str, began_ms: int, given: Given, document: Given, code: int, error: str) -> None:
    told = dict(document) if "shards" in document else {"shards": list(_shards(given, document))}
    with suppress(StrataError):  # the command has ended, however it did
        settings = load_settings(given.get("config"), os.environ)
        metrics = Metrics(settings.metrics.statsd, settings.metrics.otlp)
        note(
            open_stores(settings.store), metrics, what, began_ms, told, code,
            by=given.get("by"), error=error, reason=given.get("reason") or "",
        )  # fmt: skip


def _shards(given: Given, document: Given) -> Iterator[dict[str, Any]]:
    """Yield a result for each shard that the command was about; all of them have one name."""
    named = given.get("shard") or given.get("name") or given.get("shards")
    names = [named] if isinstance(named, str) else list(named or ())
    if given.get("keys"):
        with suppress(InvalidRequest):
            names = sorted({parse_key(key).shard for key in given["keys"]})
    for name in names or [EVERY_SHARD]:
        yield {**document, "shard": name}
