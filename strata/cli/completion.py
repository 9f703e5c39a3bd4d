"""What a shell proposes for a half-typed word: names of shards, of their columns and labels."""

import os
from collections.abc import Iterable
from contextlib import suppress

import typer

from strata.cli.typed import finished_words
from strata.config.settings import load_settings
from strata.errors import StrataError
from strata.machine.machine import Machine
from strata.model.journals import is_journal
from strata.state.labels import labels_of
from strata.state.state import State
from strata.store.open import open_stores


def shard_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the shards whose name begins with what is typed; none if the stores fail."""
    names: Iterable[str] = ()
    with suppress(StrataError, OSError):
        names = _machine(ctx).names()
    wanted = [name for name in names if name.startswith(incomplete)]
    return [name for name in wanted if incomplete or not is_journal(name)]


def column_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the typed list of columns with each name that can stand last in it."""
    before, comma, last = incomplete.rpartition(",")
    chosen = before.split(",")
    return [
        f"{before}{comma}{name}"
        for name in _columns(ctx)
        if name.startswith(last) and name not in chosen
    ]


def column_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns whose name begins with what is typed."""
    return [name for name in _columns(ctx) if name.startswith(incomplete)]


def label_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the labels whose name begins with what is typed."""
    state = _state(ctx)
    names = () if state is None else (label.name for label in labels_of(state))
    return [name for name in names if name.startswith(incomplete)]


def _columns(ctx: typer.Context) -> list[str]:
    state = _state(ctx)
    return [] if state is None else list(state.relation.by_name)


def _state(ctx: typer.Context) -> State | None:
    """Return the state of the shard on the line, which Click parses after an open option."""
    with suppress(StrataError, OSError):
        machine = _machine(ctx)
        given = [ctx.params.get("shard"), *finished_words()]
        names = set(machine.names()).intersection(filter(None, given))
        return machine.load(names.pop()) if len(names) == 1 else None
    return None


def _machine(ctx: typer.Context) -> Machine:
    return Machine(open_stores(load_settings(ctx.params.get("config"), os.environ).store))
