"""A consolidated read of very many parts, in stretches, gives the rows of one that holds all parts.

Twin: the same read cut as a whole, as one of few parts is.
"""

from collections.abc import Sequence
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.expr.filter import Filter
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.types import parse_type
from strata.read import stretches
from strata.read.merged import overlapping
from strata.read.scan import scan
from strata.read.stretches import ReadStretch, cut_stretch, nth_slice, stretches_of
from strata.state.schema import AddColumn, Change, DropColumn, SortBy, WidenColumn
from strata.state.state import State
from strata.store.open import Stores
from strata.updates.slices import WHOLE, Slice
from tests.support.paged import cut
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores
from tests.support.stretched import (
    FILTERS,
    RELATION,
    accepts,
    covers_once,
    ends_before,
    few,
    rows_of,
    shards,
    text,
)
from tests.support.updates import table

CHANGES: Final = (
    AddColumn("late", parse_type("int64"), nullable=True),
    DropColumn("x"),
    SortBy(("n", "c")),
    WidenColumn("x", parse_type("int64")),
)


def planned(stores: Stores, data: st.DataObject) -> tuple[State, ReadPlan]:
    state = Machine(stores).load("shard")
    as_of = data.draw(st.integers(0, state.upper - 1))
    return state, plan_read(stores, state, as_of=as_of)


@settings(max_examples=tries(25, 250), deadline=None)
@given(stores=shards(), parts=st.integers(1, 6), data=st.data())
def test_rows_of_stretches_are_those_of_a_read_that_holds_all_parts(
    stores: Stores, parts: int, data: st.DataObject
) -> None:
    state, plan = planned(stores, data)
    columns = data.draw(st.sampled_from([None, ["n"], ["x", "c"]]))
    edges = sorted(data.draw(st.sets(st.binary(min_size=1, max_size=3), max_size=2)))
    within = data.draw(st.sampled_from([WHOLE, *map(Slice, [b"", *edges], [*edges, None])]))
    whole = rows_of(scan(stores, state, plan, columns=columns, consolidate=True, within=within))

    with few(parts):
        assert stretches_of(state, plan) is not None or not plan.runs
        found = rows_of(scan(stores, state, plan, columns=columns, consolidate=True, within=within))

    assert found == whole


@settings(max_examples=tries(25, 250), deadline=None)
@given(stores=shards(), parts=st.integers(1, 6), data=st.data())
def test_a_stretch_has_the_parts_that_may_have_rows_in_it(
    stores: Stores, parts: int, data: st.DataObject
) -> None:
    state, plan = planned(stores, data)
    assume(plan.runs)

    with few(parts):
        whole = stretches_of(state, plan)
        assert whole is not None
        found = {one.within: one for one in whole.each()}

    assert covers_once(whole.slices, WHOLE)
    for within in whole.slices:
        wanted = overlapping(state, plan, within)
        runs = found[within].read(stores.blob) if within in found else ()
        assert_same_parts(runs, wanted, within)


def assert_same_parts(
    found: Sequence[Sequence[PartRef]], tried: Sequence[Sequence[PartRef]], within: Slice
) -> None:
    """Compare parts with what each would say; those that end before a slice may be left out."""
    mine = {ref for run in found for ref in run}
    left_out = [ref for run in tried for ref in run if ref not in mine]
    assert all(ends_before(ref, within) for ref in left_out)
    kept = [[ref for ref in run if ref in mine] for run in tried]
    assert [list(run) for run in found] == [run for run in kept if run]


KEYS = st.lists(st.sampled_from([0, 1, 255]), max_size=2).map(bytes)  # often equal


@given(
    st.tuples(KEYS, KEYS | st.none()).filter(lambda ends: ends[1] is None or ends[0] < ends[1]),
    st.lists(KEYS, max_size=6),
    st.integers(1, 5),
)
def test_the_tasks_of_a_stretch_share_it_wherever_it_is_cut(
    ends: tuple[bytes, bytes | None], edges: list[bytes], tasks: int
) -> None:
    within = Slice(*ends)
    cuts = [Slice(a, b) for a, b in zip([b"", *edges], [*edges, None], strict=True)]

    with patch.object(stretches, "cut", lambda *_: cuts):
        pieces = cut_stretch(within, (), (RELATION,), 1)
        shares = [nth_slice(within, (), (RELATION,), n, tasks) for n in range(tasks)]

    assert covers_once(pieces, within)
    filled = [one for one in shares if one is not None]
    assert covers_once(filled, within)
    assert len(filled) == min(tasks, len(pieces))


@settings(max_examples=tries(8, 200), deadline=None)
@given(stores=shards(), change=st.sampled_from(CHANGES), data=st.data())
def test_parts_of_an_older_relation_are_read_in_stretches_only_if_their_keys_are_whole(
    stores: Stores, change: Change, data: st.DataObject
) -> None:
    Machine(stores).evolve("shard", change)
    state, plan = planned(stores, data)
    whole = rows_of(scan(stores, state, plan, consolidate=True))

    with few(2):
        assert stretches_of(state, plan) is None
        assert rows_of(scan(stores, state, plan, consolidate=True)) == whole


def test_few_parts_are_not_read_in_stretches() -> None:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=300)
    rows = [(text(number), number, 1, 0, 1) for number in range(90)]
    state = append(stores, "shard", 0, 5, [table(RELATION, rows)])
    plan = plan_read(stores, state)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stretches, "MANY", 1)
        for parts, expected in ((plan.parts_fetched, True), (plan.parts_fetched - 1, False)):
            patched.setattr(stretches, "STRETCH_PARTS", parts)
            assert (stretches_of(state, plan) is None) == expected


@settings(max_examples=tries(25, 250), deadline=None)
@given(stores=shards(), parts=st.integers(1, 6), filter=FILTERS)
def test_chosen_row_groups_change_no_accepted_row(
    stores: Stores, parts: int, filter: Filter
) -> None:
    state = Machine(stores).load("shard")
    plain = rows_of(scan(stores, state, plan_read(stores, state), consolidate=True))
    plan = plan_read(stores, state, filter=filter, mode="on")

    with few(parts):
        found = rows_of(scan(stores, state, plan, consolidate=True))

    assert [r for r in found if accepts(filter, r)] == [r for r in plain if accepts(filter, r)]


def test_only_the_parts_of_a_stretch_are_held() -> None:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=300)
    rows = [(text(number), number, 1, 0, 1) for number in range(200)]
    with cut(2, 100):
        state = append(stores, "shard", 0, 5, [table(RELATION, rows)])
    plan = plan_read(stores, state)
    seen: list[int] = []

    def counted(self: ReadStretch, blob: Any) -> Any:
        runs = read(self, blob)
        seen.append(sum(map(len, runs)))
        return runs

    read = ReadStretch.read
    with few(4), patch.object(ReadStretch, "read", counted):
        list(scan(stores, state, plan, consolidate=True))

    assert len(seen) > 4
    assert max(seen) < plan.parts_fetched / 4
    assert plan.parts_fetched <= sum(seen) <= 2 * plan.parts_fetched
    assert "fetched" not in vars(plan)
