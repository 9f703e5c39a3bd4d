"""Sums that no longer follow from their source are corrected from the whole of it."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from strata.compact import compact_shard
from strata.errors import Conflict, InvalidRequest
from strata.machine.machine import Machine
from strata.maintain.revert import revert_interval
from strata.store.open import Stores
from strata.sums.check import check_sums
from strata.sums.run import SumsReport, _Work, maintain_sums
from tests.laws.test_kept_sums import RELATION, WISH, Update, drawn, stored, take, twin
from tests.support.erasing import erased
from tests.support.stored import create, memory_stores, settings

ALL = replace(WISH, least=("n", "f"), greatest=("p", "b"))


@pytest.fixture
def stores() -> Stores:
    made = memory_stores()
    create(made, RELATION)
    return made


def right(updates: list[Update], as_of: int, gone: str | None = None) -> list[tuple[Any, ...]]:
    return twin(updates, as_of, lambda row: gone is None or row[1] != gone, ALL)


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_erased_rows_are_corrected(stores: Stores, seed: int) -> None:
    draw = random.Random(seed)
    updates: list[Update] = []
    live: list[tuple[Any, ...]] = []
    for lower in (0, 10, 20):
        updates += (some := drawn(draw, lower, lower + 10, live))
        take(stores, lower, lower + 10, some)
        maintain_sums(stores, ALL)
    before = stored(stores, 15)
    certificate = erased(stores, "shard", "a", "x")
    assert any("`sums` keeps by a, b" in line for line in certificate["not_reached"])
    counted = right(updates, 29) != right(updates, 29, gone="x")
    assert (check_sums(stores, ALL).different > 0) == counted
    with pytest.raises(InvalidRequest, match="next batch"):
        maintain_sums(stores, ALL, rebuild=True)

    live = [row for row in live if row[1] != "x"]
    updates += (some := [u for u in drawn(draw, 30, 40, live) if u[0][1] != "x"])
    take(stores, 30, 40, some)
    done = maintain_sums(stores, ALL, rebuild=True)

    assert (done.lower, done.upper, done.updates > 0) == (30, 40, True)
    assert check_sums(stores, ALL).different == 0
    assert stored(stores, 39) == right(updates, 39, gone="x")
    assert stored(stores, 15) == before
    updates += (some := [u for u in drawn(draw, 40, 50, live) if u[0][1] != "x"])
    take(stores, 40, 50, some)
    maintain_sums(stores, ALL)
    compact_shard(stores, "sums", settings(history_ms=None), full=True)
    assert stored(stores, 49) == right(updates, 49, gone="x")


def test_a_rebuild_of_right_sums_changes_no_row_but_those_of_new_changes(stores: Stores) -> None:
    rows = [((1, "x", 3, 5, None, 1.5), 3, 1), ((2, "y", 3, 6, None, -1.5), 4, 1)]
    take(stores, 0, 10, rows)
    assert maintain_sums(stores, ALL, rebuild=True).updates == 2  # the first run, at all its times
    assert stored(stores, 3) == right(rows[:1], 3)
    more = [((3, "x", 3, 7, None, 0.5), 12, 1)]
    take(stores, 10, 20, more)
    assert maintain_sums(stores, ALL, rebuild=True).updates == 2
    assert stored(stores, 19) == right(rows + more, 19)


def test_a_rebuild_counts_new_changes_at_their_times(stores: Stores) -> None:
    """All of them stood at the newest time, and the sums of the times before were too old."""
    rows = [((1, "x", 3, 5, None, 1.5), 3, 1)]
    take(stores, 0, 10, rows)
    maintain_sums(stores, ALL)
    more = [((2, "x", 3, 7, None, 0.5), 12, 1), ((1, "x", 3, 5, None, 1.5), 15, -1)]
    take(stores, 10, 20, more)
    assert maintain_sums(stores, ALL, rebuild=True).changes == 2
    for as_of in range(3, 20):
        assert stored(stores, as_of) == right(rows + more, as_of)


def test_a_rebuild_that_another_run_overtakes_says_so(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both commits had one token, so the rebuild took the other one for its own."""
    take(stores, 0, 10, [((1, "x", 3, 5, None, 1.5), 3, 1)])
    maintain_sums(stores, ALL)
    take(stores, 10, 20, [((2, "x", 3, 6, None, 1.5), 13, 1)])
    stored: Callable[..., SumsReport] = _Work.append

    def late(self: _Work, news: Any, writer: str) -> SumsReport:
        stored(self, self.news(), writer)
        return stored(self, news, writer)

    monkeypatch.setattr(_Work, "append", late)
    with pytest.raises(Conflict, match="went on"):
        maintain_sums(stores, ALL, rebuild=True)


@pytest.mark.parametrize("seed", range(3))
def test_sums_follow_what_was_reverted_in_their_source(stores: Stores, seed: int) -> None:
    draw = random.Random(seed)
    live: list[tuple[Any, ...]] = []
    updates: list[Update] = []
    for lower in (0, 10, 20):
        updates += (some := drawn(draw, lower, lower + 10, live))
        take(stores, lower, lower + 10, some)
        maintain_sums(stores, ALL)
    revert_interval(stores, "shard", 10, 20)
    maintain_sums(stores, ALL)

    upper = Machine(stores).load("sums").upper
    assert upper == Machine(stores).load("shard").upper > 30
    kept = [(row, t, d) for row, t, d in updates if not 10 <= t < 20]
    assert stored(stores, upper - 1) == right(kept, upper - 1)
    assert stored(stores, 29) == right(updates, 29)
    assert check_sums(stores, ALL).different == 0
