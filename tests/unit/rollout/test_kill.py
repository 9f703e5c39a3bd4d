"""The setting `rollout.kill` reaches every reader, however it came by its stores."""

from dataclasses import replace
from functools import partial
from itertools import repeat

import pytest

from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.machine.machine import Machine
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.settings import RolloutSettings, Settings
from strata.model.types import parse_type
from strata.rollout.kill import is_killed
from strata.rollout.obey import obeyed
from strata.shard import Shard, open_shard
from strata.state.state import State
from strata.store.open import Stores, open_stores
from tests.support.climb import standing
from tests.support.failing_stores import Faults, FaultyConsensus, Outcome
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
