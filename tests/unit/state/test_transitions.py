"""Appends, merges, exchanges and advances do what they promise, once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest
from strata.model.time import MAX_TIME, MIN_TIME
from strata.state import spine as spines
from strata.state.spine import Applied, MergeResult, NotApplied
from strata.state.state import Batch, Consumed, Hold, Segment, State, Trip
from strata.state.transitions import (
    Appended,
    Basis,
    advance_since,
    append,
    apply_merge,
    create,
    replace_manifests,
    spill,
)
from tests.support.batches import batch, merged, spec

NEW = create(spec(), 1000)


def filled(*sizes: int) -> State:
    state = NEW
    for number, updates in enumerate(sizes):
        lower, upper = number * 10, number * 10 + 10
        state, _ = append(
            state,
            2000,
            token=f"t{number}",
            lower=lower,
            upper=upper,
            batch=batch(lower, upper, updates),
        )
    return state


def merge(state: State) -> MergeResult:
    (request,) = spines.requests(state.spine, state.since)
    return MergeResult(
        request.id_lower,
        request.id_upper,
        request.manifests,
        merged(request.batches, request.since),
    )


def test_a_new_shard_is_empty_and_as_declared() -> None:
    state = create(spec(rollout={"mode": "soft", "audit_percent": 3}), 1000)
    assert (state.seqno, state.walltime_ms, state.since, state.upper) == (
        1,
        1000,
        MIN_TIME,
        MIN_TIME,
    )
    assert (state.generation_ms, state.generation, state.fence) == (1000, 0, 0)
    assert (state.rollout.mode, state.rollout.audit_percent) == ("soft", 3)
    assert state.relation == spec().relation()
    assert state.batches == ()


@pytest.mark.parametrize("mode", ["audit", "on"])
def test_no_declaration_leads_past_soft_and_the_history_says_so(mode: str) -> None:
    rollout = create(spec(rollout={"mode": mode, "audit_percent": 1}), 1000).rollout
    assert (rollout.mode, rollout.audit_percent, rollout.basis) == ("soft", 0, "")
    [entry] = rollout.entries
    assert (entry.what, entry.after, entry.by) == ("declared", "soft", "create")
    assert f"declared as {mode}" in entry.reason == rollout.reason


def test_an_append_is_one_commit() -> None:
    state, appended = append(
        NEW, 2000, token="a", lower=0, upper=10, batch=batch(0, 10, 5), rejected=2
    )
    assert not appended.already_committed
    commit = appended.commit
    assert (commit.token, commit.seqno, commit.lower, commit.upper) == ("a", 2, 0, 10)
    assert (commit.updates, commit.parts, commit.size_bytes, commit.rejected) == (5, 1, 50, 2)
    assert (state.seqno, state.walltime_ms, state.upper) == (2, 2000, 10)
    assert state.commits == (commit,)


def test_the_time_before_an_interval_becomes_part_of_its_batch() -> None:
    state, _ = append(NEW, 2000, token="a", lower=5, upper=10, batch=batch(5, 10, 5))
    state, appended = append(state, 2000, token="b", lower=50, upper=60)
    assert [(b.lower, b.upper) for b in state.batches] == [(MIN_TIME, 10), (10, 60)]
    assert (appended.commit.lower, appended.commit.upper) == (50, 60)
    assert spines.problems(state.spine, MIN_TIME, 60) == []


def test_a_repeated_token_is_the_commit_of_the_first_time() -> None:
    state, first = append(NEW, 2000, token="a", lower=0, upper=10, batch=batch(0, 10, 5))
    state, _ = append(state, 2000, token="b", lower=10, upper=20)
    again, second = append(state, 9000, token="a", lower=0, upper=10, batch=batch(0, 10, 99))
    assert again is state
    assert second == Appended(first.commit, already_committed=True)


def test_a_token_stands_for_one_interval() -> None:
    state = filled(5)
    for lower, upper in ((0, 9), (1, 10), (10, 20)):
        with pytest.raises(InvalidRequest, match="another interval"):
            append(state, 2000, token="t0", lower=lower, upper=upper)


@pytest.mark.parametrize(("lower", "upper"), [(0, 10), (0, 15), (9, 20), (0, 0), (3, 3)])
def test_what_is_written_is_not_written_again_under_another_token(lower: int, upper: int) -> None:
    with pytest.raises(InvalidRequest, match="already written"):
        append(filled(5), 2000, token="other", lower=lower, upper=upper)


def test_an_empty_interval_may_be_committed_without_updates_only() -> None:
    state = filled(5)
    following, appended = append(state, 2000, token="nothing", lower=10, upper=10)
    assert (following.seqno, following.upper, following.spine) == (state.seqno + 1, 10, state.spine)
    assert append(following, 2000, token="nothing", lower=10, upper=10)[1] == Appended(
        appended.commit, True
    )
    with pytest.raises(InvalidRequest, match="cannot hold updates"):
        append(state, 2000, token="x", lower=10, upper=10, batch=batch(10, 10, 1))


@pytest.mark.parametrize(
    ("lower", "upper", "new"),
    [
        (10, 5, None),
        (MIN_TIME - 1, 5, None),
        (0, MAX_TIME + 1, None),
        (0, 10, batch(0, 9, 5)),
        (0, 10, batch(1, 10, 5)),
        (0, 10, batch(0, 10, 5, since=MIN_TIME + 1)),
        (0, 10, replace(batch(0, 10, 5), parts=2)),
        (0, 10, replace(batch(0, 10, 5), updates=4)),
        (0, 10, replace(batch(0, 10, 5), size_bytes=4)),
        (0, 10, replace(batch(0, 10, 5), manifest=None)),
        (0, 10, replace(batch(0, 10, 5), digest=2**64)),
        (0, 10, replace(batch(0, 10, 0), manifest="m")),
        (0, 10, replace(batch(0, 10, 0), digest=3)),
    ],
)
def test_an_append_that_cannot_be_right_is_refused(
    lower: int, upper: int, new: Batch | None
) -> None:
    with pytest.raises(InvalidRequest):
        append(NEW, 2000, token="a", lower=lower, upper=upper, batch=new)


def test_a_manifest_that_a_batch_has_is_no_other_batch() -> None:
    state, _ = append(NEW, 2000, token="a", lower=0, upper=10, batch=batch(0, 10, 5))
    same = batch(0, 10, 5).manifest

    with pytest.raises(InvalidRequest, match="count twice"):
        append(state, 2000, token="b", lower=10, upper=20, batch=batch(10, 20, 5, manifest=same))

    assert append(state, 2000, token="a", lower=0, upper=10, batch=batch(0, 10, 5))[0] is state


def test_an_append_without_a_token_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="token"):
        append(NEW, 2000, token="", lower=0, upper=10)


@given(st.lists(st.integers(0, 10_000), max_size=20))
def test_walltime_strictly_grows_whatever_the_clock_does(clock: list[int]) -> None:
    state = NEW
    for number, now_ms in enumerate(clock):
        following, _ = append(state, now_ms, token=f"{number}", lower=number, upper=number + 1)
        assert following.seqno == state.seqno + 1
        assert following.walltime_ms == max(now_ms, state.walltime_ms + 1)
        state = following


def test_spilling_moves_the_oldest_commits_out_and_keeps_the_seqno() -> None:
    state = filled(*[0] * 129)
    spilled = spill(state, "key")
    assert (spilled.seqno, spilled.ledger) == (state.seqno, ("key",))
    assert spilled.commits == state.commits[64:]


def test_a_merge_is_applied_once() -> None:
    state = filled(4, 4)
    result = merge(state)
    following, applied = apply_merge(state, 3000, result)
    assert applied == Applied(already=False)
    assert [b.manifest for b in following.batches] == [result.batch.manifest]
    assert following.seqno == state.seqno + 1
    assert apply_merge(following, 3000, result) == (following, Applied(already=True))


def test_a_merge_that_lost_its_race_changes_nothing() -> None:
    state = filled(4, 4)
    faster, _ = apply_merge(state, 3000, merge(state))
    slower = replace(merge(state), batch=replace(merge(state).batch, manifest="slower"))
    following, applied = apply_merge(faster, 3000, slower)
    assert following is faster
    assert isinstance(applied, NotApplied)


def test_a_merge_whose_batch_contradicts_itself_is_refused() -> None:
    state = filled(4, 4)
    result = merge(state)
    with pytest.raises(InvalidRequest, match="contradicts itself"):
        apply_merge(state, 3000, replace(result, batch=replace(result.batch, parts=7)))
    with pytest.raises(Corrupt):
        apply_merge(state, 3000, replace(result, batch=replace(result.batch, digest=1)))


def test_a_manifest_is_exchanged_in_place() -> None:
    state = filled(16, 4, 4)
    old = state.batches[1]
    # a backfill knows the batch as it was written, before a gap widened it, and before a merge
    # that kept all its parts wrote the same manifest again for a later since
    new = replace(
        old, lower=old.lower + 1, since=old.since - 1, manifest="with statistics", stats_parts=1
    )
    following, count = replace_manifests(state, 3000, {str(old.manifest): new, "unknown": new})
    assert count == 1
    assert following.batches[1] == replace(new, lower=old.lower, since=old.since)
    assert [b for b in following.batches if b.manifest != "with statistics"] == [
        b for b in state.batches if b != old
    ]
    assert spines.problems(following.spine, MIN_TIME, 30) == []
    again, count = replace_manifests(following, 3000, {str(old.manifest): new})
    assert (again is following, count) == (True, 1), "a repetition tells the same"
    assert replace_manifests(state, 3000, {"unknown": new}) == (state, 0)


@pytest.mark.parametrize(
    "changes",
    [{"updates": 3}, {"digest": 8}, {"diffs_sum": 5}, {"retractions": True}],
)
def test_a_manifest_over_other_updates_is_refused(changes: dict[str, int]) -> None:
    state = filled(4)
    old = state.batches[0]
    with pytest.raises(InvalidRequest, match="same updates"):
        replace_manifests(state, 3000, {str(old.manifest): replace(old, manifest="new", **changes)})


def test_since_goes_forward_only_and_leaves_a_time_to_read() -> None:
    state = filled(4, 4)
    state, advanced = advance_since(state, 3000, 7)
    assert (state.since, advanced.since, advanced.moved) == (7, 7, True)
    assert advance_since(state, 3000, 7)[0] is state
    assert advance_since(state, 3000, 3)[1].since == 7
    state, advanced = advance_since(state, 3000, 20)
    assert (state.since, advanced.moved) == (19, True)
    with pytest.raises(InvalidRequest, match="upper"):
        advance_since(state, 3000, 21)
    assert advance_since(NEW, 3000, MIN_TIME)[0] is NEW


def test_since_stops_at_live_holds_and_passes_expired_ones() -> None:
    holds = (Hold("expired", 2, 3000), Hold("live", 9, 3001), Hold("critical", 8, None, "x"))
    state = replace(filled(4, 4), holds=holds)
    following, advanced = advance_since(state, 3000, 15)
    assert (following.since, advanced.since) == (8, 8)
    assert set(advanced.held_by) == {"live", "critical"}
    assert [h.name for h in following.holds] == ["live", "critical"]
    assert advance_since(state, 3000, 8)[1].held_by == (), "none of them is in the way"


def test_expiry_alone_moves_nothing() -> None:
    state = replace(filled(4), holds=(Hold("expired", 2, 3000),))
    following, _ = append(state, 9000, token="later", lower=10, upper=20)
    assert following.since == state.since
    assert following.holds == state.holds


KNOWN, NEW_FILES, OLD_FILES = (
    Segment(f"shards/events/consumed/g{generation}/{name}.arrow", 1)
    for name, generation in (("known", 2), ("new", 4), ("old", 3))
)
BEFORE = Consumed(0, 0, (KNOWN,))


@pytest.mark.parametrize(
    ("basis", "refused"),
    [
        (Basis(), None),
        (Basis(generation=4), None),
        (Basis(generation=3), Fenced),  # its rejected rows may have been collected
        (Basis(upper=10), None),
        (Basis(upper=9), Conflict),
        (Basis(before=BEFORE, consumed=Consumed(0, 0, (KNOWN, NEW_FILES))), None),
        (Basis(before=BEFORE, consumed=Consumed(0, 0, (KNOWN, OLD_FILES))), Fenced),
        (Basis(before=None, consumed=Consumed(0, 0, (NEW_FILES,))), Conflict),  # others were faster
        (Basis(before=None, consumed=None), None),
    ],
)
def test_an_append_joins_only_the_state_that_it_was_worked_out_for(
    basis: Basis, refused: type[Exception] | None
) -> None:
    state = replace(filled(4), fence=4, consumed=BEFORE)
    bounds = {"lower": 10, "upper": 20}

    if refused is not None:
        with pytest.raises(refused):
            append(state, 3000, token="t", basis=basis, **bounds)
        return
    after, _ = append(state, 3000, token="t", basis=basis, **bounds)
    assert after.consumed == (basis.consumed or BEFORE)


def test_nothing_is_appended_from_a_source_that_is_tripped() -> None:
    found = Trip(1, "t", "in.csv", 3, "id", "7", "8")
    tripped = replace(filled(4), tripped=found)

    with pytest.raises(Corrupt, match="source of this shard is tripped"):
        append(tripped, 3000, token="t", lower=10, upper=20, basis=Basis())


def test_an_interval_may_end_with_time_itself_and_one_of_no_length_has_no_updates() -> None:
    last, _ = append(NEW, 3000, token="t", lower=MAX_TIME - 1, upper=MAX_TIME)
    assert last.upper == MAX_TIME
    state = filled(4)

    after, done = append(state, 3000, token="t", lower=10, upper=10, batch=batch(10, 10, 0))

    assert (after.upper, done.commit.updates) == (10, 0)
    assert after.batches == state.batches


def test_a_batch_without_parts_is_of_no_relation() -> None:
    newer = replace(NEW, relations=(replace(NEW.relation, version=3),))

    assert append(newer, 3000, token="t", lower=0, upper=10, batch=batch(0, 10, 0))[0].upper == 10
    with pytest.raises(InvalidRequest, match="relation version"):
        append(newer, 3000, token="t", lower=0, upper=10, batch=batch(0, 10, 4))


def test_a_new_manifest_that_contradicts_itself_takes_no_others_place() -> None:
    state = filled(4)
    [old] = state.batches

    with pytest.raises(InvalidRequest, match="contradicts itself"):
        replace_manifests(state, 3000, {str(old.manifest): replace(old, manifest="new", parts=7)})


def test_since_that_stays_has_not_moved() -> None:
    state = replace(filled(4, 4), since=7)

    for since in (3, 7):
        after, advanced = advance_since(state, 3000, since)
        assert (after, advanced.since, advanced.moved) == (state, 7, False)
