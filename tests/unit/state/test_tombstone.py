"""What one person does with a shard that lied: drop it, and begin again. Distrust outlives that."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from strata.errors import InvalidRequest
from strata.model.time import MIN_TIME
from strata.state import erasing
from strata.state.generations import LONGEST_MS, begin_sweep, register
from strata.state.holds import hold
from strata.state.labels import drop_labels, set_label
from strata.state.rollout import trip
from strata.state.state import Erasure, Evidence, Hold, State, Writer
from strata.state.tombstone import bring_back, drop, redate, revive
from strata.state.transitions import (
    advance_since,
    append,
    apply_merge,
    create,
    replace_manifests,
)
from tests.support.batches import batch, spec
from tests.support.climb import standing
from tests.unit.state.test_transitions import filled, merge

ERASURE = Erasure("e1", 0, "ann", "asked", "a fingerprint")
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


def test_only_a_shard_that_was_dropped_begins_anew() -> None:
    with pytest.raises(InvalidRequest, match="only a dropped shard"):
        revive(NEW, 5000, spec=spec())


@pytest.mark.parametrize(
    ("stored", "saved", "stone", "begins"), [(9, 3, 3, 9), (1, 7, 3, 8), (1, 3, 7, 9)]
)
def test_a_shard_that_comes_back_fences_whoever_wrote_in_another_life(
    stored: int, saved: int, stone: int, begins: int
) -> None:
    """Its generation is above that of the point, of the tombstone, and of each stored blob."""
    point, last = replace(NEW, generation=saved), dropped(replace(NEW, generation=stone))

    back = bring_back(point, 5000, stone=last, generation=stored, **WHO)

    assert (back.generation, back.fence) == (begins, begins)
    assert back.seqno == max(point.seqno, last.seqno) + 1
    assert bring_back(point, 5000, stone=None, generation=stored, **WHO).fence == max(
        stored, saved + 1
    )


def test_whoever_wrote_before_a_drop_is_fenced_after_it() -> None:
    stone = dropped(replace(NEW, generation=7, fence=2))
    back, generation = revive(stone, 5000, spec=spec())

    assert (stone.generation, stone.fence) == (8, 8)
    assert (back.generation, back.fence, generation) == (9, 9, 9)
    assert (back.upper, back.since, back.dropped) == (MIN_TIME, MIN_TIME, None)
    assert back.seqno == stone.seqno + 1


def test_a_shard_that_comes_back_has_its_labels_and_nobody_of_then() -> None:
    label, reader = Hold("label-v1", 0, None, "label"), Hold("r", 0, 9**9, seqno=1)
    owned = Hold("engine", 0, None, "token")
    writer = Writer("w", 0, 9**9)
    point = replace(NEW, holds=(owned, label, reader), writers=(writer,), erasing=ERASURE)

    back = bring_back(point, 5000, stone=None, generation=1, **WHO)

    assert (back.holds, back.writers, back.erasing, back.merging) == ((label,), (), None, ())


def test_nobody_drops_a_shard_in_use_without_insisting_nor_without_a_name_and_a_reason() -> None:
    held = replace(NEW, holds=(Hold("r", 0, 4001, seqno=1), Hold("over", 0, 4000, seqno=1)))
    written = replace(NEW, writers=(Writer("w", 0, 4001), Writer("gone", 0, 4000)))
    for state, by in ((held, ("r",)), (written, ("w",))):
        with pytest.raises(InvalidRequest, match="in use") as caught:
            drop(state, 4000, **WHO)
        assert caught.value.details["held_by"] == by
        after, _ = drop(state, 4000, force=True, **WHO)
        assert (after.holds, after.writers, after.batches) == ((), (), ())
        assert drop(state, 4001, **WHO)[0].dropped is not None
    for lacking in ("by", "reason"):
        with pytest.raises(InvalidRequest, match="a person and a reason"):
            drop(NEW, 4000, **{**WHO, lacking: ""})


def test_a_drop_far_ahead_of_the_clock_was_now_and_any_other_stays() -> None:
    stone = dropped(NEW)  # at 4000
    assert redate(stone, 4000 - LONGEST_MS) == (stone, 4000)

    after, at_ms = redate(stone, 3999 - LONGEST_MS)

    assert after.dropped is not None
    assert after.dropped.at_ms == at_ms == 3999 - LONGEST_MS


def test_a_new_life_begins_now_so_that_its_writers_have_their_grace() -> None:
    stone = dropped(NEW)

    assert revive(stone, 5000, spec=spec())[0].generation_ms == 5000
    assert bring_back(NEW, 5000, stone=stone, generation=1, **WHO).generation_ms == 5000


@pytest.mark.parametrize(
    ("saved_ms", "stone_ms", "begins_ms"),
    [(10, 10, 5000), (7000, 10, 7001), (10, 8000, 8001), (7000, 8000, 8001), (5000, 10, 5001)],
)
def test_time_never_goes_back_where_a_shard_comes_back(
    saved_ms: int, stone_ms: int, begins_ms: int
) -> None:
    point = replace(NEW, walltime_ms=saved_ms)
    stone = replace(dropped(NEW), walltime_ms=stone_ms)

    assert bring_back(point, 5000, stone=stone, generation=1, **WHO).walltime_ms == begins_ms


def test_a_shard_that_comes_back_skips_nothing_before_it_is_validated_again() -> None:
    back = bring_back(NEW, 5000, stone=None, generation=1, **WHO).rollout

    assert (back.mode, back.audit_percent, back.basis, back.request) == ("soft", 0, "", None)
    assert (back.evidence, back.changed_by, back.changed_ms) == (Evidence(), "ann", 5000)
    assert (back.entries[-1].what, back.entries[-1].audit_percent) == ("restored", 0)


CHANGES: list[Callable[[State], object]] = [
    lambda state: append(state, 5, token="t", lower=0, upper=10),
    lambda state: advance_since(state, 5, MIN_TIME),
    lambda state: replace_manifests(state, 5, {}),
    lambda state: apply_merge(state, 5, merge(filled(16, 16))),
    lambda state: begin_sweep(state, 5, grace_ms=1000),
    lambda state: register(state, 5, name="w", lease_ms=10),
    lambda state: hold(state, 5, name="r", since=MIN_TIME, lease_ms=10),
    lambda state: erasing.begin(state, 5, erasure=ERASURE),
    lambda state: erasing.suppress(state, 5, expected="a", key="b", generation=99),
    lambda state: erasing.remove(
        state, 5, manifest="m", batch=batch(0, 10), removed=erasing.Removed(1, 1, 1)
    ),
    lambda state: erasing.close(state, 5, clean=()),
    lambda state: erasing.forget_verdicts(state, 5, keys=()),
    lambda state: set_label(state, 5, name="v1", time=0),
    lambda state: drop_labels(state, 5, names=()),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_shard_that_was_dropped_takes_no_change(change: Callable[[State], object]) -> None:
    stone = replace(dropped(NEW), generation_ms=5, upper=100)

    with pytest.raises(InvalidRequest, match="this shard was dropped"):
        change(stone)
