"""The command about holds: who keeps old states and times readable, and until when."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import typer

from strata.cli.context import ConfigOption, Context, JsonOption, answer, rows
from strata.cli.noted import noted
from strata.errors import InvalidRequest
from strata.hold import PREFIX
from strata.machine import Machine
from strata.model.time import format_time
from strata.state.holds import drop_expired, find_hold, live_holds, release
from strata.state.state import Hold, State

COLUMNS: Final = ("shard", "name", "kind", "alive", "since", "taken", "expires", "state")


@dataclass(frozen=True, slots=True)
class _Wish:
    """Which hold is to be given up, by whom, and why."""

    name: str
    owner: str | None
    reason: str


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    listing = noted("release a hold", idle=lambda given: given.get("let_go") is None)
    app.command("holds")(listing(holds))


def holds(
    shard: Annotated[
        str | None, typer.Argument(help="Name of a shard; none: all of them.", metavar="[SHARD]")
    ] = None,
    let_go: Annotated[
        str | None, typer.Option("--release", help="Name of a hold of SHARD to give up.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", help="Its opaque token, for one that lives: then it is yours."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; it stays in the history.")] = "",
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List holds: what each keeps, since when and until when; or give one up.

    One that has expired anybody may drop; one that lives needs the token of its owner.
    """
    context = Context(config)
    released = None
    if let_go is not None:
        if shard is None:
            raise InvalidRequest("a hold is released on one shard", hold=let_go, cure="name it")
        released = _release(context, shard, _Wish(let_go, owner, reason.strip()))
    names = context.machine.names() if shard is None else [shard]
    listed = [one for name in names for one in _listed(context.machine, name)]
    document: dict[str, Any] = {"holds": listed}
    if released is not None:
        document = {"shard": shard, "released": released, "reason": reason, **document}
    answer(document, json, rows("holds", listed, COLUMNS))


def _release(context: Context, shard: str, wish: _Wish) -> str:
    """Give a hold up and return its name."""
    if not wish.reason:
        raise InvalidRequest("releasing a hold needs a reason", hold=wish.name, cure="--reason")
    found = find_hold(state := context.machine.load(shard), wish.name)
    if found is None:
        known = ", ".join(h.name for h in state.holds) or "there is none"
        raise InvalidRequest("no such hold", shard=shard, hold=wish.name, cure=f"one of: {known}")
    if wish.owner is None:
        move = partial(drop_expired, name=wish.name)
    else:
        move = partial(release, name=wish.name, opaque=wish.owner)
    context.machine.apply(shard, move)
    return wish.name


def _listed(machine: Machine, name: str) -> list[dict[str, Any]]:
    state = machine.load(name)
    live = live_holds(state, machine.stores.clock())
    return [_entry(machine, state, found, found in live) for found in state.holds]


def _entry(machine: Machine, state: State, found: Hold, alive: bool) -> dict[str, Any]:
    """Return what is told of a hold; `taken` is when the state came that it keeps, if any."""
    kept = machine.at(state.name, found.seqno) if found.seqno else None
    return {
        "shard": state.name,
        "name": found.name,
        "kind": _kind(found),
        "alive": alive,
        "since": found.since,
        "taken": None if kept is None else format_time(kept.walltime_ms),
        "expires": None if found.expires_ms is None else format_time(found.expires_ms),
        "expires_ms": found.expires_ms,
        "state": found.seqno or None,
    }


def _kind(found: Hold) -> str:
    if found.expires_ms is None:
        return "critical"
    return "shared" if found.name.startswith(PREFIX) else "leased"
