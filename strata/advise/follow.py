"""Change a declaration and bring stored parts along, by the functions behind the commands."""

from collections.abc import Callable, Sequence
from functools import partial

from strata.compact import compact_shard
from strata.errors import StrataError
from strata.history import usage
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.declare import StoredStep, check_statistics
from strata.maintain.trim import trim_shard
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.model.spec import ShardSpec
from strata.state.declare import Follow, redeclare
from strata.state.state import State
from strata.store.open import Stores

Log = Callable[[str], None]


def bring_along(
    stores: Stores, settings: Settings, shard: str, step: StoredStep, runner: Runner = serial
) -> None:
    """Run one command by which stored parts follow a declaration.

    Raises: as the function behind the command.
    """
    if step.follow in (Follow.MIGRATE, Follow.MERGE):
        compact_shard(
            stores,
            shard,
            settings,
            runner,
            migrate=step.follow == Follow.MIGRATE,
            full=step.follow == Follow.MERGE,
        )
    elif step.follow == Follow.TRIM:
        trim_shard(stores, shard, log=settings.usage, runner=runner)
    else:
        known = usage.recent(stores, shard, settings.usage)
        backfill_shard(
            stores, shard, step.selection, runner=runner, usefulness=usage.usefulness(known, {})
        )


def bring_all_along(
    stores: Stores,
    settings: Settings,
    steps: Sequence[tuple[str, StoredStep]],
    *,
    runner: Runner = serial,
    log: Callable[[StoredStep], None] = lambda _: None,
) -> None:
    """Run commands by which stored parts of shards follow; `log` gets each before it runs.

    Raises: as `bring_along`; the error names the commands that are left. The declarations are what
    was asked for by then, so the same request again finds nothing to do.
    """
    for number, (shard, step) in enumerate(steps):
        log(step)
        try:
            bring_along(stores, settings, shard, step, runner)
        except StrataError as error:
            error.details["left_to_run"] = "; ".join(one.command for _, one in steps[number:])
            raise


def carry_out(  # noqa: PLR0913  what, where, and how
    stores: Stores,
    settings: Settings,
    state: State,
    spec: ShardSpec,
    steps: tuple[StoredStep, ...],
    *,
    runner: Runner = serial,
    log: Log = lambda _: None,
) -> None:
    """Give a shard another declaration, then bring its stored parts along.

    `state` is the state that was looked at. `log` gets a line for each step.
    Raises: as `redeclare` and `bring_all_along`; InvalidRequest for statistics that do not fit.
    """
    check_statistics(spec, state.relation)
    Machine(stores).apply(state.name, partial(redeclare, asked=spec, seen=state.spec))
    bring_all_along(
        stores,
        settings,
        [(state.name, step) for step in steps],
        runner=runner,
        log=lambda step: log(f"{step.command}: {step.parts:,} parts"),
    )
