"""Rows leave a batch by exactly what they were, and merges that still have them are forgotten."""

from dataclasses import replace

import pytest

from strata.errors import Corrupt
from strata.state.erasing import Removed, readers_before, remove
from strata.state.holds import hold
from strata.state.merging import live_progress
from strata.state.state import Progress, State
from strata.state.transitions import append, create
from tests.support.batches import batch, spec


@pytest.fixture
def state() -> State:
    state = create(spec(), 1)
    for lower in range(0, 40, 10):
        new = batch(lower, lower + 10, updates=3)
        state, _ = append(state, 5, token=f"t{lower}", lower=lower, upper=lower + 10, batch=new)
    return state


def under_way(first: int) -> Progress:
    """Return a merge of the two batches from a time on, of which one task is done."""
    inputs = tuple(f"manifest-{low}-{low + 10}" for low in (first, first + 10))
    done = {"manifest": f"kept-{first}", "bytes_out": 10, "at_ms": 6, "rows_out": 3}
    known = {name: value for name, value in done.items() if name in Progress.__dataclass_fields__}
    return Progress(inputs, first, first + 20, 0, f"work-{first}", 2, 1, **known)  # type: ignore[arg-type]


def test_merges_of_a_batch_that_loses_rows_are_forgotten_and_others_go_on(state: State) -> None:
    merges = (under_way(0), under_way(20))
    state = replace(state, merging=merges)
    assert live_progress(state) == merges
    left = replace(batch(0, 10, updates=2, manifest="without"), digest=4)

    after, done = remove(state, 9, manifest="manifest-0-10", batch=left, removed=Removed(1, 1, 3))

    assert done
    assert after.merging == merges[1:]
    assert [b.manifest for b in after.batches][:2] == ["without", "manifest-10-20"]


@pytest.mark.parametrize("removed", [Removed(2, 1, 3), Removed(1, 2, 3), Removed(1, 1, 4)])
def test_figures_that_do_not_add_up_are_damage(state: State, removed: Removed) -> None:
    left = replace(batch(0, 10, updates=2, manifest="without"), digest=4)
    with pytest.raises(Corrupt, match="are not what the batch was"):
        remove(state, 9, manifest="manifest-0-10", batch=left, removed=removed)


def test_a_batch_that_a_merge_took_is_left(state: State) -> None:
    left = batch(0, 10, updates=2, manifest="without")
    assert remove(state, 9, manifest="gone", batch=left, removed=Removed(1, 1, 3)) == (state, False)


def test_readers_of_states_before_are_those_with_a_live_hold_on_one(state: State) -> None:
    first = replace(hold(state, 10, name="first", since=0, lease_ms=100)[1], seqno=1)
    state, later = hold(state, 10, name="later", since=0, lease_ms=100)
    state = replace(state, holds=(first, later))

    assert readers_before(state, 20, later.seqno) == (first,)
    assert readers_before(state, 20, later.seqno + 1) == (first, later)
    assert readers_before(state, 20, 1) == ()
    assert readers_before(state, 111, later.seqno + 1) == ()
