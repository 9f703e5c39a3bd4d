"""Parts that are kept by reference: none meets another, and the merge says the same with them."""

from dataclasses import replace
from functools import partial
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from strata.compact import compact_shard
from strata.compact.run import manifests_of
from strata.compact.tasks import merge_tasks
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.read.scan import read_updates
from strata.state.spine import full_request
from strata.state.transitions import advance_since
from strata.store.open import Stores
from strata.updates.apart import standing_apart
from tests.support.stored import append, create, memory_stores, settings, snapshot
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())
LETTERS = "abcdefgh"


def key(number: int) -> str:
    """Return a text that no dictionary makes short, longer than bounds in manifests."""
    return LETTERS[number % 8] * (number % 90) + f"{number:05}" * 9


@given(st.data())
def test_parts_are_kept_that_meet_no_other(data: st.DataObject) -> None:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=data.draw(st.sampled_from([1, 1500, 4096])))
    batches = data.draw(st.integers(1, 3))
    for time in range(batches):
        numbers = st.sets(st.integers(0, 300), min_size=1, max_size=60)
        mine = sorted(data.draw(numbers))
        append(
            stores, "shard", time, time + 1, [table(RELATION, [(key(n), time, 1) for n in mine])]
        )
    since = data.draw(st.integers(0, batches - 1))
    Machine(stores).apply("shard", partial(advance_since, since=since))
    state = Machine(stores).load("shard")
    before = snapshot(stores, "shard")
    request = full_request(state.spine, state.since, force=True)
    assert request is not None
    manifests = manifests_of(stores, state, request)
    parts = [ref for refs in manifests.values() for ref in refs]

    kept = standing_apart(parts, state.spec, RELATION, request.since)
    report = compact_shard(stores, "shard", settings(), full=True)

    rows = {ref.key: read_updates(stores, state, ref)["1"].to_pylist() for ref in parts}
    for ref in kept:
        low, high = min(rows[ref.key]), max(rows[ref.key])
        others = [r for other in parts if other.key != ref.key for r in rows[other.key]]
        assert not any(low.encode() <= row.encode() <= high.encode() for row in others)
        assert ref.t_low >= since
    assert snapshot(stores, "shard") == before
    assert [c for c, *_ in before] == sorted(c for c, *_ in before)
    if report.requests and not report.requests[0].by_reference:
        assert report.requests[0].parts_kept >= len(kept)


def letters(number: int) -> str:
    """Return a text of its own that cannot be compressed much."""
    return blake2b(str(number).encode()).hexdigest()


def stored_disjoint() -> Stores:
    """Return a shard of three batches, one after the other by key, each of several parts."""
    stores = memory_stores()
    create(stores, RELATION, part_bytes=6000)
    for run in range(3):
        rows = [(f"{run}{n:05}{letters(n)}", run, 1) for n in range(200)]
        append(stores, "shard", run, run + 1, [table(RELATION, rows)])
    return stores


def test_runs_that_do_not_meet_are_joined_without_being_read() -> None:
    stores = stored_disjoint()
    before, state = snapshot(stores, "shard"), Machine(stores).load("shard")
    inputs = {batch.manifest for batch in state.batches}

    report = compact_shard(stores, "shard", settings(), full=True)

    after = Machine(stores).load("shard")
    (request,) = report.requests
    assert request.parts_kept == request.parts_in == request.parts_out
    assert sum(len(b.runs) for b in after.batches) == 1
    assert {b.manifest for b in after.batches}.isdisjoint(inputs)
    assert all(b.stats_parts == b.parts for b in after.batches)
    assert snapshot(stores, "shard") == before


def test_what_needs_a_change_is_not_kept() -> None:
    stores = stored_disjoint()
    state = Machine(stores).load("shard")
    request = full_request(state.spine, state.since)
    assert request is not None
    parts = [ref for refs in manifests_of(stores, state, request).values() for ref in refs]
    relation, spec = state.relation, state.spec

    assert len(standing_apart(parts, spec, relation, request.since)) == len(parts)
    for changed in (
        replace(parts[1], t_low=request.since - 1),
        replace(parts[1], layout="row"),
        replace(parts[1], stats_version=None),
        replace(parts[1], size_bytes=1),
    ):
        others = [parts[0], changed, *parts[2:]]
        assert standing_apart(others, spec, relation, request.since) == [parts[0], *parts[2:]]
    for changed in (
        replace(parts[1], order=()),
        replace(parts[1], relation_version=7),
        replace(parts[0], key_low=b"", key_high=None),
    ):
        others = [parts[0], changed, *parts[2:]]
        assert standing_apart(others, spec, relation, request.since) == []
    edge = replace(parts[1], key_low=parts[0].key_high or b"")  # the same bound: they may meet
    assert parts[0] not in standing_apart([parts[0], edge], spec, relation, request.since)


def test_kept_parts_come_between_slices_that_are_cut_by_memory() -> None:
    stores = stored_disjoint()
    state = Machine(stores).load("shard")
    rows = [(f"1{n:05}{letters(-n)}", 3, 1) for n in range(1, 200)]
    append(stores, "shard", 3, 4, [table(RELATION, rows)])
    before, state = snapshot(stores, "shard"), Machine(stores).load("shard")
    request = full_request(state.spine, state.since)
    assert request is not None

    made = merge_tasks(
        state, request, manifests_of(stores, state, request), stores.settings, 20_000
    )
    report = compact_shard(stores, "shard", settings(memory_bytes=20_000), full=True)

    assert sum(len(task.kept) for task in made) == report.requests[0].parts_kept > 0
    assert len([task for task in made if task.runs]) > 1
    assert snapshot(stores, "shard") == before
