"""Writers cannot outrun compaction: ingest merges some itself, and waits beyond a limit."""

from dataclasses import replace
from pathlib import Path

import pytest

from strata.compact import pay_debt, plan
from strata.compact.plan import runs_of
from strata.errors import Unavailable
from strata.ingest.engine import ingest
from strata.ingest.task import IngestReport
from strata.model.settings import CompactSettings
from strata.state.spine import check_debt, debt
from strata.store.open import Stores
from tests.support.stored import settings, snapshot
from tests.unit.compact.test_run import filled, load
from tests.unit.ingest.test_engine import World


def rows(stores: Stores) -> list[object]:
    state = load(stores)
    return sorted(map(repr, snapshot(stores, "shard", state.upper - 1)))


def test_the_debt_is_the_runs_that_due_merges_would_save() -> None:
    stores = filled(days=9)
    spine = load(stores).spine
    requests = plan(load(stores), CompactSettings()).requests
    assert debt(spine) == sum(runs_of(request.batches) - 1 for request in requests) > 4


def test_a_small_debt_is_left_to_compaction_and_a_larger_one_is_halved() -> None:
    stores = filled(days=9)
    owed, before = debt(load(stores).spine), rows(stores)
    options = settings()

    for allowed in (0, owed):
        left = replace(options, compact=CompactSettings(debt_runs=allowed))
        assert pay_debt(stores, "shard", left) is None
    paid = pay_debt(stores, "shard", replace(options, compact=CompactSettings(debt_runs=owed - 1)))

    assert paid is not None
    assert paid.applied == len(paid.requests) > 0
    assert debt(load(stores).spine) <= (owed - 1) // 2
    assert rows(stores) == before


def test_the_cheapest_merges_are_done_and_no_more_than_needed() -> None:
    state = load(filled(days=9))
    every = plan(state, CompactSettings()).requests
    owed = debt(state.spine)
    for enough in range(1, owed + 1):
        some = plan(state, CompactSettings(), enough=enough).requests
        assert some == every[: len(some)]
        saved = [runs_of(request.batches) - 1 for request in some]
        assert owed - sum(saved) <= enough
        assert not some or owed - sum(saved[:-1]) > enough


def test_beyond_the_limit_nothing_comes_in_until_runs_are_merged(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    few = replace(world.settings, compact=CompactSettings(debt_runs=2, debt_max=3))

    def day(number: int) -> IngestReport:
        file = world.put(f"{number}.csv", f"id,name\n{number},x\n")
        return ingest(world.stores, few, "s", lower=number, upper=number + 1, paths=[file])

    done = 0
    while debt(world.state.spine) < 3:
        day(done)
        done += 1
    with pytest.raises(Unavailable, match="wait to be merged") as caught:
        day(done)
    assert caught.value.certain
    assert "strata compact s" in str(caught.value)
    assert world.state.upper == done, "nothing of it is in"
    assert day(done - 1).already_committed, "what is in is recognised all the same"

    assert pay_debt(world.stores, "s", few) is not None

    day(done)
    check_debt(world.state.spine, "s", 0)
