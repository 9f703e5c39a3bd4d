"""Law: the difference of two times is one snapshot without the other, however parts lie."""

from collections import Counter
from functools import partial

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata.compact import compact_shard
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.read.changed import plan_changed
from strata.shard import Shard
from strata.state.schema import AddColumn
from strata.state.transitions import advance_since
from tests.laws.test_changes import History
from tests.support.stored import append, create, histories, memory_stores, settings
from tests.support.updates import table

PLAIN = Relation(
    0, (Column(1, "c1", parse_type("int32")), Column(2, "c2", parse_type("string"))), (1,), ()
)


def counted(batches: object, columns: int) -> Counter[str]:
    """Return how often each row is there, as its text; what adds up to nothing is left out."""
    found: Counter[str] = Counter()
    for batch in batches:  # type: ignore[attr-defined]
        rows = zip(*(batch.column(i).to_pylist() for i in range(columns)), strict=True)
        for row, d in zip(rows, batch.column("d").to_pylist(), strict=True):
            found[repr(row)] += d
    return Counter({row: d for row, d in found.items() if d})


def slow(shard: Shard, first: int, second: int, where: str | None) -> Counter[str]:
    """Return the difference the slow way: read both times, and subtract."""
    columns = len(shard.state().relation.columns)
    before, after = (
        counted(shard.scan(as_of=time, where=where), columns) for time in (first, second)
    )
    after.subtract(before)
    return Counter({row: d for row, d in after.items() if d})


@given(histories() | histories(PLAIN), st.data())
def test_a_difference_is_one_snapshot_without_the_other(
    history: History, data: st.DataObject
) -> None:
    relation, batches = history
    stores = memory_stores()
    create(stores, relation)
    for lower, end, runs in batches:
        append(stores, "shard", lower, end, runs)
        if data.draw(st.booleans()):
            since = data.draw(st.integers(0, end - 1))
            Machine(stores).apply("shard", partial(advance_since, since=since))
            compact_shard(stores, "shard", settings(history_ms=None), full=data.draw(st.booleans()))
    shard = Shard(stores, "shard")
    if data.draw(st.booleans()):
        shard.evolve(AddColumn("new", parse_type("int64"), default=7))
    state = shard.state()
    first, second = sorted(
        data.draw(st.tuples(*[st.integers(max(state.since, 0), state.upper - 1)] * 2))
    )
    where = None
    if relation is PLAIN:
        where = data.draw(st.sampled_from([None, "c1 > 0", "c2 = 'a'", "c1 < 1 and c2 <> 'ab'"]))

    batches_found = [*shard.changed_rows(first, second, where=where)]

    columns = len(state.relation.columns)
    found = counted(batches_found, columns)
    assert found == slow(shard, first, second, where)
    assert sum(batch.num_rows for batch in batches_found) == len(found)
    assert all(0 not in batch.column("d").to_pylist() for batch in batches_found)


def test_only_parts_with_later_updates_are_read() -> None:
    stores = memory_stores()
    create(stores, PLAIN)
    for day in range(20):
        rows: list[tuple[object, ...]] = [(day, "x", 10 * day + i, 1) for i in range(3)]
        append(stores, "shard", 10 * day, 10 * day + 10, [table(PLAIN, rows)])
    state = Machine(stores).load("shard")

    wanted = plan_changed(stores, state, 179, 199)

    assert (wanted.parts, wanted.plan.parts_total) == (2, 20)
    assert plan_changed(stores, state, 199).parts == 0
    assert pa.Table.from_batches(Shard(stores, "shard").changed_rows(189))["c1"].to_pylist() == [19]
