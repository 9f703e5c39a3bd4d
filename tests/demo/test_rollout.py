"""The store of `make demo-rollout` says that it is a demo, and its gates are those of one night."""

from pathlib import Path

import pytest

from demo import rollout
from strata.machine.machine import Machine
from strata.model.settings import RolloutSettings
from strata.rollout.policy import policy_of
from strata.store.open import Stores
from tests.support.stored import memory_stores


@pytest.fixture
def stores() -> Stores:
    found = memory_stores()
    rollout.agree(found)
    return found


def test_two_people_agree_on_its_gates_and_say_why(stores: Stores) -> None:
    policy = policy_of(stores, RolloutSettings())
    gates = policy.gates
    assert {name: getattr(gates, name) for name in rollout.GATES} == dict.fromkeys(rollout.GATES, 1)
    assert rollout.DEMO.startswith("a demo")


@pytest.mark.long
@pytest.mark.spark
def test_one_shard_is_led_to_on_trips_and_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rollout, "FOLDER", tmp_path / "demo")
    assert rollout.main([]) == 0
    said = capsys.readouterr().out
    for mode in ("soft", "audit", "on", "off"):
        assert f"{rollout.SHARD} is {mode}" in said
    config = rollout.load_settings(str(tmp_path / "demo" / "strata.toml"), {})
    state = Machine(rollout.open_stores(config.store)).load(rollout.SHARD)
    after = [entry.after for entry in state.rollout.entries if entry.before != entry.after]
    assert after == ["soft", "audit", "on", "off", "soft"]
