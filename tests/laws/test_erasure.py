"""Law: an erasure takes the rows out of every snapshot at or after since, and no other row."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata.compact import compact_shard
from strata.erase import Eraser, ErasureRequest
from strata.erase.remove import parts_of
from strata.expr.filter import Filter
from strata.expr.nodes import Opaque
from strata.format.manifest import PartRef
from strata.kernels.arrays import Ints
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.read.scan import read_updates
from strata.state.spine import problems
from strata.state.state import State
from strata.state.transitions import advance_since
from strata.store.open import Stores
from tests.support.erasing import AT_ONCE, WHO
from tests.support.stored import append, create, histories, memory_stores, settings, snapshot
from tests.support.updates import plain_rows

LAYOUTS = ["row", "both", "structured"]
History = tuple[Relation, list[tuple[int, int, list[pa.Table]]]]


def shown(stores: Stores, state: State, ref: PartRef, column: int) -> list[str]:
    """Return a column as texts, so that NaN is equal to itself."""
    return [repr(value) for value in read_updates(stores, state, ref).column(column).to_pylist()]


def values(stores: Stores, column: int) -> list[str]:
    state = Machine(stores).load("shard")
    refs = parts_of(stores, state).values()
    return [value for ref in refs for value in shown(stores, state, ref, column)]


def erase(stores: Stores, column: int, value: str) -> dict[str, object]:
    def finder(state: State, refs: list[PartRef]) -> dict[str, Ints]:
        each = ((ref.key, shown(stores, state, ref, column)) for ref in refs)
        return {
            key: np.array([n for n, v in enumerate(found) if v == value], int)
            for key, found in each
        }

    filter = Filter(Opaque("a test finds the rows", "boolean"), f"{column} = {value}", 0, 0)
    work = Eraser(stores, ErasureRequest("shard", filter.sql), filter, finder, patience=AT_ONCE)
    return work.erase(at_ms=stores.clock(), **WHO)


def times(state: State) -> range:
    return range(max(state.since, 0), state.upper)


def snapshots(stores: Stores) -> dict[int, Counter[object]]:
    """Return how often each row is there at every readable time."""
    state = Machine(stores).load("shard")
    rows = {as_of: snapshot(stores, "shard", as_of) for as_of in times(state)}
    return {as_of: Counter({row[:-1]: row[-1] for row in some}) for as_of, some in rows.items()}


def without(stores: Stores, column: int, value: str) -> dict[int, Counter[object]]:
    """Return the snapshots without the rows of a value: the slow way, update by update."""
    state = Machine(stores).load("shard")
    updates = list(others(stores, state, column, value))
    found = {}
    for as_of in times(state):
        rows: Counter[object] = Counter()
        for *row, t, d in updates:
            if t <= as_of:
                rows[*row, as_of] += d
        found[as_of] = Counter({row: d for row, d in rows.items() if d})
    return found


def others(stores: Stores, state: State, column: int, value: str) -> Iterator[tuple[object, ...]]:
    for ref in parts_of(stores, state).values():
        rows = plain_rows(read_updates(stores, state, ref), state.relation)
        for row, text in zip(rows, shown(stores, state, ref, column), strict=True):
            if text != value:
                yield row


@given(histories(), st.data())
def test_the_rows_leave_every_snapshot_and_no_other_does(
    history: History, data: st.DataObject
) -> None:
    relation, batches = history
    layouts = data.draw(st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=3))
    stores = memory_stores()
    create(stores, relation)
    for number, (lower, upper, runs) in enumerate(batches):
        append(stores, "shard", lower, upper, runs, layouts[number % len(layouts)])
    machine = Machine(stores)
    since = data.draw(st.integers(0, batches[-1][1] - 1))
    machine.apply("shard", partial(advance_since, since=since))
    if data.draw(st.booleans()):
        compact_shard(stores, "shard", settings(min_inputs=2))
    column = data.draw(st.integers(0, len(relation.columns) - 1))
    there = values(stores, column)
    value = data.draw(st.sampled_from(sorted({*there, "'nobody'"})))
    wanted = without(stores, column, value)

    report = erase(stores, column, value)

    assert report["rows"] == there.count(value)
    assert value not in values(stores, column)
    assert snapshots(stores) == wanted
    state = machine.load("shard")
    assert problems(state.spine, state.spine.slots[0].batches[0].lower, state.upper) == []
    compact_shard(stores, "shard", settings(), full=True)  # compares sums and digests
    assert snapshots(stores) == wanted
