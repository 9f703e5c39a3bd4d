"""What one person does with a shard that lied: drop it, and begin again. Distrust outlives that."""

from strata.state.rollout import trip
from strata.state.state import State
from strata.state.tombstone import bring_back, drop, revive
from strata.state.transitions import create
from tests.support.batches import spec
from tests.support.climb import standing

WHO = {"by": "ann", "reason": "begin again"}
NEW, _ = standing(create(spec(), 1000), 2000, mode="on", percent=1)
LIED, _ = trip(NEW, 3000, "column 5 lied", ["5", "equal_to", "shards/s/parts/g1/00ff.parquet"])


def dropped(state: State) -> State:
    return drop(state, 4000, **WHO)[0]


def test_an_older_point_releases_nothing_from_quarantine() -> None:
    back = bring_back(NEW, 5000, stone=dropped(LIED), generation=3, **WHO)
    assert back.rollout.quarantine == LIED.rollout.quarantine
    assert back.rollout.mode == "off"
    assert [line.what for line in back.rollout.entries][-2:] == ["tripped", "restored"]


def test_a_point_brings_its_own_distrust_back() -> None:
    back = bring_back(LIED, 5000, stone=dropped(NEW), generation=3, **WHO)
    assert (back.rollout.mode, back.rollout.quarantine) == ("off", LIED.rollout.quarantine)
    assert bring_back(NEW, 5000, stone=None, generation=3, **WHO).rollout.mode == "soft"


def test_a_revived_shard_distrusts_the_rule_that_was_wrong() -> None:
    """Columns and parts of the former life are gone; the code that was wrong is not."""
    back, _ = revive(dropped(LIED), 5000, spec=spec())
    assert back.rollout.quarantine == ("equal_to",)
    assert [line.what for line in back.rollout.entries][-1] == "tripped"
