"""The spine stays short, rewrites little, and loses no race wrongly."""

import random
from dataclasses import replace
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Corrupt, InvalidRequest
from strata.model.time import MIN_TIME
from strata.state import spine as spines
from strata.state.spine import MergeRequest, MergeResult, NotApplied
from strata.state.state import Spine
from tests.support.batches import batch, merged

SIZES = st.lists(st.one_of(st.just(0), st.integers(1, 3), st.integers(1, 5000)), max_size=60)


def grow(sizes: list[int], spine: Spine | None = None, at: int = 0) -> Spine:
    spine = spine or Spine()
    for number, updates in enumerate(sizes, at):
        spine = spines.insert(spine, batch(number * 10, number * 10 + 10, updates))
    return spine


def result_of(request: MergeRequest, updates: int | None = None) -> MergeResult:
    return MergeResult(
        request.id_lower,
        request.id_upper,
        request.manifests,
        merged(request.batches, request.since, updates),
    )


def levels(spine: Spine) -> list[int]:
    return [slot.level for slot in spine.slots]


def shape(spine: Spine) -> list[list[int]]:
    return [[b.updates for b in slot.batches] for slot in spine.slots]


def test_a_level_is_the_rounded_up_logarithm() -> None:
    for updates in range(2, 3000):
        assert spines.level_of(updates) == ceil(log2(updates))
    assert spines.level_of(0) == spines.level_of(1) == 0


def test_smaller_batches_stay_apart_and_others_come_together() -> None:
    assert shape(grow([16, 4, 1])) == [[16], [4], [1]]
    assert shape(grow([16, 4, 4])) == [[16], [4, 4]]
    assert shape(grow([16, 4, 16])) == [[16, 4, 16]]
    assert shape(grow([32, 4, 2, 3])) == [[32], [4, 2, 3]]


def test_empty_batches_become_one_without_a_merge() -> None:
    spine = grow([100] + [0] * 50)
    assert shape(spine) == [[100], [0]]
    assert spine.slots[1].batches[0].upper == 510
    assert spines.requests(spine, 0) == []
    assert spines.problems(spine, 0, 510) == []


@given(SIZES)
def test_the_structure_is_sound_after_any_appends(sizes: list[int]) -> None:
    spine = grow(sizes)
    assert spines.problems(spine, 0, len(sizes) * 10) == []
    filled = [b.updates for slot in spine.slots for b in slot.batches if b.updates]
    assert filled == [n for n in sizes if n]
    for request in spines.requests(spine, 5):
        assert len(request.manifests) >= 2
        assert request.reason


@given(SIZES, st.integers(0, 700))
def test_after_every_due_merge_each_slot_is_one_run(sizes: list[int], since: int) -> None:
    spine = grow(sizes)
    for request in spines.requests(spine, since):
        applied = spines.apply(spine, result_of(request), since)
        assert isinstance(applied, Spine)
        spine = applied
    assert spines.requests(spine, since) == []
    assert spines.problems(spine, 0, len(sizes) * 10) == []
    assert spines.idle_reason(spine)


def test_a_hundred_thousand_appends_keep_slots_and_rewrites_logarithmic() -> None:
    """Each append is followed by the merges that are due; nothing consolidates away.

    `rewrites` counts, per append, how often its updates were written again.
    """
    source, spine, total = random.Random(3), Spine(), 0
    rewrites: dict[str, int] = {}  # manifest -> the most that any update in it was written again
    longest = 0
    for number in range(100_000):
        updates = source.choice([0, 1, 1, 2, 10, source.randrange(1, 1000), 40_000])
        new = batch(number, number + 1, updates)
        if new.manifest:
            rewrites[new.manifest] = 0
        total += updates
        spine = spines.insert(spine, new)
        for request in spines.requests(spine, 0):
            result = result_of(request)
            assert result.batch.manifest
            rewrites[result.batch.manifest] = 1 + max(rewrites.pop(m) for m in request.manifests)
            applied = spines.apply(spine, result, 0)
            assert isinstance(applied, Spine)
            spine = applied
        longest = max(longest, len(spine.slots))

    depth = ceil(log2(total))
    assert longest <= depth + 1
    assert max(rewrites.values()) <= depth + 1
    assert sum(len(slot.batches) for slot in spine.slots) <= 3 * (depth + 1)
    assert spines.problems(spine, 0, 100_000) == []


def test_work_stays_logarithmic_when_consolidation_shrinks_every_merge() -> None:
    """Every merge halves its input; the work is paid for by what vanishes."""
    source, spine, total, written = random.Random(4), Spine(), 0, 0
    for number in range(5_000):
        updates = source.choice([1, 2, 50, source.randrange(1, 300)])
        total += updates
        spine = spines.insert(spine, batch(number, number + 1, updates))
        while due := spines.requests(spine, 0):
            inputs = sum(b.updates for b in due[0].batches)
            written += inputs
            applied = spines.apply(spine, result_of(due[0], max(1, inputs // 2)), 0)
            assert isinstance(applied, Spine)
            spine = applied
    assert spines.problems(spine, 0, 5_000) == []
    assert written <= total * ceil(log2(total))
    assert len(spine.slots) <= ceil(log2(total)) + 1


def test_a_batch_of_several_runs_is_due_alone() -> None:
    spine = spines.insert(Spine(), batch(0, 10, 8, runs=3))
    (request,) = spines.requests(spine, 4)
    assert (request.lower, request.upper, request.since) == (0, 10, 4)
    assert "3 runs" in request.reason
    assert "one sorted run" in spines.idle_reason(grow([8]))
    assert "no updates" in spines.idle_reason(grow([0]))


def test_everything_can_be_asked_for_until_it_is_one_run_at_since() -> None:
    spine = grow([16, 4, 1])
    request = spines.full_request(spine, 5)
    assert request is not None
    assert (request.id_lower, request.id_upper, request.lower, request.upper) == (0, 3, 0, 30)
    done = spines.apply(spine, result_of(request), 5)
    assert isinstance(done, Spine)
    assert shape(done) == [[21]]
    assert spines.full_request(done, 5) is None
    assert spines.full_request(done, 6) is not None
    assert spines.full_request(done, 5, force=True) is not None
    assert spines.full_request(grow([0, 0]), 5) is None


@given(SIZES.filter(any), SIZES, st.integers(0, 5))
def test_appends_in_between_do_not_disturb_a_merge(
    sizes: list[int], later: list[int], pick: int
) -> None:
    """Also when they have joined its slot, or lengthened the empty batch at its end."""
    spine = grow(sizes)
    asked = [*spines.requests(spine, 0), spines.full_request(spine, 0)]
    request = asked[pick % len(asked)]
    if request is None:
        return
    grown = grow(later, spine, len(sizes))
    applied = spines.apply(grown, result_of(request), 0)
    assert isinstance(applied, Spine)
    assert spines.problems(applied, 0, (len(sizes) + len(later)) * 10) == []
    before = [b for slot in grown.slots for b in slot.batches if b.manifest]
    after = [b for slot in applied.slots for b in slot.batches if b.manifest]
    assert [b for b in before if b.manifest not in request.manifests] == [
        b for b in after if not str(b.manifest).startswith("merged")
    ]
    assert sum(b.updates for b in after) == sum(b.updates for b in before)


def test_of_two_merges_of_the_same_inputs_the_second_is_dropped() -> None:
    spine = grow([4, 4])
    (request,) = spines.requests(spine, 0)
    first = spines.apply(spine, result_of(request), 0)
    assert isinstance(first, Spine)
    assert spines.apply(first, result_of(request), 0) is first, "the same result is there already"

    other = replace(
        result_of(request), batch=replace(result_of(request).batch, manifest="another writer")
    )
    assert isinstance(spines.apply(first, other, 0), NotApplied)


def test_a_merge_of_what_is_partly_gone_is_dropped() -> None:
    spine = grow([16, 4, 4])
    everything = spines.full_request(spine, 0)
    (last_two,) = spines.requests(spine, 0)
    assert everything is not None
    done = spines.apply(spine, result_of(last_two), 0)
    assert isinstance(done, Spine)
    assert isinstance(spines.apply(done, result_of(everything), 0), NotApplied)


@pytest.mark.parametrize("number", [0, 1])
def test_of_two_batches_with_one_manifest_the_one_in_its_bounds_is_merged(number: int) -> None:
    """No append lets that in; a shard of before may have it."""
    both = [batch(0, 10, 9, manifest="same", runs=2), batch(10, 20, 9, manifest="same", runs=2)]
    spine = Spine()
    for one in both:
        spine = spines.insert(spine, one)
    mine = both[number]
    new = merged((mine,), 0)

    applied = spines.apply(spine, MergeResult(0, 2, ("same",), new), 0)

    assert isinstance(applied, Spine)
    kept = [b for slot in applied.slots for b in slot.batches]
    assert kept == [new, both[1]] if number == 0 else [both[0], new]
    again = spines.apply(applied, MergeResult(0, 2, ("same",), new), 0)
    assert again == applied  # it is there: the other batch is not touched
    (request,) = spines.requests(applied, 0)
    assert len(request.manifests) == 2
    assert not isinstance(spines.apply(applied, result_of(request), 0), NotApplied)


def test_a_merge_that_replaces_nothing_or_not_neighbours_is_dropped() -> None:
    spine = grow([16, 4, 1])
    request = spines.full_request(spine, 0)
    assert request is not None
    result = result_of(request)
    first, second, third = request.manifests
    for replaced in (
        (),
        ("unknown",),
        (first, third),
        (third, second, first),
        (first, second, third, "more"),
    ):
        assert isinstance(spines.apply(spine, replace(result, replaced=replaced), 0), NotApplied)


def test_a_merge_may_take_the_empty_time_around_it_but_no_more() -> None:
    spine = grow([64, 0, 4, 4, 0, 1])
    (request,) = spines.requests(spine, 0)
    result = result_of(request)
    for lower, upper, taken in (
        (10, 40, (10, 40)),
        (20, 40, (20, 40)),
        (15, 45, (15, 45)),
        (20, 50, (20, 50)),
        (0, 60, (10, 50)),
        (-5, 99, (10, 50)),
    ):
        wider = replace(result, batch=replace(result.batch, lower=lower, upper=upper))
        applied = spines.apply(spine, wider, 0)
        assert isinstance(applied, Spine)
        assert spines.problems(applied, 0, 60) == []
        (new,) = (b for s in applied.slots for b in s.batches if b.updates == 8)
        assert (new.lower, new.upper) == taken
    for lower, upper in ((21, 40), (20, 39)):
        narrower = replace(result, batch=replace(result.batch, lower=lower, upper=upper))
        assert isinstance(spines.apply(spine, narrower, 0), NotApplied)


@pytest.mark.parametrize("since", [MIN_TIME, 4])
def test_a_merge_never_takes_since_back(since: int) -> None:
    spine = spines.insert(spines.insert(Spine(), batch(0, 10, 4, since=5)), batch(10, 20, 4))
    (request,) = spines.requests(spine, 7)
    late = replace(result_of(request), batch=replace(result_of(request).batch, since=since))
    assert isinstance(spines.apply(spine, late, 7), NotApplied)


def test_a_merge_that_kept_its_manifest_is_not_undone_by_a_slower_one() -> None:
    """Nothing to rewrite: only since and the bounds move, and the manifest is found again."""
    spine = grow([8, 0])
    kept = [
        replace(batch(0, 10, 8), lower=0, upper=upper, since=since)
        for upper, since in ((20, 5), (30, 5), (30, 9))
    ]
    slow, wide, far = (MergeResult(0, 2, ("manifest-0-10",), b) for b in kept)
    spine = grow([0], spine, 2)
    assert spines.apply(spine, slow, 9) != spine
    for faster in (wide, far):
        done = spines.apply(spine, faster, 9)
        assert isinstance(done, Spine)
        assert spines.apply(done, slow, 9) is done
        assert spines.problems(done, 0, 30) == []


def test_empty_time_that_a_neighbour_took_stays_with_it() -> None:
    """One merge took the empty time behind it while another, on the other side, was planned."""
    spine = grow([64, 0])
    left = MergeResult(0, 2, ("manifest-0-10",), replace(batch(0, 10, 64), upper=20))
    spine = grow([3, 3], spine, 2)
    (right,) = spines.requests(spine, 0)
    assert right.lower == 10
    done = spines.apply(spine, left, 0)
    assert isinstance(done, Spine)
    both = spines.apply(done, result_of(right), 0)
    assert isinstance(both, Spine)
    assert [(b.lower, b.upper) for s in both.slots for b in s.batches] == [(0, 20), (20, 40)]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"updates": 9}, InvalidRequest),
        ({"since": 8}, InvalidRequest),
        ({"diffs_sum": 7}, Corrupt),
        ({"digest": 15}, Corrupt),
    ],
)
def test_a_merge_that_does_not_say_the_same_is_refused(
    changes: dict[str, int], error: type[Exception]
) -> None:
    """Inputs: 4 and 4 updates, digests 7 and 7, one of them advanced to 5; the shard's since: 7."""
    spine = spines.insert(Spine(), batch(0, 10, 4, since=5))
    spine = spines.insert(spine, batch(10, 20, 4))
    (request,) = spines.requests(spine, 7)
    result = result_of(request)
    assert isinstance(spines.apply(spine, result, 7), Spine)
    with pytest.raises(error):
        spines.apply(spine, replace(result, batch=replace(result.batch, **changes)), 7)


def test_digests_add_up_modulo_two_to_the_64() -> None:
    spine = Spine()
    for number in range(2):
        spine = spines.insert(
            spine, batch(number * 10, number * 10 + 10, 4, digest=2**64 - 1 - number)
        )
    (request,) = spines.requests(spine, 0)
    assert result_of(request).batch.digest == 2**64 - 3
    assert isinstance(spines.apply(spine, result_of(request), 0), Spine)


def test_what_cancels_out_leaves_an_empty_batch() -> None:
    spine = spines.insert(Spine(), replace(batch(0, 10, 4, digest=5), diffs_sum=4))
    gone = replace(batch(10, 20, 4, digest=2**64 - 5), diffs_sum=-4)
    spine = spines.insert(spines.insert(spine, gone), batch(20, 30, 0))
    (request,) = spines.requests(spine, 0)
    applied = spines.apply(spine, result_of(request, 0), 0)
    assert isinstance(applied, Spine)
    assert shape(applied) == [[0]]
    assert spines.problems(applied, 0, 30) == []


def test_a_slot_without_ids_breaks_a_spine() -> None:
    spine = grow([16, 4])
    [first, second] = spine.slots
    without = replace(first, id_upper=first.id_lower)
    rest = replace(second, id_lower=first.id_lower, id_upper=first.id_lower + 1)

    found = spines.problems(Spine((without, rest), rest.id_upper), 0, 20)

    assert found == ["slot ids do not follow one another at 0"]


def test_a_merge_says_what_it_is_due_for() -> None:
    [two] = spines.requests(grow([16, 16]), 0)
    [runs] = spines.requests(spines.insert(Spine(), batch(0, 10, 9, runs=3)), 0)
    [old] = spines.requests(grow([16]), 0, lambda _: "another layout")

    assert two.reason == "2 batches (2 runs) of one level"
    assert runs.reason == "one batch of 3 runs"
    assert old.reason == "written in another layout"
