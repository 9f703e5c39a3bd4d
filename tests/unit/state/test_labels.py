"""A label keeps its time readable, belongs to nobody, and goes only by its own command."""

from dataclasses import replace

import pytest

from strata.errors import InvalidRequest
from strata.state.holds import LABEL, hold, hold_critical, release
from strata.state.labels import Label, drop_labels, find_label, labels_of, set_label
from strata.state.state import State
from strata.state.tombstone import bring_back, drop
from strata.state.transitions import advance_since, append, create
from tests.support.batches import batch, spec


@pytest.fixture
def state() -> State:
    state = create(spec(), 1)
    for lower in (0, 10, 20):
        new = batch(lower, lower + 10)
        state, _ = append(state, 5, token=f"t{lower}", lower=lower, upper=lower + 10, batch=new)
    return state


def test_since_does_not_pass_a_label_while_it_stands(state: State) -> None:
    state, label = set_label(state, 6, name="release-1", time=14)
    assert (label, labels_of(state)) == (Label("release-1", 14), (label,))
    again, same = set_label(state, 7, name="release-1", time=14)
    assert (again is state, same) == (True, label)

    moved, advanced = advance_since(state, 8, 25)
    assert (advanced.since, advanced.held_by) == (14, ("label-release-1",))
    left, count = drop_labels(moved, 9, names=("release-1", "never"))
    assert (count, labels_of(left)) == (1, ())
    assert drop_labels(left, 10, names=("release-1",)) == (left, 0)
    assert advance_since(left, 10, 25)[1].since == 25


def test_a_label_is_for_one_time_that_can_be_read(state: State) -> None:
    state, _ = set_label(state, 6, name="a", time=14)
    with pytest.raises(InvalidRequest, match="another time has this label"):
        set_label(state, 7, name="a", time=15)
    state, _ = advance_since(state, 8, 12)
    for time in (11, 30):
        with pytest.raises(InvalidRequest, match="only a time that can be read"):
            set_label(state, 9, name="b", time=time)
    state, _ = set_label(state, 9, name="b", time=29)
    assert find_label(state, "b") == Label("b", 29)
    assert find_label(state, "c") is None


@pytest.mark.parametrize("name", ["", "1a", "-a", "a b", "clock:1", "é", "a" * 101, "2026-01-01"])
def test_a_name_is_not_like_a_time(state: State, name: str) -> None:
    with pytest.raises(InvalidRequest, match="no name for a label"):
        set_label(state, 6, name=name, time=14)


def test_no_other_hold_becomes_a_label_or_takes_one_away(state: State) -> None:
    state, _ = set_label(state, 6, name="a", time=14)
    with pytest.raises(InvalidRequest, match="this hold is a label"):
        release(state, 7, name=LABEL + "a", opaque="label")
    with pytest.raises(InvalidRequest, match="a hold of this name is a label"):
        hold(state, 7, name=LABEL + "c", since=20, lease_ms=9, owner="label")
    with pytest.raises(InvalidRequest, match="a hold of this name is a label"):
        hold_critical(state, 7, name=LABEL + "b", since=20, expected="", opaque="label")


def test_labels_come_back_from_a_backup_and_other_holds_do_not(state: State) -> None:
    state, _ = hold_critical(state, 6, name="mine", since=9, expected="", opaque="x")
    state, _ = set_label(state, 6, name="a", time=14)

    back = bring_back(state, 99, stone=None, generation=3, by="ann", reason="lost")

    assert labels_of(back) == (Label("a", 14),)
    assert [found.name for found in back.holds] == ["label-a"]


def test_each_commit_keeps_the_walltime_of_its_state(state: State) -> None:
    times = [commit.at_ms for commit in state.commits]
    assert times == [5, 6, 7]  # the clock stands still, and walltimes grow
    assert state.walltime_ms == 7
    assert replace(state.commits[0], at_ms=0) != state.commits[0]


def test_a_dropped_shard_has_no_labels_to_take_away(state: State) -> None:
    state, _ = set_label(state, 6, name="release-1", time=14)
    dropped, _ = drop(state, 7, by="ann", reason="a trial", force=True)
    with pytest.raises(InvalidRequest, match="dropped"):
        drop_labels(dropped, 8, names=("release-1",))
