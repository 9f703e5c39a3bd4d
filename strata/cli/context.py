"""What every command needs: settings, stores, the machine, and one way to answer.

A command's answer is one JSON document. With `--json` it is printed unchanged, otherwise as a
short table. Answers go to standard output, everything else to standard error.
Tables and lines show text as it was written: no part of it is markup, and what a terminal would
obey or hide is spelled out.
"""

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final

import orjson
import typer
from rich.console import Console
from rich.table import Table

from strata.config.settings import load_settings
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.model.shown import visible
from strata.model.time import MIN_TIME, format_time
from strata.rollout.people import Person
from strata.rollout.policy import Policy, policy_of
from strata.shard import Shard
from strata.store.open import Stores, open_stores, store_user

ConfigOption = Annotated[
    str | None,
    typer.Option("--config", help="Settings file (TOML); else $STRATA_CONFIG, else defaults."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
WhoOption = Annotated[
    str | None, typer.Option("--by", help="Who does this; default: the user of this machine.")
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it stays in the history.")]
ShardArgument = Annotated[str, typer.Argument(help="Name of the shard.", metavar="SHARD")]

# Names and reasons may look like Rich's markup: "[red]" would vanish, "[/x]" would be an error.
progress = Console(stderr=True, markup=False, emoji=False)

TIMES: Final = frozenset({"since", "upper", "lower", "as_of"})  # names of times in documents


@dataclass(frozen=True)
class Context:
    """The settings of one invocation and what they open."""

    config: str | None

    @cached_property
    def settings(self) -> Settings:
        """Return the settings from the file and the environment."""
        return load_settings(self.config, os.environ)

    @cached_property
    def stores(self) -> Stores:
        """Return the opened stores."""
        return open_stores(self.settings.store)

    @cached_property
    def metrics(self) -> Metrics:
        """Return the client that sends figures to monitoring."""
        return Metrics(self.settings.metrics)

    @cached_property
    def policy(self) -> Policy:
        """Return the conditions of steps: the policy of the store, tightened by the settings."""
        return policy_of(self.stores, self.settings.rollout)

    def person(self, by: str | None) -> Person:
        """Return who does this: the database's user where it has users, else the claimed name."""
        user = store_user(self.stores)
        return Person(by or os.environ.get("STRATA_USER") or user or who(None), user)

    @cached_property
    def machine(self) -> Machine:
        """Return the machine on these stores."""
        return Machine(self.stores)

    def shard(self, name: str) -> Shard:
        """Return the shard called `name`; raises InvalidRequest when there is none."""
        return Shard(self.stores, name, self.settings.read)


def who(by: str | None) -> str:
    """Return the person who does this: as given, or $STRATA_USER, or this machine's user."""
    try:
        return by or os.environ.get("STRATA_USER") or getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return ""


@dataclass(frozen=True)
class Answer:
    """A command's answer: a document, how people see it, and the exit code."""

    document: Mapping[str, Any]
    shown: Sequence[Table | str] = ()  # empty: the plain entries of the document
    code: int = 0

    def show(self, as_json: bool) -> None:
        """Print it."""
        if as_json:
            sys.stdout.write(orjson.dumps(self.document, default=str).decode() + "\n")
            return
        console = Console(markup=False, emoji=False)
        for one in self.shown or (pairs("", self.document),):
            if isinstance(one, str):
                sys.stdout.write(visible(one, lines=True))
            else:
                console.print(one)


def answer(document: Mapping[str, Any], *shown: Table | str, code: int = 0) -> Answer:
    """Return the answer of a command."""
    return Answer(document, shown, code)


def pairs(title: str, document: Mapping[str, Any]) -> Table:
    """Return a table of the plain entries of a document."""
    table = Table(title=visible(title) or None, show_header=False)
    for key, value in document.items():
        if not isinstance(value, list | dict):
            table.add_row(visible(key), cell(value, key))
    return table


def rows(title: str, items: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    """Return a table with a line for each item and the named columns."""
    table = Table(*columns, title=visible(title))
    for item in items:
        table.add_row(*(cell(item.get(column), column) for column in columns))
    return table


def cell(value: object, name: str = "") -> str:
    r"""Return a value as people read it in a table; a column named in `TIMES` holds times.

    >>> cell(1234.5), cell(None), cell("[red]\x1b[2J")
    ('1,234.500', '', '[red]\\u001b[2J')
    """
    if name in TIMES and isinstance(value, int):
        return "the beginning" if value == MIN_TIME else format_time(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else visible(str(value), lines=True)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
