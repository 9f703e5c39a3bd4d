"""The shape that all commands share: context in, answer out, and perhaps a row of history.

`command(app, "drop", drop, row="drop")` adds the options of all commands, --config and --json, and
prints the function's answer. A command that changes something names its `row`, which records the
answer; if the command fails, the row records the error. A command that changes nothing, such as a
dry run, leaves no row.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Final

import typer

from strata.cli.context import Answer, ConfigOption, Context, JsonOption
from strata.errors import InvalidRequest, StrataError
from strata.model.journals import EVERY_SHARD
from strata.store.keys import parse_key
from strata.store.open import wall_clock

Given = Mapping[str, Any]  # the arguments of a command, by name
Work = Callable[..., Answer]
_IDLE: Final = ("dry_run", "plan")  # options with which a command only says what it would do
_COMMON: Final = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option)
    for name, default, option in (("config", None, ConfigOption), ("json", False, JsonOption))
]


def command(
    app: typer.Typer,
    name: str,
    work: Work,
    *,
    row: str = "",
    idle: Callable[[Given], bool] | None = None,
    private: bool = False,
    about: str = "shard",
    **how: Any,
) -> None:
    """Add a command to an application.

    `work` takes the context first. `row` is the command's name in the history. `idle` takes the
    arguments and returns whether the command would change nothing. `private`: the history has none
    of its arguments, not even those that an error repeats. `about` is the argument with the shard
    that the command changes. `how` goes to Typer.
    """

    @wraps(work)
    def run(config: str | None = None, json: bool = False, **given: Any) -> None:
        context = Context(config, json)
        leaves = row and not any(given.get(n) for n in _IDLE) and not (idle and idle(given))
        noted = partial(_noted, row, private=private, about=about)
        answer = noted(context, work, given) if leaves else work(context, **given)
        answer.show(json)
        if answer.code:
            raise typer.Exit(answer.code)

    _, *own = inspect.signature(work, eval_str=True).parameters.values()
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + _COMMON
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    if row:
        # Tests check that no command lacks its row, and that what is idle changes nothing.
        run.__dict__["leaves_row"] = row
        run.__dict__["may_idle"] = idle is not None or any(p.name in _IDLE for p in own)
    app.command(name, **how)(run)


def _noted(
    row: str, context: Context, work: Work, given: Given, *, private: bool, about: str
) -> Answer:
    """Run a command, write its row of history, and return its answer."""
    began_ms = wall_clock()
    document: Given = {}
    code, error = 1, ""
    try:
        answer = work(context, **given)
        document, code = answer.document, answer.code
        return answer
    except StrataError as problem:
        said = problem.message if private else str(problem)
        code, error = problem.exit_code, f"{type(problem).__name__}: {said}"
        raise
    except Exception as problem:
        error = type(problem).__name__  # its text may hold values of rows
        raise
    finally:
        from strata.history.operations import note  # loads what plans and reads

        if "shards" not in document:
            document = {"shards": list(_shards(given, document, about))}
        with suppress(StrataError):  # a failure to record must not hide how the command ended
            note(
                context.stores,
                context.metrics,
                row,
                began_ms,
                document,
                code,
                by=given.get("by"),
                error=error,
                reason=given.get("reason") or "",
            )


def _shards(given: Given, document: Given, about: str) -> Iterator[dict[str, Any]]:
    """Yield a result for each shard that the command names."""
    named = given.get(about) or given.get("name") or given.get("shards")
    names = [named] if isinstance(named, str) else list(named or ())
    if given.get("keys"):
        with suppress(InvalidRequest):
            names = sorted({parse_key(key).shard for key in given["keys"]})
    for name in names or [EVERY_SHARD]:
        yield {**document, "shard": name}
