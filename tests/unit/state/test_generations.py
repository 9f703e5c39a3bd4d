"""The fence passes no writer whose lease lives; one whose lease is over commits nothing."""

from dataclasses import replace
from typing import Any

import pytest

from strata.errors import Fenced, InvalidRequest
from strata.model.time import MIN_TIME
from strata.state.generations import (
    LONGEST_MS,
    begin_sweep,
    finish,
    heartbeat,
    live_writers,
    register,
)
from strata.state.state import State, Writer
from strata.state.transitions import append, apply_merge, create, replace_manifests
from strata.store.keys import manifest_key
from tests.support.batches import batch, spec
from tests.unit.state.test_transitions import filled, merge

NOW = 10_000
GRACE = 1000
STATE = replace(create(spec(), 1), generation=7, generation_ms=NOW - GRACE, fence=4)


def with_writers(*writers: Writer, **changes: Any) -> State:
    return replace(STATE, writers=writers, **changes)


@pytest.mark.parametrize(("begun_ms", "closed"), [(0, True), (1, False), (GRACE, False)])
def test_a_generation_is_closed_once_it_is_as_old_as_the_grace(begun_ms: int, closed: bool) -> None:
    state = replace(STATE, generation_ms=NOW - GRACE + begun_ms)

    after, fence = begin_sweep(state, NOW, grace_ms=GRACE)

    assert (after.generation, after.fence, fence) == ((8, 7, 7) if closed else (7, 4, 4))
    assert (after is state) != closed
    assert not closed or after.generation_ms == NOW


def test_a_generation_that_a_clock_began_in_the_future_begins_now() -> None:
    ahead = replace(STATE, generation_ms=NOW + 1)

    after, fence = begin_sweep(ahead, NOW, grace_ms=0)

    assert (after.generation, after.generation_ms, after.fence, fence) == (7, NOW, 4, 4)


@pytest.mark.parametrize(
    ("began", "expires_ms", "fence"),
    [
        (5, NOW + 1, 5),
        (5, NOW, 7),  # it has just expired
        (5, NOW + LONGEST_MS, 5),
        (5, NOW + LONGEST_MS + 1, 7),  # a clock that was ahead took it
        (3, NOW + 1, 4),  # a fence never goes back
    ],
)
def test_the_fence_stops_at_the_oldest_writer_whose_lease_lives(
    began: int, expires_ms: int, fence: int
) -> None:
    old, young = Writer("old", began, expires_ms), Writer("young", 6, NOW + 9)
    alone = with_writers(old)

    after, found = begin_sweep(alone, NOW, grace_ms=GRACE)

    assert (after.fence, found) == (fence, fence)
    assert after.writers == live_writers(alone, NOW) == ((old,) if fence < 7 else ())
    both, _ = begin_sweep(with_writers(old, young), NOW, grace_ms=GRACE)
    assert both.fence == min(fence, 6)


def test_a_lease_begins_in_the_generation_of_now_and_drops_those_that_are_over() -> None:
    gone, other = Writer("gone", 2, NOW), Writer("other", 6, NOW + 1)

    after, mine = register(with_writers(gone, other), NOW, name="a", lease_ms=50, purpose="compact")

    assert mine == Writer("a", 7, NOW + 50, "compact")
    assert after.writers == (mine, other)


def test_a_lease_that_is_taken_again_keeps_its_generation_and_is_never_shorter() -> None:
    """Its blobs carry the generation in which it began."""
    alive, over = (with_writers(Writer("a", 5, NOW + left)) for left in (30, 0))

    assert register(alive, NOW, name="a", lease_ms=50)[1] == Writer("a", 5, NOW + 50)
    assert register(alive, NOW, name="a", lease_ms=20)[1] == Writer("a", 5, NOW + 30)
    assert register(over, NOW, name="a", lease_ms=20)[1] == Writer("a", 7, NOW + 20)
    assert len(register(alive, NOW, name="a", lease_ms=50)[0].writers) == 1
    assert register(STATE, NOW, name="a", lease_ms=1)[1].expires_ms == NOW + 1
    with pytest.raises(InvalidRequest, match="must last"):
        register(STATE, NOW, name="a", lease_ms=0)


def test_a_beat_prolongs_its_own_lease_alone_and_none_that_is_over() -> None:
    mine, other = Writer("a", 5, NOW + 1, "ingest"), Writer("b", 6, NOW + 1)
    state = with_writers(mine, other)

    after, found = heartbeat(state, NOW, name="a", lease_ms=50)

    assert found == replace(mine, expires_ms=NOW + 50)
    assert after.writers == (found, other)
    for name, now_ms in (("a", NOW + 1), ("c", NOW)):
        with pytest.raises(Fenced, match="has expired"):
            heartbeat(state, now_ms, name=name, lease_ms=50)


def test_a_lease_is_given_back_once() -> None:
    other = Writer("b", 6, NOW + 1)
    state, done = finish(with_writers(Writer("a", 5, NOW), other), NOW, name="a")

    assert (state.writers, done) == ((other,), True)
    assert finish(state, NOW, name="a") == (state, False)


# What was written behind the fence, or by a writer whose lease is over, joins no state.

OLD, AT = (manifest_key("events", "ab", generation) for generation in (3, 4))


@pytest.mark.parametrize(
    ("manifest", "writer", "now_ms", "why"),
    [
        (AT, None, NOW, ""),
        (AT, "a", NOW, ""),
        (OLD, None, NOW, "may have been collected"),
        (OLD, "a", NOW, "may have been collected"),
        (AT, "a", NOW + 1, "has expired"),
        (AT, "b", NOW, "has expired"),
    ],
)
def test_a_late_writer_commits_nothing(
    manifest: str, writer: str | None, now_ms: int, why: str
) -> None:
    lease = Writer("a", 4, NOW + 1)
    full = replace(filled(16, 16), fence=4, writers=(lease,))
    batches = full.batches
    result = merge(full)
    merged = replace(result, batch=replace(result.batch, manifest=manifest))
    other = replace(batches[0], manifest=manifest, stats_parts=1)
    new = batch(20, 30, 4, manifest=manifest)

    for commit in (
        lambda: append(full, now_ms, token="t", lower=20, upper=30, batch=new, writer=writer)[0],
        lambda: apply_merge(full, now_ms, merged, writer=writer)[0],
        lambda: replace_manifests(full, now_ms, {str(batches[0].manifest): other}, writer=writer)[
            0
        ],
    ):
        if why:
            with pytest.raises(Fenced, match=why):
                commit()
        else:
            assert manifest in [one.manifest for one in commit().batches]


def test_a_batch_that_the_state_has_is_alive_though_it_lies_behind_the_fence() -> None:
    """A merge that keeps all parts names the same manifest again."""
    state = replace(filled(16, 4), fence=9)
    old, _ = state.batches
    moved = replace(old, since=MIN_TIME + 1)

    after, count = replace_manifests(state, NOW, {str(old.manifest): replace(moved, stats_parts=1)})

    assert (count, after.batches[0].stats_parts) == (1, 1)
