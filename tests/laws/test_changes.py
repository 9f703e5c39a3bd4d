"""Law: changes that follow one another hold each update once, whatever compaction did between."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.compact import compact_shard
from strata.errors import InvalidRequest
from strata.format.columns import D, T, updates_schema
from strata.format.values.view import to_view
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.read.changes import changes, listen, plan_changes
from strata.state.transitions import advance_since
from tests.support.stored import append, create, histories, memory_stores, settings

History = tuple[Relation, list[tuple[int, int, list[pa.Table]]]]


class _Enough(Exception):
    """Nothing new: stop listening."""


def enough() -> None:
    raise _Enough


def tally(tables: Iterable[pa.Table]) -> Counter[str]:
    """Return how often each row and time was added, taken back as often left out."""
    found: Counter[str] = Counter()
    for table in tables:
        *values, diffs = table.columns
        rows = zip(*(column.to_pylist() for column in values), strict=True)
        for row, d in zip(rows, diffs.to_pylist(), strict=True):
            found[repr(row)] += d
    return Counter({row: d for row, d in found.items() if d})


def shown(runs: Iterable[pa.Table], relation: Relation) -> Counter[str]:
    """Return the same of updates as they were written, in the view of readers."""
    seen = []
    for run in runs:
        batch = run.combine_chunks()
        columns = [to_view(_one(batch[str(c.id)]), c.type) for c in relation.columns]
        seen.append(
            pa.table([*columns, batch[T], batch[D]], names=[*map(str, range(len(columns))), T, D])
        )
    return tally(seen)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


@given(histories(), st.data())
def test_stretches_hold_each_update_once(history: History, data: st.DataObject) -> None:
    relation, batches = history
    stores = memory_stores()
    create(stores, relation)
    upper, heard = MIN_TIME, []
    for lower, end, runs in batches:
        append(stores, "shard", lower, end, runs)
        if data.draw(st.booleans()):  # the listener may sleep through some batches
            state = Machine(stores).load("shard")
            stretch = plan_changes(stores, state, upper)
            heard += [pa.Table.from_batches([b]) for b in changes(stores, state, stretch)]
            upper = stretch.upper
        # History that was heard may be given up.
        since = min(upper - 1, state_upper(stores) - 1) if upper > MIN_TIME else MIN_TIME
        Machine(stores).apply("shard", partial(advance_since, since=since))
        compact_shard(stores, "shard", settings(history_ms=None), full=data.draw(st.booleans()))
    with suppress(_Enough):
        for stretch, rows in listen(stores, "shard", upper, wait=enough):
            assert stretch.lower == upper
            heard += [pa.Table.from_batches([b]) for b in rows]

    assert tally(heard) == shown([run for _, _, runs in batches for run in runs], relation)


def state_upper(stores: Any) -> int:
    return Machine(stores).load("shard").upper


def test_a_listener_that_compaction_has_overtaken_is_told() -> None:
    relation, batches = fixed_history()
    stores = memory_stores()
    create(stores, relation)
    for lower, end, runs in batches:
        append(stores, "shard", lower, end, runs)
    Machine(stores).apply("shard", partial(advance_since, since=10))
    state = Machine(stores).load("shard")

    for lower, upper in ((5, 20), (10, 20), (MIN_TIME, 10)):
        with pytest.raises(InvalidRequest, match="moved") as caught:
            plan_changes(stores, state, lower, upper)
        assert caught.value.details["since"] == 10
    assert plan_changes(stores, state, 11, 20).parts
    assert plan_changes(stores, state, MIN_TIME, 20).parts
    with pytest.raises(InvalidRequest, match="upper"):
        plan_changes(stores, state, 11, 21)


def fixed_history() -> History:
    relation = Relation(0, (Column(1, "id", parse_type("int64")),), (1,), ())
    schema = updates_schema(relation)
    tables = [
        pa.table([[start, start + 1], [start, start + 5], [1, 1]], schema=schema)
        for start in (0, 10)
    ]
    return relation, [(0, 10, [tables[0]]), (10, 20, [tables[1]])]
