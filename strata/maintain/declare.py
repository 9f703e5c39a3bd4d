"""Plan and apply declarations: compare files with shards, and say how stored parts follow.

The rules are in `strata.state.declare`. A plan with a refused line changes nothing, and what is
applied is what was planned: a shard that was redeclared meanwhile is a conflict.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from shlex import quote
from typing import Any, Final, Literal

import orjson

from strata.config.filters import RegisteredFilter, uses_column
from strata.config.shards import Declaration
from strata.errors import Conflict, InvalidRequest
from strata.machine.machine import Machine
from strata.maintain.exchange import Selection
from strata.model.journals import check_not_journal
from strata.model.schema import Relation
from strata.model.spec import ShardSpec
from strata.state.declare import (
    Comparison,
    Effect,
    Follow,
    Line,
    check_allowed,
    compared_with,
    redeclare,
    settings_of,
)
from strata.state.schema import DropColumn
from strata.state.state import Batch, State
from strata.stats.members import check_members
from strata.stats.pairs import check_pairs
from strata.stats.protected import check_budget

Action = Literal["create", "change", "nothing", "refused"]
Check = Callable[[ShardSpec, Relation], None]  # raises InvalidRequest for what cannot be ingested

_ORDER: Final = (Follow.MIGRATE, Follow.COLLECT, Follow.ADD, Follow.TRIM)
_WEIGHED: Final = ("stats.budget_bytes", "stats.keep", "order", "columns")
_WILD: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class StoredStep:
    """One command by which stored parts follow the declaration. Units: bytes."""

    follow: Follow
    command: str
    parts: int
    size_bytes: int  # rewritten, or read at most; of a trim: of the statistics
    selection: Selection | None = None  # of a backfill


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What becomes of one shard."""

    declaration: Declaration
    action: Action
    lines: tuple[Line, ...]
    then: tuple[StoredStep, ...] = ()
    seen: ShardSpec | None = None  # the declaration in the store; None: there is no shard

    @property
    def shard(self) -> str:
        """Return the shard's name."""
        return self.declaration.spec.name

    @property
    def differences(self) -> tuple[Line, ...]:
        """Return the lines of settings that change, or may not."""
        return tuple(line for line in self.lines if line.differs)

    def to_json(self) -> dict[str, Any]:
        """Return the plan of one shard in the document of `strata apply --json`."""
        return {
            "shard": self.shard,
            "file": self.declaration.file,
            "action": self.action,
            "kept": sum(not line.differs for line in self.lines),
            "lines": [
                {
                    "setting": line.setting,
                    "before": line.before,
                    "after": line.after,
                    "effect": line.effect.value,
                    "note": line.note,
                    "cure": line.cure,
                }
                for line in self.lines
            ],
            "then": [
                {
                    "follow": step.follow.value,
                    "command": step.command,
                    "parts": step.parts,
                    "bytes": step.size_bytes,
                }
                for step in self.then
            ],
        }


def plan_declarations(
    machine: Machine,
    declarations: Iterable[Declaration],
    *,
    check: Check,
    filters: Sequence[RegisteredFilter] = (),
) -> list[ShardPlan]:
    """Return what becomes of each declared shard, by name.

    `check` refuses declarations that cannot be ingested. `filters` are the registered filters: a
    column that one of them names may not go.
    Cost: loads the state of each shard.
    """
    there = set(machine.names(dropped=True))
    return [
        plan_one(
            declaration,
            machine.load(declaration.spec.name, dropped=True)
            if declaration.spec.name in there
            else None,
            check=check,
            filters=[one for one in filters if one.shard == declaration.spec.name],
        )
        for declaration in sorted(declarations, key=lambda one: one.spec.name)
    ]


def plan_one(
    declaration: Declaration,
    state: State | None,
    *,
    check: Check,
    filters: Sequence[RegisteredFilter] = (),
) -> ShardPlan:
    """Return what becomes of one shard; `state` None: it does not exist."""
    spec = declaration.spec
    if state is None:
        lines = [Line(n, None, v, Effect.AT_ONCE) for n, v in settings_of(spec).items()]
        lines += _unfit(spec, spec.relation(), check, weigh=True)
        return _plan(declaration, "create", lines)
    if state.dropped is not None:
        gone = Line(
            "name",
            None,
            spec.name,
            Effect.REFUSED,
            "a shard of this name was dropped",
            f"`strata create {spec.name} --spec {declaration.file} --revive` starts it empty",
        )
        return _plan(declaration, "refused", [gone])
    found = compared_with(state, spec)
    lines = [_used(line, filters) for line in found.lines]
    if found.differences:
        weigh = any(line.setting.startswith(_WEIGHED) for line in found.differences)
        relation = found.relations[-1] if found.relations else state.relation
        lines += _unfit(found.spec, relation, check, weigh=weigh)
    plan = _plan(declaration, "change" if found.differences else "nothing", lines, state.spec)
    return plan if plan.action != "change" else replace(plan, then=stored_steps(state, found))


def _plan(
    declaration: Declaration, action: Action, lines: Sequence[Line], seen: ShardSpec | None = None
) -> ShardPlan:
    if any(line.effect == Effect.REFUSED for line in lines):
        action = "refused"
    return ShardPlan(declaration, action, tuple(lines), seen=seen)


def _used(line: Line, filters: Sequence[RegisteredFilter]) -> Line:
    """Return the line, refused if it takes a column from a registered filter."""
    if not isinstance(line.change, DropColumn):
        return line
    column = line.change.name
    using = [one.name for one in filters if uses_column(one, column)]
    if not using:
        return line
    return replace(
        line,
        effect=Effect.REFUSED,
        note=f"registered filters use it: {', '.join(using)}",
        cure="change or remove them first",
    )


def check_statistics(spec: ShardSpec, relation: Relation) -> None:
    """Refuse statistics that no column has, or that the budget may not hold.

    Raises: InvalidRequest.
    """
    check_members(relation, spec.stats, spec.name)
    check_pairs(relation, spec.stats, spec.name)
    check_budget(spec)


def _unfit(spec: ShardSpec, relation: Relation, check: Check, *, weigh: bool) -> list[Line]:
    """Return a refused line for each check that the whole declaration fails."""
    lines = []
    checks: list[Callable[[], None]] = [
        partial(check, spec, relation),
        partial(check_members, relation, spec.stats, spec.name),
        partial(check_pairs, relation, spec.stats, spec.name),
    ]
    if weigh:
        checks.append(partial(check_budget, spec))
    values = settings_of(spec)
    for one in checks:
        try:
            one()
        except InvalidRequest as error:
            setting = str(error.details.get("setting") or error.details.get("column") or "")
            known = {k: v for k, v in error.details.items() if k not in ("shard", "setting")}
            said = "".join(f", {name} {value}" for name, value in known.items())
            lines.append(
                Line(
                    setting,
                    None,
                    values.get(setting),
                    Effect.REFUSED,
                    error.message + said,
                    error.cure or "",
                )
            )
    return lines


def stored_steps(state: State, found: Comparison) -> tuple[StoredStep, ...]:
    """Return the commands by which the stored parts of a shard follow a change."""
    follows = {line.follow for line in found.differences if line.follow is not None}
    resorted = any(line.setting == "order" for line in found.differences)
    if Follow.MIGRATE in follows and resorted:
        follows = {Follow.MIGRATE}  # it rewrites each part, with statistics as they are declared
    if Follow.COLLECT in follows:
        follows -= {Follow.ADD}  # what is collected again lacks nothing
    relation = found.relations[-1] if found.relations else state.relation
    batches = [batch for batch in state.batches if batch.manifest]
    steps = []
    for follow in (one for one in _ORDER if one in follows):
        some = batches
        if follow == Follow.MIGRATE:
            some = [b for b in batches if _is_behind(b, relation, found.spec.write_format)]
        parts = sum(batch.parts for batch in some)
        size = sum(b.stats_bytes if follow == Follow.TRIM else b.size_bytes for b in some)
        selection = _selection(follow, found)
        steps.append(
            StoredStep(follow, _command(state.name, follow, selection), parts, size, selection)
        )
    return tuple(step for step in steps if step.parts)


def _is_behind(batch: Batch, relation: Relation, write_format: str) -> bool:
    return any(run.order != relation.sort_ids for run in batch.runs) or any(
        layout != write_format for layout, _ in batch.layouts
    )


def _selection(follow: Follow, found: Comparison) -> Selection | None:
    """Return what a backfill collects: only the columns that the keep list names, if that is all.

    Sets and bloom filters that are declared are collected wherever they lack.
    """
    if follow == Follow.ADD:
        return Selection()
    if follow != Follow.COLLECT:
        return None
    again = Selection(again=True)
    reasons = [line for line in found.differences if line.follow in (Follow.COLLECT, Follow.ADD)]
    if [line.setting for line in reasons] != ["stats.keep"]:
        return again
    before, after = reasons[0].before, reasons[0].after
    assert isinstance(before, list)
    assert isinstance(after, list)
    first = [pattern.partition(".")[0] for pattern in after if pattern not in before]
    names = {column.name for column in found.spec.columns}
    if any(_WILD.intersection(name) or name not in names for name in first):
        return again
    return replace(again, columns=tuple(dict.fromkeys(first)))


def _command(shard: str, follow: Follow, selection: Selection | None) -> str:
    if follow == Follow.MIGRATE:
        return f"strata compact {shard} --migrate"
    if follow == Follow.TRIM or selection is None:
        return f"strata stats trim {shard}"
    columns = f" --columns {quote(','.join(selection.columns))}" if selection.columns else ""
    return f"strata stats backfill {shard}{' --again' if selection.again else ''}{columns}"


def plan_code(plans: Sequence[ShardPlan]) -> str:
    """Return a code for these plans: of equal ones the same, of others another."""
    facts = [
        [
            plan.shard,
            plan.action,
            None if plan.seen is None else settings_of(plan.seen),
            [[line.setting, line.after, line.effect] for line in plan.differences],
        ]
        for plan in plans
    ]
    return hashlib.blake2b(orjson.dumps(facts, default=str), digest_size=4).hexdigest()


def takes_away(plans: Sequence[ShardPlan]) -> list[str]:
    """Return the columns that readers no longer see after these plans, with their shards."""
    return [
        f"{plan.shard}.{line.change.name}"
        for plan in plans
        for line in plan.lines
        if isinstance(line.change, DropColumn)
    ]


def apply_plans(machine: Machine, plans: Sequence[ShardPlan]) -> None:
    """Create and redeclare the shards of these plans, one commit each; all or none are allowed.

    Raises: InvalidRequest when a line is refused, before anything is changed; Conflict when a shard
    was made or redeclared after it was planned. A repetition completes what was interrupted.
    """
    for plan in plans:
        check_not_journal(plan.shard)
        check_allowed(plan.shard, [x for x in plan.lines if x.effect == Effect.REFUSED])
    for plan in plans:
        spec = plan.declaration.spec
        if plan.action == "change":
            assert plan.seen is not None
            machine.apply(plan.shard, partial(redeclare, asked=spec, seen=plan.seen))
        elif plan.action == "create":
            _create(machine, spec)


def _create(machine: Machine, spec: ShardSpec) -> None:
    try:
        machine.create(spec)
    except InvalidRequest as error:
        if spec.name not in machine.names(dropped=True):
            raise
        raise Conflict(
            "the shard was made meanwhile, and otherwise",
            shard=spec.name,
            cure="look at the plan again, then decide",
        ) from error
