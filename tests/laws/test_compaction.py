"""Law 3: compaction changes no snapshot at or after since; idempotent and deterministic."""

from collections import Counter
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.machine.machine import Machine
from strata.model.runner import threads
from strata.model.schema import Column, Relation
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.read.scan import scan, slices
from strata.state.transitions import advance_since
from strata.store.open import Stores
from tests.support.stored import append, create, histories, memory_stores, settings, snapshot
from tests.support.updates import POOLS, contents, plain_rows, table

LAYOUTS = ["row", "both", "structured"]
History = tuple[Relation, list[tuple[int, int, list[pa.Table]]]]


def store(history: History, layouts: list[str], **changes: object) -> Stores:
    """Return stores that hold the history as the shard `shard`."""
    relation, batches = history
    stores = memory_stores()
    create(stores, relation, **changes)
    for number, (lower, upper, runs) in enumerate(batches):
        append(stores, "shard", lower, upper, runs, layouts[number % len(layouts)])
    return stores


def counted(history: History, as_of: int) -> Counter:
    """Return the snapshot by counting everything that was ever appended."""
    relation, batches = history
    tables = [run for _, _, runs in batches for run in runs]
    counts: Counter = Counter()
    for update, diff in contents(tables, relation).items():
        if update[-1] <= as_of:
            counts[*update[:-1], as_of] += diff
    return Counter({row: diff for row, diff in counts.items() if diff})


def as_counter(rows: list[tuple[object, ...]]) -> Counter:
    found = Counter({row[:-1]: row[-1] for row in rows})
    assert len(found) == len(rows)
    return found


@given(histories(), st.data())
def test_a_consolidated_read_counts_like_a_counter(history: History, data: st.DataObject) -> None:
    layouts = data.draw(st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=3))
    stores = store(history, layouts)

    for as_of in range(history[1][-1][1]):
        assert as_counter(snapshot(stores, "shard", as_of)) == counted(history, as_of)


@given(histories(), st.integers(100, 5000))
def test_slices_of_a_read_are_the_read(history: History, slice_bytes: int) -> None:
    stores = store(history, LAYOUTS)
    state = Machine(stores).load("shard")
    plan = plan_read(stores, state)

    pieces = slices(state, plan, slice_bytes)
    read = [list(scan(stores, state, plan, consolidate=True, within=piece)) for piece in pieces]

    columns = [*(str(c.id) for c in state.relation.columns), "t", "d"]
    rows = [
        row
        for batches in read
        for batch in batches
        for row in plain_rows(batch.rename_columns(columns), state.relation)
    ]
    assert rows == snapshot(stores, "shard")


@given(histories(), st.data())
def test_compaction_changes_no_snapshot_from_since(history: History, data: st.DataObject) -> None:
    layouts = data.draw(st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=3))
    upper = history[1][-1][1]
    memory = data.draw(st.sampled_from([4_000, 40_000, 2**30]))
    stores = store(history, layouts, write_format=data.draw(st.sampled_from(LAYOUTS)))
    since = data.draw(st.integers(-1, upper - 1))
    if since >= 0:
        Machine(stores).apply("shard", partial(advance_since, since=since))

    for full in data.draw(st.lists(st.booleans(), min_size=1, max_size=3)):
        report = compact_shard(stores, "shard", settings(memory_bytes=memory), full=full)

        assert not report.not_applied
        for as_of in range(max(since, 0), upper):
            assert as_counter(snapshot(stores, "shard", as_of)) == counted(history, as_of)
    state = Machine(stores).load("shard")
    assert state.since == (since if since >= 0 else MIN_TIME)


@given(histories(), st.data())
def test_full_compaction_leaves_one_run_and_then_nothing_to_do(
    history: History, data: st.DataObject
) -> None:
    stores = store(history, data.draw(st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=3)))
    upper = history[1][-1][1]

    compact_shard(stores, "shard", settings(history_ms=1), full=True)
    once = Machine(stores).load("shard")
    again = compact_shard(stores, "shard", settings(history_ms=1), full=True)

    assert sum(len(b.runs) for b in once.batches) <= 1
    assert sum(b.updates for b in once.batches) == len(counted(history, upper - 1))
    assert again.requests == ()
    assert again.idle_reason
    assert Machine(stores).load("shard") == once


@given(histories(), st.data())
def test_the_same_inputs_give_the_same_bytes(history: History, data: st.DataObject) -> None:
    """Also when the work is done by several threads, and whatever was done before."""
    relation, batches = history
    memory = data.draw(st.sampled_from([4_000, 2**30]))
    outputs = []
    for runner in (None, threads(3)):
        stores = store((relation, batches), ["both"])
        kwargs = {} if runner is None else {"runner": runner}
        compact_shard(stores, "shard", settings(memory_bytes=memory), full=True, **kwargs)
        outputs.append(Machine(stores).load("shard").batches)

    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("full", [True, False])
def test_a_merge_by_hand_and_many_small_ones_read_the_same(full: bool) -> None:
    types = ["string", "float64", "jsonb"]
    columns = tuple(Column(i, f"c{i}", parse_type(t)) for i, t in enumerate(types, 1))
    relation = Relation(0, columns, (1,), ())
    batches = []
    for day in range(40):
        rows = [
            (text, number, document, day, 1 if (day + i) % 3 else -1)
            for i, (text, number, document) in enumerate(
                zip(POOLS["string"] * 2, POOLS["float64"] * 3, POOLS["jsonb"] * 3, strict=False)
            )
        ]
        batches.append((day, day + 1, [table(relation, rows)]))
    stores = memory_stores()
    create(stores, relation)
    for lower, upper, runs in batches:
        append(stores, "shard", lower, upper, runs)
        if not full:
            compact_shard(stores, "shard", settings(history_ms=5))
    if full:
        compact_shard(stores, "shard", settings(history_ms=5), full=True)

    state = Machine(stores).load("shard")
    assert state.since == 35
    assert len(state.batches) <= (1 if full else 8)
    for as_of in range(state.since, 40):
        found = as_counter(snapshot(stores, "shard", as_of))
        assert found == counted((relation, batches), as_of)
