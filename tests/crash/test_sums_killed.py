"""Law: kept sums are those of their source, however often who keeps them is killed."""

import random
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.time import MIN_TIME
from strata.read.scan import scan
from strata.state.transitions import advance_since
from strata.store.open import Stores, open_stores
from strata.sums.check import check_sums
from strata.sums.run import maintain_sums
from tests.laws.test_kept_sums import RELATION, WISH, Update, drawn, stored, take, twin
from tests.support.killing import killed_at_work
from tests.support.stored import create, settings

ROUNDS = 24
ENDS = replace(WISH, least=("n", "f"), greatest=("p", "a"))


def killed_after(seconds: float, place: StoreSettings) -> bool:
    """Keep sums in a child, kill it after some time; return whether it was still at work."""
    return killed_at_work(lambda: maintain_sums(open_stores(place), ENDS), seconds)


def times_of(stores: Stores) -> range:
    """Return the times at which the sums can be read."""
    state = Machine(stores).load("sums")
    return range(max(state.since, 0), max(state.upper, 0))


def test_sums_of_a_killed_run_are_kept_once(tmp_path: Path) -> None:
    draw = random.Random(5)
    place = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/c.db")
    stores = open_stores(place)
    create(stores, RELATION)
    updates: list[Update] = []
    live: list[tuple[object, ...]] = []
    kills, took = 0, 0.0

    for number in range(ROUNDS):
        lower, upper = number * 3, number * 3 + 3
        some = drawn(draw, lower, upper, live)
        take(stores, lower, upper, some)
        updates += some
        if number == 0:
            began = time.monotonic()
            maintain_sums(open_stores(place), ENDS)  # from now on, history waits for the sums
            took = time.monotonic() - began
        kills += killed_after(draw.uniform(0.0, took), place)
        if number % 4 == 3:
            for name in ("shard", "sums"):
                move = partial(advance_since, since=Machine(stores).load(name).upper - 1)
                Machine(stores).apply(name, move)
                compact_shard(stores, name, settings(history_ms=None), full=True)
        for as_of in times_of(stores):
            assert stored(stores, as_of) == twin(updates, as_of, lambda _: True, ENDS)
        assert check_sums(stores, ENDS).different == 0
    assert kills > ROUNDS // 4

    maintain_sums(stores, ENDS)
    state = Machine(stores).load("sums")
    assert state.upper == ROUNDS * 3 > MIN_TIME
    assert stored(stores, state.upper - 1) == twin(updates, state.upper - 1, lambda _: True, ENDS)
    assert all(
        d == 1
        for batch in scan(stores, state, plan_read(stores, state), consolidate=True)
        for d in batch.column("d").to_pylist()
    )
