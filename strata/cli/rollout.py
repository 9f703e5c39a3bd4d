"""Commands about the rollout of skipping: show, request, approve, reject, step-down, kill."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from strata.audit.standing import pool_among, standing
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
from strata.cli.rollout_tables import rollout_tables
from strata.cli.tables import pairs
from strata.model.time import format_time
from strata.rollout import ladder
from strata.rollout.gates import next_mode
from strata.rollout.kill import kill_switch, release_id, throw
from strata.state.state import State


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
        context,
        shard,
        ladder.ask,
        by,
        reason,
        to=wanted,
        percent=share,
        policy=context.policy,
        clear=clear or (),
        pool=pool_among(context.machine, shard) if pool else None,
    )


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
    pool = pool_among(context.machine, shard) if asked is not None and asked.pooled else None
    return _take(
        context,
        shard,
        ladder.approve,
        by,
        reason,
        request=request,
        policy=context.policy,
        pool=pool,
    )


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
            context.stores,
            thrown=not off,
            who=person.name,
            user=person.user,
            reason=reason,
            policy=context.policy if off else None,
            request=request,
        )
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
    people = [context.person(name) for name in among]
    document = standing(context.stores, context.policy, state, people)
    return answer(document, *rollout_tables(document))
