"""Law: changes under a filter are the changes that the filter accepts.

The twin reads all changes of the stretch and evaluates the filter on each row.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.machine.machine import Machine
from strata.model.time import MIN_TIME
from strata.plain.of_arrow import arrow_condition
from strata.plain.rows import accepts
from strata.plain.weaker import weaker
from strata.read.changes import Stretch, changes, plan_changes
from strata.shard import Shard
from strata.state.state import State
from strata.state.transitions import advance_since
from tests.laws.test_engines import TYPES, drawn, in_arrow
from tests.laws.test_values import stored_shards
from tests.support.sizes import tries
from tests.support.stored import settings

EXAMPLES = tries(4, 40)
LONG = 60  # times as many


@pytest.fixture(scope="module", params=["as written", "compacted", "in pages"])
def shard(request: pytest.FixtureRequest) -> Iterator[Shard]:
    cut = "with retractions, in pages" if request.param == "in pages" else "with retractions"
    for found in stored_shards(cut):
        if request.param == "compacted":
            Machine(found.stores).apply(found.name, partial(advance_since, since=2))
            compact_shard(found.stores, found.name, settings(history_ms=None), full=True)
        yield found


def rows_of(batches: Iterator[pa.RecordBatch], names: list[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for batch in batches:
        found.update(repr(tuple(row.values())) for row in batch.select(names).to_pylist())
    return found


def twin(shard: Shard, state: State, stretch: Stretch, filter: Filter) -> Iterator[pa.RecordBatch]:
    for batch in changes(shard.stores, state, stretch):
        yield batch.filter(accepts(batch, filter.expr))


def check(shard: Shard, draw: random.Random) -> int:
    """Compare one stretch; return how many parts the filter saved."""
    state = shard.state()
    first = max(state.since + 1, 0)
    upper = draw.randint(first, state.upper)
    lower = draw.choice([MIN_TIME, *range(first, upper + 1)])
    recipe = drawn(draw, draw.choice((0, 0, 1, 2)))
    filter = weaker(state.relation, arrow_condition(in_arrow(recipe)), 0)
    if filter is None:
        return 0
    mode = draw.choice(("on", "on", "on", "audit", "soft", "off"))
    if draw.random() < 0.2:
        part = draw.choice(plan_read(shard.stores, state).fetched).key
        state = replace(state, rollout=replace(state.rollout, quarantine=(part,)))
    state = replace(state, rollout=replace(state.rollout, audit_percent=30))
    columns = draw.choice([None, draw.sample(list(TYPES), 2)])
    names = [*(TYPES if columns is None else columns), "t", "d"]

    every = plan_changes(shard.stores, state, lower, upper)
    stretch = plan_changes(shard.stores, state, lower, upper, filter=filter, mode=mode)
    found = changes(shard.stores, state, stretch, filter=filter, columns=columns)

    where = (filter.sql, lower, upper, mode, columns)
    assert rows_of(found, names) == rows_of(twin(shard, state, every, filter), names), where
    assert {ref.key for ref in stretch.parts} <= {ref.key for ref in every.parts}
    if mode in ("soft", "off"):
        assert len(stretch.parts) == len(every.parts)
    return len(every.parts) - len(stretch.parts)


def test_filtered_changes_are_those_that_the_filter_accepts(shard: Shard) -> None:
    draw = random.Random(7)
    assert sum(check(shard, draw) for _ in range(EXAMPLES)) > EXAMPLES  # a filter saves parts


@pytest.mark.long
@pytest.mark.parametrize("seed", range(LONG))
def test_many_filtered_changes_are_those_that_the_filter_accepts(shard: Shard, seed: int) -> None:
    draw = random.Random(1000 + seed)
    for _ in range(EXAMPLES):
        check(shard, draw)
