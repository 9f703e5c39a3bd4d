"""Where the budget is too small, a path whose ranges differ between parts outlives its equals."""

import json

import pytest

from strata.decide.descent import load_manifest
from strata.format import manifest as manifests
from strata.format.manifest import stats_columns
from strata.machine.machine import Machine
from strata.maintain import worth
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Selection
from strata.maintain.trim import trim_shard
from strata.maintain.worth import newest_statistics
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.state.state import State
from strata.stats import encoded_sizes
from strata.stats.wire import path_name
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0, (Column(1, "n", parse_type("int64")), Column(2, "doc", parse_type("jsonb"))), (1,), ()
)
APART, SAME = path_name(2, ("apart",)), path_name(2, ("same",))


def world(budget: int, batches: int = 1) -> tuple[Stores, State]:
    """Return a shard of four parts; `apart` costs more than `same`, and differs between them."""
    stores = memory_stores()
    create(stores, RELATION, stats=StatsSpec(budget_bytes=budget, keep=()))
    runs = [
        table(
            RELATION,
            [
                (n, json.dumps({"apart": 10**9 * (part + 1) + n, "same": n % 3}), part, 1)
                for n in range(9)
            ],
        )
        for part in range(4)
    ]
    if batches == 1:
        return stores, append(stores, "shard", 0, 4, runs)
    for part, run in enumerate(runs):
        append(stores, "shard", part, part + 1, [run])
    return stores, load(stores)


def kept(stores: Stores, state: State) -> list[set[str]]:
    """Return which of the two paths each part knows."""
    return [
        {name for name in (APART, SAME) if row.get(name) is not None}
        for batch in state.batches
        for row in load_manifest(stores, state, batch).to_pylist()
    ]


def least() -> int:
    """Return a budget that has room for all statistics but one path."""
    stores, state = world(1 << 20)
    tables = [stats_columns(load_manifest(stores, state, batch)) for batch in state.batches]
    return int(max(encoded_sizes(one).max() for one in tables)) - 1


def test_one_part_alone_says_nothing_of_the_others() -> None:
    assert kept(*world(least())) == [{SAME}] * 4


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_the_newest_parts_are_weighed_over_all_batches(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty batch, which closes an interval without rows, has no manifest."""
    monkeypatch.setattr(worth, "PARTS", most)
    monkeypatch.setattr(manifests, "PIECE_PARTS", 1)
    stores, _ = world(1 << 20, 4)
    append(stores, "shard", 4, 5, [])
    newest = newest_statistics(stores, load(stores))
    assert newest.num_rows == min(most, 4)
    assert newest[APART][0].as_py()["num_low"] >= 10**9
    bare = memory_stores()
    create(bare, RELATION)
    assert newest_statistics(bare, load(bare)).num_rows == 0
    trim_shard(stores, "shard", budget_bytes=least())


@pytest.mark.parametrize("batches", [1, 4])
def test_a_trimmed_shard_keeps_what_differs(batches: int) -> None:
    stores, state = world(1 << 20, batches)
    assert kept(stores, state) == [{APART, SAME}] * 4

    trim_shard(stores, "shard", budget_bytes=least())

    assert kept(stores, load(stores)) == [{APART}] * 4


@pytest.mark.parametrize("columns", [(), ("doc",)])
def test_a_backfill_keeps_what_differs(columns: tuple[str, ...]) -> None:
    stores, _ = world(least())

    backfill_shard(stores, "shard", Selection(columns=columns, again=True))

    assert kept(stores, load(stores)) == [{APART}] * 4


def load(stores: Stores) -> State:
    return Machine(stores).load("shard")
