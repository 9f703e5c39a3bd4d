"""The command about holds: who keeps old states and times readable, and until when."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import typer

from strata.cli.command import Given, command
from strata.cli.context import Answer, Context, answer
from strata.cli.tables import rows
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.machine.reader_hold import PREFIX
from strata.model.journals import without_journals
from strata.model.near import one_of
from strata.model.time import format_time
from strata.state.holds import (
    CONSUMERS,
    LABEL,
    PUBLISHED,
    drop_expired,
    find_hold,
    hold,
    live_holds,
    release,
)
from strata.state.state import Hold, State

HOUR_MS: Final = 3_600_000
COLUMNS: Final = ("shard", "name", "kind", "alive", "since", "taken", "expires", "state")


@dataclass(frozen=True, slots=True)
class _Wish:
    """The hold to take or release, who asks, and why."""

    name: str
    owner: str | None
    reason: str


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    # An owner that takes or releases by its token does so routinely: it leaves no row of history.
    command(app, "holds", holds, row="release a hold", idle=_is_routine)


def _is_routine(given: Given) -> bool:
    return given.get("let_go") is None or not given.get("shards")


def holds(
    context: Context,
    shards: Annotated[
        list[str] | None,
        typer.Argument(help="Names of shards; default: all.", metavar="[SHARD]..."),
    ] = None,
    take: Annotated[
        str | None,
        typer.Option("--take", help="Name of a hold to take: what is stored now stays stored."),
    ] = None,
    hours: Annotated[int, typer.Option("--hours", min=1, help="How long to take it for.")] = 24,
    let_go: Annotated[
        str | None, typer.Option("--release", help="Name of a hold of SHARD to release.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner", help="The hold's opaque token; a live hold is released only with it."
        ),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; it stays in the history.")] = "",
) -> Answer:
    """List holds: what each keeps, since when and until when; or take one, or release one.

    Anybody may release an expired hold; a live one needs the token of its owner. With the token
    and without a SHARD, a hold is released on every shard that has it.
    """
    every = without_journals(context.machine.names())
    document: dict[str, Any] = {}
    _check_own(take, owner)
    _check_own(let_go, owner)
    if take is not None:
        _take(context.machine, shards or every, _Wish(take, owner, reason), hours)
        document = {"taken": take}
    if let_go is not None:
        wish = _Wish(let_go, owner, reason.strip())
        if shards:
            document |= {"shard": shards[0], "released": _release(context, shards, wish)}
        else:
            document |= {"released": _release_everywhere(context.machine, every, wish)}
        document["reason"] = reason
    listed = [one for name in shards or context.machine.names() for one in _listed(context, name)]
    return answer(document | {"holds": listed}, rows("holds", listed, COLUMNS))


def _check_own(name: str | None, owner: str | None) -> None:
    """Refuse to act for all readers who share a hold, though its token is no secret."""
    if name is not None and name.startswith(PREFIX) and owner is not None:
        raise InvalidRequest(
            "readers share this hold", hold=name, cure="wait until it expires, or choose a name"
        )


def _take(machine: Machine, shards: Sequence[str], wish: _Wish, hours: int) -> None:
    """Take a leased hold on each shard, or prolong it if the same owner has it.

    The hold keeps parts and states, not history: its time is the shard's upper.
    """
    if not wish.owner:
        raise InvalidRequest("a hold needs the token of its owner", hold=wish.name, cure="--owner")

    def move(state: State, now_ms: int) -> tuple[State, Hold]:
        return hold(
            state,
            now_ms,
            name=wish.name,
            since=state.upper,
            lease_ms=hours * HOUR_MS,
            owner=str(wish.owner),
        )

    for name in shards:
        machine.apply(name, move)


def _release(context: Context, shards: Sequence[str], wish: _Wish) -> str:
    """Release a hold of these shards and return its name."""
    if not wish.reason:
        raise InvalidRequest("releasing a hold needs a reason", hold=wish.name, cure="--reason")
    for shard in shards:
        found = find_hold(state := context.machine.load(shard), wish.name)
        if found is None:
            cure = one_of(wish.name, (h.name for h in state.holds), none="there is none")
            raise InvalidRequest("no such hold", shard=shard, hold=wish.name, cure=cure)
        if wish.owner is None:
            move = partial(drop_expired, name=wish.name)
        else:
            move = partial(release, name=wish.name, opaque=wish.owner)
        context.machine.apply(shard, move)
    return wish.name


def _release_everywhere(machine: Machine, shards: Sequence[str], wish: _Wish) -> str:
    """Release an owner's hold on every shard that has it, and return its name."""
    if wish.owner is None:
        raise InvalidRequest("a hold is released on one shard", hold=wish.name, cure="name it")
    for shard in shards:
        if find_hold(machine.load(shard), wish.name) is not None:
            machine.apply(shard, partial(release, name=wish.name, opaque=wish.owner))
    return wish.name


def _listed(context: Context, name: str) -> list[dict[str, Any]]:
    machine = context.machine
    state = machine.load(name)
    live = live_holds(state, machine.stores.clock())
    return [_entry(machine, state, found, found in live) for found in state.holds]


def _entry(machine: Machine, state: State, found: Hold, alive: bool) -> dict[str, Any]:
    """Return a hold as JSON; `taken` is the time of the state that it keeps, if any."""
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
        return "label" if found.name.startswith(LABEL) else "critical"
    if found.name.startswith(PUBLISHED):
        return "published"
    if found.name.startswith(CONSUMERS):
        return "consumer"
    return "shared" if found.name.startswith(PREFIX) else "leased"
