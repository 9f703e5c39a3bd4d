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
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer

from strata.cli.completion import shard_names
from strata.cli.remarks import remark
from strata.cli.tables import Table, pairs, write_tables
from strata.config.settings import load_settings, settings_file
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.model.settings import Settings, without_password
from strata.rollout.people import Person
from strata.rollout.policy import Policy, policy_of
from strata.store.local_file import is_absent
from strata.store.open import Stores, open_stores, store_user

if TYPE_CHECKING:
    from strata.shard import Shard

ConfigOption = Annotated[
    str | None,
    typer.Option("--config", help="Settings file (TOML); else $STRATA_CONFIG, else defaults."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
WhoOption = Annotated[
    str | None, typer.Option("--by", help="Who does this; default: the user of this machine.")
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it stays in the history.")]
ShardArgument = Annotated[
    str,
    typer.Argument(help="Name of the shard.", metavar="SHARD", autocompletion=shard_names),
]
SomeShards = Annotated[
    list[str] | None,
    typer.Argument(
        help="Names of shards; default: all.", metavar="[SHARD]…", autocompletion=shard_names
    ),
]

_SQLITE: Final = "sqlite:///"


@dataclass(frozen=True)
class Context:
    """The settings of one invocation and what they open."""

    config: str | None
    as_json: bool = False  # the answer is one JSON document

    @cached_property
    def settings(self) -> Settings:
        """Return the settings from the file and the environment."""
        return load_settings(self.config, os.environ)

    @property
    def settings_file(self) -> str:
        """Return the whole path of the settings file; empty without one."""
        return settings_file(self.config, os.environ)

    @cached_property
    def stores(self) -> Stores:
        """Return the opened stores; say so if nobody named them and there are none."""
        consensus = self.settings.store.consensus
        file = Path(consensus.removeprefix(_SQLITE))
        if not self.settings_file and consensus.startswith(_SQLITE) and is_absent(file):
            shown = without_password(consensus).removeprefix(_SQLITE)
            remark(
                f"no settings file was given; without one the store is {shown}, which is not there"
                " yet: --config or STRATA_CONFIG names another"
            )
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

    def shard(self, name: str) -> "Shard":
        """Return the shard called `name`; raises InvalidRequest when there is none."""
        from strata.shard import Shard  # takes half a second to load

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
        else:
            write_tables(self.shown or (pairs("", self.document),))


def answer(document: Mapping[str, Any], *shown: Table | str, code: int = 0) -> Answer:
    """Return the answer of a command."""
    return Answer(document, shown, code)
