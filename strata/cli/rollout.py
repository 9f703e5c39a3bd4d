"""Commands about the rollout of skipping: show, request, approve, reject, step-down, kill."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Final

import typer
from orjson import loads

from strata.audit.cost import SHARES
from strata.cli import policy
from strata.cli.command import command
from strata.cli.context import (
    Answer,
    Context,
    ReasonOption,
    ShardArgument,
    WhoOption,
    answer,
)
from strata.cli.rollout_tables import COST, rollout_tables
from strata.cli.tables import pairs
from strata.errors import InvalidRequest, StrataError
from strata.history.operations import recent
from strata.model.time import format_time
from strata.rollout import ladder
from strata.rollout.basis import basis_of
from strata.rollout.gates import bound_text, gates, next_mode
from strata.rollout.kill import kill_switch, release_id, throw
from strata.rollout.obey import mode_of, obeyed
from strata.rollout.people import Person
from strata.rollout.policy import THRESHOLDS, Policy, shown
from strata.rollout.pool import Pool, pool_of
from strata.state.state import RolloutEntry, State

PROCESSES: Final = (ladder.NOBODY, "validate", "create")  # no person may claim these names
LOOKED_THROUGH: Final = 200  # operations searched for the last validation


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    rollout = typer.Typer(
        help="Which shards may skip parts, since when, and on what evidence.", no_args_is_help=True
    )
    command(rollout, "show", show)
    command(rollout, "status", show, hidden=True)
    command(rollout, "request", request, row="rollout request")
    command(rollout, "approve", approve, row="rollout approve")
    command(rollout, "reject", reject, row="rollout reject")
    command(rollout, "step-down", step_down, row="rollout step-down")
    command(rollout, "kill", kill, row="rollout kill", idle=_only_shown)
    rollout.add_typer(policy.commands(), name="gates")
    app.add_typer(rollout, name="rollout")


def show(
    context: Context,
    shard: ShardArgument,
    among: Annotated[
        list[str] | None,
        typer.Option("--among", help="Say whether this person may answer; repeat for more."),
    ] = None,
) -> Answer:
    """Show mode, evidence, the gates of the next step, an open request, and the history."""
    return _answer(context, context.machine.load(shard), among or ())


def request(
    context: Context,
    shard: ShardArgument,
    reason: ReasonOption,
    to: Annotated[
        str | None, typer.Option("--to", help="soft, audit or on; default: the next mode.")
    ] = None,
    percent: Annotated[
        int | None,
        typer.Option("--percent", help="Share of skipped parts to audit. Default: 10; in on, 1."),
    ] = None,
    clear: Annotated[
        list[str] | None,
        typer.Option("--clear", help="A word of the quarantine to release; repeat, or `all`."),
    ] = None,
    pool: Annotated[
        bool,
        typer.Option(
            "--pool", help="Count evidence of other shards of the same class; for small shards."
        ),
    ] = False,
    by: WhoOption = None,
) -> Answer:
    """Ask for the next step up; somebody else has to approve it."""
    wanted = to or next_mode(context.machine.load(shard).rollout.mode) or "none"
    share = {"audit": 10, "on": 1}.get(wanted, 0) if percent is None else percent
    return _take(
        context, shard, ladder.ask, by, reason, to=wanted, percent=share, policy=context.policy,
        clear=clear or (), pool=_pool(context, shard) if pool else None,
    )  # fmt: skip


def approve(
    context: Context,
    shard: ShardArgument,
    reason: ReasonOption,
    request: Annotated[
        str, typer.Option("--request", help="The id of the request, as `rollout show` prints it.")
    ],
    by: WhoOption = None,
) -> Answer:
    """Take the step that somebody else asked for."""
    asked = context.machine.load(shard).rollout.request
    pool = _pool(context, shard) if asked is not None and asked.pooled else None
    return _take(
        context, shard, ladder.approve, by, reason, request=request, policy=context.policy,
        pool=pool,
    )  # fmt: skip


def reject(
    context: Context,
    shard: ShardArgument,
    reason: ReasonOption,
    request: Annotated[
        str | None,
        typer.Option("--request", help="The id of the request; default: the open one."),
    ] = None,
    by: WhoOption = None,
) -> Answer:
    """Refuse the step that was asked for."""
    return _take(context, shard, ladder.reject, by, reason, request=request)


def step_down(
    context: Context,
    shard: ShardArgument,
    reason: ReasonOption,
    to: Annotated[str, typer.Option("--to", help="off, soft or audit.")] = "off",
    by: WhoOption = None,
) -> Answer:
    """Step down at once, without an approval."""
    return _take(context, shard, ladder.step_down, by, reason, to=to)


def kill(
    context: Context,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why; required to move the switch.")
    ] = None,
    off: Annotated[
        bool,
        typer.Option("--off", help="Release the switch: shards skip again as their modes say."),
    ] = False,
    request: Annotated[
        str | None,
        typer.Option("--request", help="With --off: the id of the requested release."),
    ] = None,
    by: WhoOption = None,
) -> Answer:
    """Forbid skipping for every shard at once; without a reason, only show the switch.

    If the policy of the store requires two people for a release, the first --off requests it.
    """
    if reason is not None:
        person = context.person(by)
        # One person is enough to forbid skipping, even if the policy cannot be read.
        throw(
            context.stores, thrown=not off, who=person.name, user=person.user, reason=reason,
            policy=context.policy if off else None, request=request,
        )  # fmt: skip
    switch = kill_switch(context.stores)
    document = {
        **asdict(switch),
        "request": None if switch.asked is None else release_id(switch.asked),
        "at": format_time(switch.at_ms) if switch.at_ms else "",
        "setting": context.settings.rollout.kill,
    }
    return answer(document, pairs("kill switch", document))


def _only_shown(given: Mapping[str, Any]) -> bool:
    return given.get("reason") is None


def _pool(context: Context, shard: str) -> Pool:
    """Return the evidence of other shards. A shard that cannot be loaded now adds nothing."""
    states = []
    for name in context.machine.names():
        with suppress(StrataError):
            states.append(context.machine.load(name))
    return pool_of(context.machine.load(shard), states)


def _take(
    context: Context,
    shard: str,
    move: Callable[..., tuple[State, Any]],
    by: str | None,
    reason: str,
    **how: Any,
) -> Answer:
    """Let a person change the rollout of a shard, and show the result."""
    person = context.person(by)
    change = partial(move, who=person.name, user=person.user, reason=reason, **how)
    context.machine.apply(shard, change)
    return _answer(context, context.machine.load(shard))


def _answer(context: Context, state: State, among: Collection[str] = ()) -> Answer:
    rollout, seen = state.rollout, state.rollout.evidence
    to = next_mode(rollout.mode)
    pool = _pool(context, state.name)
    shared = pool if rollout.request is not None and rollout.request.pooled else None
    found = gates(rollout, to, context.policy, basis_of(state), shared) if to else ()
    document: dict[str, Any] = {
        "shard": state.name,
        "mode": rollout.mode,
        "obeyed": obeyed(context.stores, mode_of(state)),
        "audit_percent": rollout.audit_percent,
        "changed_at": format_time(rollout.changed_ms) if rollout.changed_ms else "",
        "changed_by": rollout.changed_by,
        "reason": rollout.reason,
        "quarantine": list(rollout.quarantine),
        "basis": rollout.basis,
        "code": basis_of(state),
        "next": to,
        "gates": [asdict(gate) for gate in found],
        "policy": shown(context.policy),
        "request": _asked(context, state, among),
        "evidence": {**asdict(seen), "bound": bound_text(seen)},
        "pool": {
            "shards": list(pool.shards),
            "parts": pool.evidence.parts,
            "lied": list(pool.lied),
            "counts": shared is not None,
        },
        "audit_cost": _last_cost(context, state.name),
        "history": [_line(entry, context.policy) for entry in reversed(rollout.entries)],
    }
    return answer(document, *rollout_tables(document))


def _asked(context: Context, state: State, among: Collection[str]) -> dict[str, Any] | None:
    """Return the open request, with the id that an approval must name.

    `may_answer` lists the people in `among` whose approval would not be refused for who they are.
    """
    asked = state.rollout.request
    if asked is None:
        return None
    by = Person(asked.by, asked.user)
    request = {
        "id": ladder.request_id(state.name, asked),
        **asdict(asked),
        "by_is": by.proof(context.policy.vouchers),
    }
    if among:
        request["may_answer"] = [name for name in among if _may_answer(context, name, by)]
    return request


def _may_answer(context: Context, name: str, asked: Person) -> bool:
    try:
        context.policy.check_approver(context.person(name), asked)
    except InvalidRequest:
        return False
    return True


def _last_cost(context: Context, shard: str) -> list[dict[str, Any]]:
    """Return the cost of audits of each share, from the last validation of the shard."""
    for one in recent(context.stores, shard, LOOKED_THROUGH):
        counts = loads(one.details)
        if one.what == "validate" and any(f"audit_parts_at_{s}" in counts for s in SHARES):
            return [
                {"percent": s, **{n: counts.get(f"audit_{n}_at_{s}") for n in COST[1:]}}
                for s in SHARES
            ]
    return []


def _line(entry: RolloutEntry, policy: Policy) -> dict[str, Any]:
    """Return a line of history, with how far each name in it can be believed."""
    by = Person(entry.by, entry.user).proof(policy.vouchers)
    asked = Person(entry.asked_by, entry.asked_user).proof(policy.vouchers)
    return {
        "at": format_time(entry.at_ms),
        **asdict(entry),
        "by_is": "" if entry.by in PROCESSES else by,
        "asked_by_is": asked if entry.asked_by else "",
        "gates": dict(zip(THRESHOLDS, entry.gates, strict=False)),
    }
