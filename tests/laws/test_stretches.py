"""A merge that is cut one stretch at a time writes the rows of one that is cut as a whole."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.audit.batches import look
from strata.compact import compact_shard, stretches
from strata.compact.report import RequestReport
from strata.compact.stretches import Stretches, in_stretches
from strata.errors import Corrupt
from strata.format.manifest import part_refs
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts.manifests import load_manifest_of
from strata.read.scan import read_updates
from strata.state.spine import full_request
from strata.state.transitions import advance_since
from strata.store.open import Stores
from tests.support.paged import cut
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores, snapshot
from tests.support.stored import settings as of_compaction
from tests.support.updates import table

RELATION = Relation(
    0, (Column(1, "c", parse_type("string")), Column(2, "n", parse_type("int64"))), (1,), ()
)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 120).map(lambda n: f"{'x' * (n % 70)}{n:03}"),
        st.integers(0, 1),
        st.sampled_from([1, 1, 1, -1]),
    ),
    min_size=1,
    max_size=40,
)


@contextmanager
def few(parts: int) -> Iterator[None]:
    """Cut stretches of about this many parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "STRETCH_PARTS", parts)
        patch.setattr(stretches, "PAGES_PARTS", 2)
        yield


def stored(runs: list[list[tuple[str, int, int]]], part_bytes: int, since: int) -> Stores:
    """Return a shard with a batch of each run, in small parts."""
    stores = memory_stores()
    create(stores, RELATION, part_bytes=part_bytes, row_group_bytes=part_bytes // 2)
    for at, rows in enumerate(runs):
        append(stores, "shard", at, at + 1, [table(RELATION, [(*r[:2], at, r[2]) for r in rows])])
    Machine(stores).apply("shard", partial(advance_since, since=since))
    return stores


def merged(stores: Stores, memory_bytes: int) -> tuple[RequestReport, pa.Table]:
    """Merge everything; return the report, and all rows in the order of their parts."""
    (report,) = compact_shard(
        stores, "shard", of_compaction(memory_bytes=memory_bytes), full=True
    ).requests
    state = Machine(stores).load("shard")
    (batch,) = (b for b in state.batches if b.manifest) if report.parts_out else (None,)
    refs = [] if batch is None else part_refs(load_manifest_of(stores.blob, "shard", batch))
    assert [finding for one in look(stores, state) for finding in one.findings] == []
    rows = [read_updates(stores, state, ref) for ref in refs]
    return report, pa.concat_tables(rows).combine_chunks() if rows else pa.table({})


@settings(max_examples=tries(6, 600), deadline=None)
@given(
    runs=st.lists(ROWS, min_size=2, max_size=4),
    part_bytes=st.sampled_from([300, 2000]),
    memory_bytes=st.sampled_from([40_000, 2**30]),
    parts=st.integers(1, 4),
    paged=st.booleans(),
    data=st.data(),
)
def test_the_rows_are_those_of_a_merge_that_is_cut_as_a_whole(
    runs: list[list[tuple[str, int, int]]],
    part_bytes: int,
    memory_bytes: int,
    parts: int,
    paged: bool,
    data: st.DataObject,
) -> None:
    since = data.draw(st.integers(0, len(runs) - 1))
    pages = (2, 2) if paged else (10_000,)
    with cut(*pages):
        plain, other = (stored(runs, part_bytes, since) for _ in range(2))
        before = snapshot(plain, "shard")
        with few(100_000):
            whole, rows = merged(plain, memory_bytes)
        with few(parts):
            apart, found = merged(other, memory_bytes)

    assert found.equals(rows)
    assert snapshot(other, "shard") == before
    assert (apart.parts_in, apart.updates_out) == (whole.parts_in, whole.updates_out)
    assert apart.parts_kept <= apart.parts_out


def ordered(run: int) -> pa.Table:
    return table(RELATION, [(f"{run}{n:05}{letters(n)}", n, run, 1) for n in range(60)])


def letters(number: int) -> str:
    """Return a text of its own that cannot be compressed much."""
    return blake2b(str(number).encode()).hexdigest()


def disjoint() -> Stores:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=500)
    for run in range(3):
        append(stores, "shard", run, run + 1, [ordered(run)])
    return stores


def test_parts_that_stand_apart_are_kept_but_where_stretches_meet() -> None:
    with cut(4, 4):
        stores = disjoint()
        with few(5):
            (report,) = compact_shard(stores, "shard", of_compaction(), full=True).requests

    assert report.parts_in > 20
    assert report.parts_kept >= report.parts_in - 2 * (report.parts_in // 5 + 1)
    assert report.outcome == "applied"


def test_one_run_that_is_merged_already_is_kept_as_it_is() -> None:
    with cut(4, 4), few(5):
        one = memory_stores()
        create(one, RELATION, part_bytes=500)
        append(one, "shard", 0, 1, [ordered(0)])
        several = disjoint()
        for stores, expected in ((one, True), (several, False)):
            state = Machine(stores).load("shard")
            request = full_request(state.spine, state.since, force=True)
            assert request is not None
            assert in_stretches(state, request)
            assert Stretches(stores, state, request, 2**30).unchanged == expected


def test_a_killed_merge_goes_on_in_the_stretch_where_it_was() -> None:
    options = of_compaction(chunk_bytes=1)
    with cut(4, 4), few(5):
        stores, undisturbed = disjoint(), disjoint()
        before = snapshot(stores, "shard")
        done: list[int] = []

        def dying(function: Callable[..., Any], items: Sequence[Any]) -> Iterator[Any]:
            for item in items:
                if len(done) == 7:
                    raise RuntimeError("the run was killed")
                done.append(1)
                yield function(item)

        def counting(function: Callable[..., Any], items: Sequence[Any]) -> Iterator[Any]:
            done.extend([1] * len(items))
            return map(function, items)

        with pytest.raises(RuntimeError, match="killed"):
            compact_shard(stores, "shard", options, dying, full=True)
        (report,) = compact_shard(stores, "shard", options, counting, full=True).requests
        (whole,) = compact_shard(undisturbed, "shard", options, full=True).requests

    assert (report.resumed, report.outcome) == (7, "applied")
    assert len(done) == report.tasks == whole.tasks
    assert report.parts_kept == whole.parts_kept
    assert snapshot(stores, "shard") == before
    states = [Machine(one).load("shard") for one in (stores, undisturbed)]
    assert states[0].batches == states[1].batches
    assert states[0].merging == ()


def test_a_manifest_that_contradicts_the_state_is_refused() -> None:
    with cut(4, 4), few(5):
        stores = disjoint()
        state = Machine(stores).load("shard")
        request = full_request(state.spine, state.since)
        assert request is not None
        wrong = replace(request.batches[0], digest=7)
        with pytest.raises(Corrupt, match="contradicts the state"):
            Stretches(stores, state, replace(request, batches=(wrong,)), 2**30)
