"""A shard walks from `off` to `on` by soft evaluation and approvals, and back by one lie.

The clock is the test's; weeks pass in seconds. The judge is a Python function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from strata.audit.run import Scope
from strata.audit.soft import Evaluated
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings, Thresholds
from strata.model.spec import RolloutSpec
from strata.rollout import ladder
from strata.rollout.basis import basis_of
from strata.rollout.kill import KEY, throw
from strata.rollout.ladder import DAY_MS
from strata.rollout.obey import mode_of
from strata.rollout.policy import Policy
from strata.state.state import Mode, State
from strata.state.step import successor
from strata.store.interface import Versioned
from tests.support.audited import ID, WHERE, World, another, lie, world_in
from tests.support.shards import NAME

pytestmark = pytest.mark.slow

# Days and runs are the defaults; parts are few, because the shard is small.
GATES = Policy(Thresholds(audit_parts=100, on_parts=160, stratum_parts=20, sample_parts=3))


@dataclass
class Calendar:
    """A clock that is moved by hand."""

    now_ms: int = DAY_MS

    def __call__(self) -> int:
        return self.now_ms

    def night(self, days: float = 1) -> None:
        self.now_ms += int(days * DAY_MS)


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def world(calendar: Calendar, request: pytest.FixtureRequest) -> World:
    name = request.node.name
    return world_in(StoreSettings(f"memory://{name}", f"memory://{name}"), calendar)


@pytest.fixture
def validate(world: World, calendar: Calendar) -> Callable[..., None]:
    def one(days: float = 1) -> None:
        """Validate with a filter that nobody has used: the same again would be no new evidence."""
        scope = Scope(f"run {calendar.now_ms}", check_format=False, policy=GATES)
        world.run(scope, where=another(calendar.now_ms))
        calendar.night(days)

    return one


def approved(state: State, now_ms: int, **said: Any) -> Any:
    """Approve the open request, as somebody who has just seen it."""
    assert state.rollout.request is not None
    seen = ladder.request_id(state.name, state.rollout.request)
    return ladder.approve(state, now_ms, request=seen, **said)


def step(world: World, to: str, percent: int) -> None:
    """Ask for a step as one person and approve it as another."""
    machine = Machine(world.stores)
    ask = partial(ladder.ask, to=to, percent=percent, who="ann", reason="due", policy=GATES)
    machine.apply(NAME, ask)
    machine.apply(NAME, partial(approved, who="bob", reason="seen", policy=GATES))


def read(world: World, **options: object) -> ReadPlan:
    return plan_read(world.stores, world.state, filter=WHERE, **options)  # type: ignore[arg-type]


def climb(world: World, validate: Callable[..., None]) -> list[int]:
    """Walk to `on`; return how many parts a reader skipped in soft, audit and on."""
    skipped = []
    for _ in range(20):
        validate(0.4)
    skipped.append(read(world).parts_skipped)
    step(world, "audit", 40)
    for _ in range(14):
        validate()
    skipped.append(read(world).parts_skipped)
    step(world, "on", 1)
    return [*skipped, read(world).parts_skipped]


def test_from_off_to_on_and_back_by_one_lie(
    world: World, validate: Callable[..., None], calendar: Calendar
) -> None:
    machine = Machine(world.stores)
    machine.apply(NAME, partial(ladder.step_down, to="off", who="ann", reason="a new start"))
    assert read(world).parts_skipped == 0
    with pytest.raises(InvalidRequest, match="one at a time"):
        step(world, "on", 1)
    step(world, "soft", 0)
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        step(world, "audit", 40)

    in_soft, in_audit, in_on = climb(world, validate)

    assert in_soft == 0
    assert 0 < in_audit <= in_on
    row, part = world.accepted()
    world.tamper(2, lie(row, high=250))
    for _ in range(12):  # three parts a night are looked at, so it takes some
        validate()

    rollout = world.state.rollout
    assert (rollout.mode, rollout.quarantine) == ("off", (str(ID),))
    assert part.key in rollout.reason
    assert read(world).parts_skipped == 0
    assert [e.after for e in rollout.entries if e.what in ("approved", "tripped")] == [
        "soft",
        "audit",
        "on",
        "off",
    ]
    # The way up is as long as before, and what lied stays distrusted on it.
    step(world, "soft", 0)
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        step(world, "audit", 40)


@pytest.mark.long
def test_off_to_on_under_the_default_gates_and_back_by_one_lie(calendar: Calendar) -> None:
    """Four weeks in a minute: 300 parts of one row, 151 of them skipped; the defaults hold."""
    gates, lag = Policy(), calendar
    name = f"memory://{DAY_MS} default gates"
    world = world_in(StoreSettings(name, name), lag, rows_of_part=1)
    machine = Machine(world.stores)
    machine.apply(NAME, partial(ladder.step_down, to="off", who="ann", reason="a new start"))

    def up(to: str, percent: int) -> None:
        ask = partial(ladder.ask, to=to, percent=percent, who="ann", reason="due", policy=gates)
        machine.apply(NAME, ask)
        with pytest.raises(InvalidRequest, match="cannot approve it"):
            machine.apply(NAME, partial(approved, who="ANN ", reason="me too", policy=gates))
        machine.apply(NAME, partial(approved, who="bob", reason="seen", policy=gates))

    def nights(runs: int, each: float) -> None:
        for _ in range(runs):
            lag.night(each)
            scope = Scope(f"run {lag.now_ms}", check_format=False, policy=gates)
            world.run(scope, believe, another(lag.now_ms))

    def believe(filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        return [Evaluated(ref.key, ref.rows, 0) for ref in refs]  # the statistics are honest

    up("soft", 0)
    nights(19, 0.5)
    with pytest.raises(InvalidRequest, match="runs: 19, wanted at least 20"):
        up("audit", 100)
    nights(1, 0.5)
    up("audit", 100)
    assert read(world).mode == "audit"
    nights(12 * 12, 1 / 12)
    with pytest.raises(InvalidRequest, match=r"days in audit at 10 %: 1[0-3], wanted at least 14"):
        up("on", 1)
    nights(12 * 4, 1 / 12)
    up("on", 1)
    assert (read(world).mode, read(world).parts_skipped > 100) == ("on", True)

    row, part = world.accepted()
    world.tamper(2, lie(row, high=250))
    for number in range(30):  # fifty parts a run are looked at
        lag.night()
        world.run(Scope(f"after {number}", check_format=False, policy=gates))
        if world.state.rollout.mode == "off":
            break

    rollout = world.state.rollout
    assert (rollout.mode, rollout.quarantine) == ("off", (str(ID),))
    assert (rollout.evidence.parts, read(world).parts_skipped) == (0, 0)
    told = [e for e in rollout.entries if e.what in ("approved", "tripped")]
    assert [(e.before, e.after, e.asked_by, e.by) for e in told] == [
        ("off", "soft", "ann", "bob"),
        ("soft", "audit", "ann", "bob"),
        ("audit", "on", "ann", "bob"),
        ("on", "off", "", "validate"),
    ]
    assert [e.parts >= least for e, least in zip(told, (0, 3000, 30_000, 30_000), strict=True)] == [
        True,
        True,
        True,
        True,
    ]
    assert [e.basis for e in told][1:] == [basis_of(world.state)] * 3
    # Whichever is seen first: the part, or a manifest that its batch's union does not enclose.
    places = (part.key, *(batch.manifest for batch in world.state.batches))
    assert any(place in told[-1].reason for place in places if place)


def stand(world: World, basis: str, mode: Mode = "on") -> None:
    """Put the shard into a mode, as if it had been approved for some code."""

    def move(state: State, now_ms: int) -> tuple[State, None]:
        new = replace(state.rollout, mode=mode, audit_percent=1, basis=basis)
        return successor(state, now_ms, rollout=new), None

    Machine(world.stores).apply(NAME, move)


def test_the_kill_switch_wins_over_every_mode_and_over_every_caller(world: World) -> None:
    stand(world, basis_of(world.state))
    assert read(world, mode="on").parts_skipped > 0
    throw(world.stores, thrown=True, who="ann", reason="something is wrong")
    for options in ({}, {"mode": "on"}, {"mode": "audit"}):
        assert read(world, **options).parts_skipped == 0
    throw(world.stores, thrown=False, who="ann", reason="all is well")
    assert read(world).parts_skipped > 0


def test_a_kill_switch_that_cannot_be_understood_is_thrown(world: World) -> None:
    world.stores.consensus.compare_and_set(KEY, None, Versioned(1, b"\xff"))
    assert read(world, mode="on").parts_skipped == 0
    throw(world.stores, thrown=False, who="ann", reason="repaired")
    assert read(world, mode="on").parts_skipped > 0


def test_what_was_approved_for_other_code_does_not_skip(
    world: World, validate: Callable[..., None]
) -> None:
    stand(world, basis_of(world.state))
    assert read(world).parts_skipped > 0
    stand(world, "yesterday's code")
    assert read(world).parts_skipped == 0
    assert read(world, pushdown="on").parts_skipped == 0  # whoever asks for it
    validate()
    assert world.state.rollout.mode == "soft"


@pytest.mark.parametrize("mode", ["audit", "on"])
def test_a_mode_that_nobody_approved_does_not_skip(
    world: World, validate: Callable[..., None], mode: Mode
) -> None:
    """As a declaration could set it before 2026-11; it has no basis."""
    stand(world, "", mode)
    assert (read(world).mode, read(world).parts_skipped) == ("soft", 0)
    validate()
    entry = world.state.rollout.entries[-1]
    assert (world.state.rollout.mode, entry.what) == ("soft", "reset")
    assert "none that anybody approved" in entry.reason


@pytest.mark.parametrize("mode", ["audit", "on"])
def test_a_declaration_cannot_let_readers_skip(world: World, mode: str) -> None:
    declared = replace(world.state.spec, name="other", rollout=RolloutSpec(mode, 1))
    state = Machine(world.stores).create(declared)
    assert (state.rollout.mode, mode_of(state)) == ("soft", "soft")
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        ladder.ask(state, DAY_MS, to="audit", percent=10, who="ann", reason="x", policy=GATES)


def test_a_check_that_cannot_be_made_is_no_evidence(world: World) -> None:
    def lost(filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        return [Evaluated(ref.key, 0, 0, failed="timeout") for ref in refs]

    world.run(Scope("run", check_format=False, policy=GATES), lost)

    seen = world.state.rollout.evidence
    assert (seen.runs, seen.parts) == (0, 0)
    assert seen.failed > 0
