"""Law: least, greatest and distinct values, and whether there is a row, are what reading gives.

The twin reads every row, evaluates the filter on it, and adds up the diffs of each value in Python.
"""

import datetime as dt
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.format import manifest as manifests
from strata.parts import pages
from strata.parts.pages import PageSizes
from strata.plain.of_arrow import arrow_condition
from strata.plain.rows import accepts
from strata.plain.weaker import weaker
from strata.read.count import any_row
from strata.read.scan import scan
from strata.read.values import ValuesFound, distinct_values, extreme_value
from strata.shard import Shard
from strata.state.state import State
from tests.laws.test_engines import BATCHES, RELATION, ROWS, TYPES, cell, drawn, in_arrow
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

EXAMPLES = tries(3, 60)
LONG = 28  # times as many; 4 questions in each of 3 shapes
CUTS = {
    "added only": pages.SIZES,
    "with retractions": pages.SIZES,
    "with retractions, in pages": PageSizes(page_parts=2, index_rows=2, paged_parts=2),
}


@pytest.fixture(scope="module", params=list(CUTS), ids=list(CUTS))
def shard(request: pytest.FixtureRequest) -> Iterator[Shard]:
    yield from stored_shards(request.param)


def stored_shards(cut: str) -> Iterator[Shard]:
    """Yield one shard of many small parts, of one of `CUTS`; it is read while it is yielded."""
    draw = random.Random(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "SIZES", CUTS[cut])
        if "pages" in cut:
            patch.setattr(manifests, "PIECE_PARTS", 3)
        stores = memory_stores()
        create(stores, RELATION, part_bytes=2000, row_group_bytes=700)
        before: list[tuple[Any, ...]] = []
        for batch in range(BATCHES):
            rows = [
                (*(cell(draw, name, batch) for name in TYPES), batch, draw.choice((1, 1, 2)))
                for _ in range(ROWS)
            ]
            if "retractions" in cut and batch % 3 == 2:
                # All of an earlier batch, or some of it: its least value is there no more
                some = before if batch == 5 else draw.sample(before, len(before) // 2)
                rows += [(*row[:-2], batch, -row[-1]) for row in some]
            append(stores, "shard", batch, batch + 1, [table(RELATION, rows)])
            before = rows[:ROWS]
        yield Shard(stores, "shard")


_ROWS: dict[tuple[str, int], list[pa.RecordBatch]] = {}


def every_row(shard: Shard, state: State, at: int) -> list[pa.RecordBatch]:
    known = (shard.stores.settings.blob, at)
    if known not in _ROWS:
        plan = plan_read(shard.stores, state, as_of=at, mode="off")
        _ROWS[known] = list(scan(shard.stores, state, plan))
    return _ROWS[known]


def key(value: Any) -> tuple[bool, Any]:
    """Return what values of a column are ordered by in Spark, and equal by."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return (False, value.encode() if isinstance(value, str) else value)


def twin(
    shard: Shard, state: State, name: str, filter: Filter | None, at: int
) -> tuple[list[Any], int]:
    """Return the keys of the values that are there, in order, and how many rows there are."""
    sums: Counter[Any] = Counter()
    total = 0
    for batch in every_row(shard, state, at):
        wanted = [True] * batch.num_rows
        if filter is not None:
            wanted = accepts(batch, filter.expr).to_pylist()
        columns = (batch.column(name).to_pylist(), batch.column("d").to_pylist(), wanted)
        for value, diff, is_wanted in zip(*columns, strict=True):
            if is_wanted:
                total += diff
                if value is not None:
                    sums[key(value)] += diff
    return sorted(found for found, diffs in sums.items() if diffs > 0), total


def keys_of(found: ValuesFound) -> list[Any]:
    return [key(value) for value in found.values.to_pylist()]


def check(shard: Shard, draw: random.Random) -> None:
    state = shard.state()
    name = draw.choice(list(TYPES))
    recipe = None if draw.random() < 0.15 else drawn(draw, draw.choice((0, 0, 0, 1, 2)))
    filter = None
    if recipe is not None:
        filter = weaker(state.relation, arrow_condition(in_arrow(recipe)), 0)
    at = draw.choice((None, None, 0, 4, 5, 8))
    mode = draw.choice(("on", "on", "on", "audit", "soft", "off"))
    if draw.random() < 0.2:
        part = draw.choice(plan_read(shard.stores, state).fetched).key
        state = replace(state, rollout=replace(state.rollout, quarantine=(part,)))
    state = replace(state, rollout=replace(state.rollout, audit_percent=30))
    expected, total = twin(shard, state, name, filter, state.upper - 1 if at is None else at)
    asked: Any = {"filter": filter, "as_of": at, "mode": mode}
    where = (name, filter and filter.sql, at, mode)

    for greatest in (False, True):
        found = extreme_value(shard.stores, state, name, greatest=greatest, **asked)
        end = expected[-1 if greatest else 0 : None if greatest else 1]
        assert keys_of(found) == end, (where, greatest)
        assert (found.value is None) == (not expected)
    limit = draw.choice((1, 2, 3, 10, 1000))
    several = distinct_values(shard.stores, state, name, limit=limit, **asked)
    assert several.complete is (len(expected) <= limit), where
    if several.complete:
        assert keys_of(several) == expected, where
    else:
        assert len(several.values) == limit
        assert {*keys_of(several)} <= {*expected}, where
    assert any_row(shard.stores, state, **asked)[0] is (total > 0), where


def test_values_are_what_reading_gives(shard: Shard) -> None:
    draw = random.Random(11)
    for _ in range(EXAMPLES):
        check(shard, draw)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(LONG))
def test_twenty_thousand_answers_are_what_reading_gives(shard: Shard, seed: int) -> None:
    draw = random.Random(1000 + seed)
    for _ in range(EXAMPLES):
        check(shard, draw)


def test_values_keep_their_types(shard: Shard) -> None:
    kinds = {
        "id": int,
        "x": float,
        "s": str,
        "dd": dt.date,
        "ts": dt.datetime,
        "m": Decimal,
        "bo": bool,
    }
    state = shard.state()
    for name, kind in kinds.items():
        found = extreme_value(shard.stores, state, name, greatest=True, mode="on")
        assert type(found.value) is kind
