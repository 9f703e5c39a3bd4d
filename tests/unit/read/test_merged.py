"""How much of a consolidated read is held: what is read ahead, and the rows of each run."""

from typing import Any

import pyarrow as pa
import pytest

from strata.decide.plan import plan_read
from strata.model.schema import Column, Relation
from strata.model.settings import ReadSettings
from strata.model.types import parse_type
from strata.parts.fetch import RowBudget, source_of
from strata.read import merged as module
from strata.read.merged import COPIES, MEMORY_BYTES, TOGETHER_BYTES, merged, merged_plan
from strata.state.state import State
from strata.store.open import Stores
from strata.updates.merge import batch_rows
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "n", parse_type("int64")),), (1,), ())
RUNS = 3


@pytest.fixture
def shard() -> tuple[Stores, State]:
    stores = memory_stores()
    state = create(stores, RELATION)
    for number in range(RUNS):
        rows = [(n, number, 1) for n in range(20)]
        state = append(stores, "shard", number, number + 1, [table(RELATION, rows)])
    return stores, state


def test_the_runs_of_a_merge_share_its_memory(
    shard: tuple[Stores, State], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, state = shard
    asked: list[tuple[RowBudget, int]] = []
    real = module.sorted_runs

    def noted(*args: Any, **how: Any) -> Any:
        asked.append((how["batches"], how["together_bytes"]))
        return real(*args, **how)

    monkeypatch.setattr(module, "sorted_runs", noted)
    source = source_of(stores.blob, state)
    rows = pa.concat_tables(merged_plan(source, state, plan_read(stores, state)))

    budget = RowBudget(batch_rows(RUNS), MEMORY_BYTES // (COPIES * RUNS))
    assert asked == [(budget, TOGETHER_BYTES // RUNS)] * RUNS
    assert rows["d"].to_pylist() == [RUNS] * 20


@pytest.mark.parametrize(
    ("fetchers", "ahead_bytes", "listed"), [(1, 1 << 20, False), (3, 1 << 20, True), (3, 0, False)]
)
def test_only_small_stretches_are_read_ahead(
    shard: tuple[Stores, State],
    monkeypatch: pytest.MonkeyPatch,
    fetchers: int,
    ahead_bytes: int,
    listed: bool,
) -> None:
    stores, state = shard
    found: list[bool] = []
    real = module.in_turn

    def noted(jobs: Any, *how: Any) -> Any:
        for tables in real(jobs, *how):
            found.append(isinstance(tables, list))
            yield tables

    monkeypatch.setattr(module, "in_turn", noted)
    monkeypatch.setattr(module, "AHEAD_BYTES", ahead_bytes)
    runs = [run.parts for run in plan_read(stores, state).runs]
    settings = ReadSettings(fetchers=fetchers)

    tables = list(merged(source_of(stores.blob, state), runs, 2, settings=settings))

    assert set(found) == {listed}
    assert sum(one.num_rows for one in tables) == 20


@pytest.mark.parametrize("stretch_bytes", [0, 1, 1 << 20])
def test_no_row_is_lost_where_stretches_are_small(
    monkeypatch: pytest.MonkeyPatch, stretch_bytes: int
) -> None:
    monkeypatch.setattr(module, "STRETCH_BYTES", stretch_bytes)
    stores = memory_stores()
    state = create(stores, RELATION)
    for number in range(3):
        rows = [(n, number, 1) for n in range(100 * number, 100 * number + 150)]
        state = append(stores, "shard", number, number + 1, [table(RELATION, rows)])

    tables = merged_plan(source_of(stores.blob, state), state, plan_read(stores, state))

    found = [(row["1"], row["d"]) for one in tables for row in one.to_pylist()]
    doubled = {*range(100, 150), *range(200, 250)}
    assert found == [(n, 1 + (n in doubled)) for n in range(350)]
