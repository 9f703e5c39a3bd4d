"""The setting `rollout.kill` reaches every reader, however it came by its stores."""

from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any

import orjson
import pytest

from strata.decide.plan import plan_read
from strata.errors import Conflict, InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.machine.machine import Machine
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.settings import RolloutSettings, Settings
from strata.model.types import parse_type
from strata.rollout.kill import ATTEMPTS, KEY, KillSwitch, is_killed, kill_switch, release_id, throw
from strata.rollout.obey import obeyed
from strata.rollout.policy import DAY_MS, Policy
from strata.shard import Shard, open_shard
from strata.state.seal import sealed
from strata.state.state import State
from strata.store.interface import Versioned
from strata.store.open import Stores, open_stores
from tests.support.climb import standing
from tests.support.failing_stores import Beaten, Faults, FaultyConsensus, Outcome
from tests.support.stored import append, create, killed, memory_stores
from tests.support.updates import table

RELATION = Relation(0, (Declared(1, "n", parse_type("int64")),), (1,), ())
NOTHING = Filter(
    Call("greater_than", (Column(1, "n", "long"), Literal(99, "long")), "boolean"), "n > 99", 0, 0
)


def skipping() -> Stores:
    """Return a shard in mode `on` of which the filter skips the only part."""
    stores = memory_stores()
    create(stores, RELATION)
    append(stores, "shard", 0, 5, [table(RELATION, [(1, 0, 1)])])
    Machine(stores).apply("shard", partial(standing, mode="on", percent=0))
    return stores


def test_a_plan_of_the_front_door_obeys_the_setting() -> None:
    stores = skipping()
    killed = Settings(store=stores.settings, rollout=RolloutSettings(kill=True))

    skipped = [
        open_shard(settings, "shard").plan(filter=NOTHING).parts_skipped
        for settings in (Settings(store=stores.settings), killed)
    ]

    assert skipped == [1, 0]


def test_the_setting_goes_wherever_stores_are_opened() -> None:
    settings = Settings(store=skipping().settings)

    killed = replace(settings, rollout=RolloutSettings(kill=True))
    released = replace(killed, rollout=RolloutSettings())

    assert is_killed(open_stores(killed.store))
    assert obeyed(open_stores(killed.store), "soft") == "off"
    assert not is_killed(open_stores(released.store))


def test_a_supposed_mode_does_not_win_over_the_setting() -> None:
    stores = skipping()
    state: State = Shard(stores, "shard").state()

    plan = plan_read(killed(stores), state, filter=NOTHING, mode="on")

    assert (plan.mode, plan.parts_skipped) == ("off", 0)


def test_a_switch_that_cannot_be_read_lets_nothing_be_skipped_and_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stores = skipping()
    lost = FaultyConsensus(stores.consensus, Faults(repeat(Outcome.REFUSED)))
    monkeypatch.setattr("strata.rollout.kill.retry", lambda call: call())

    assert not is_killed(stores)
    assert caplog.text == ""
    assert is_killed(replace(stores, consensus=lost))
    assert "nothing is skipped: injected failure" in caplog.text


# Two people release it, where the policy of the store says so.

TWO = Policy(release_people=2)


def switched(stores: Stores, *, thrown: bool = False, who: str = "ann", **more: Any) -> KillSwitch:
    return throw(stores, thrown=thrown, who=who, reason="so", **{"policy": TWO} | more)


def asked_id(stores: Stores) -> str:
    asked = kill_switch(stores).asked
    assert asked is not None
    return release_id(asked)


def test_one_person_asks_for_the_release_and_another_one_releases() -> None:
    stores = memory_stores()
    switched(stores, thrown=True, who="eve", user="eva")
    assert is_killed(stores)

    asked = switched(stores, user="alice")
    assert (asked.thrown, asked.by, asked.user) == (True, "eve", "eva")
    assert is_killed(stores)
    for same in ({"who": "Ann "}, {"who": "bob", "user": "alice"}):
        with pytest.raises(InvalidRequest, match="cannot approve"):
            switched(stores, request=asked_id(stores), **same)
    assert is_killed(stores)

    done = switched(stores, who="bob", user="robert", request=f" {asked_id(stores)} ")

    assert not is_killed(stores)
    assert kill_switch(stores) == done
    assert (done.by, done.user, done.asked_by, done.asked_user) == (
        "bob",
        "robert",
        "ann",
        "alice",
    )
    assert done.asked is None


def test_a_release_that_nobody_asked_for_or_that_was_asked_for_again_is_refused() -> None:
    stores = memory_stores()
    switched(stores, thrown=True)
    with pytest.raises(InvalidRequest, match="another release") as refused:
        switched(stores, who="bob", request="0" * 16)
    assert refused.value.details["open"] is None

    switched(stores)
    older = asked_id(stores)
    switched(stores, who="carl")
    assert asked_id(stores) != older
    with pytest.raises(InvalidRequest, match="another release") as refused:
        switched(stores, who="bob", request=older)
    assert refused.value.details["open"] == asked_id(stores)
    assert is_killed(stores)


def test_a_throw_forgets_the_release_that_was_asked_for() -> None:
    stores = memory_stores()
    switched(stores, thrown=True)
    switched(stores)
    older = asked_id(stores)

    again = switched(stores, thrown=True, who="eve")

    assert (again.thrown, again.by, again.asked) == (True, "eve", None)
    with pytest.raises(InvalidRequest, match="another release"):
        switched(stores, who="bob", request=older)


@pytest.mark.parametrize(("after_ms", "released"), [(-1, True), (0, False), (1, False)])
def test_a_release_is_answered_within_its_days(after_ms: int, released: bool) -> None:
    stores = memory_stores()
    switched(stores, thrown=True)
    at_ms = switched(stores).asked.at_ms  # type: ignore[union-attr]
    end = at_ms + TWO.gates.request_days * DAY_MS
    late = replace(stores, clock=lambda: end + after_ms)
    if not released:
        with pytest.raises(InvalidRequest, match="has lapsed"):
            switched(late, who="bob", request=asked_id(stores))
    else:
        switched(late, who="bob", request=asked_id(stores))
    assert is_killed(stores) != released


@pytest.mark.parametrize("policy", [None, Policy()])
def test_one_person_throws_and_where_nothing_else_is_said_releases(policy: Policy | None) -> None:
    stores = memory_stores()
    assert switched(stores, thrown=True, policy=policy).thrown
    assert not switched(stores, policy=policy).thrown
    assert not is_killed(stores)


@pytest.mark.parametrize(("who", "reason"), [(" ", "so"), ("ann", ""), ("nobody", "so")])
def test_nobody_moves_the_switch_without_a_name_and_a_reason(who: str, reason: str) -> None:
    stores = memory_stores()
    for thrown in (True, False):
        with pytest.raises(InvalidRequest, match="the kill switch needs"):
            throw(stores, thrown=thrown, who=who, reason=reason)
    assert kill_switch(stores) == KillSwitch()


def test_to_release_what_is_not_thrown_asks_for_nothing() -> None:
    stores = memory_stores()

    assert switched(stores).asked is None
    assert not kill_switch(stores).thrown


def test_a_switch_that_is_damaged_in_any_way_is_thrown() -> None:
    stores = memory_stores()
    switched(stores)
    good = stores.consensus.head(KEY)
    assert good is not None
    found = orjson.loads(good.data)
    del found["digest"]
    wrong = [
        b"[]",
        good.data.replace(b'"so"', b'"no"'),
        *(
            sealed(orjson.dumps(found | more))
            for more in (
                {"thrown": 0},
                {"thrown": ""},
                {"new": 1},
                {"asked": 5},
                {"asked": {"by": "ann"}},
            )
        ),
    ]
    for seqno, data in enumerate(wrong, 1):
        assert stores.consensus.compare_and_set(KEY, seqno, Versioned(seqno + 1, data))
        assert is_killed(stores), data
    assert stores.consensus.compare_and_set(KEY, seqno + 1, Versioned(seqno + 2, good.data))
    assert not is_killed(stores)


def test_a_lost_race_for_the_switch_is_run_again_and_many_are_a_conflict() -> None:
    stores = memory_stores()
    waits: list[float] = []
    beaten = replace(stores, consensus=Beaten(stores.consensus, 2))

    assert switched(beaten, thrown=True, sleep=waits.append).thrown
    assert is_killed(stores)
    assert waits == [0.01, 0.02]

    with pytest.raises(Conflict) as lost:
        switched(replace(stores, consensus=Beaten(stores.consensus, ATTEMPTS)), sleep=waits.append)
    assert lost.value.details["attempts"] == ATTEMPTS == 20
    assert len(waits) == 2 + ATTEMPTS
