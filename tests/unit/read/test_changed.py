"""Differences of two times that are one, or in the wrong order."""

import pytest

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.read.changed import changed_rows, plan_changed
from strata.state.state import State
from strata.state.transitions import advance_since
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "n", parse_type("int64")),), (1,), ())


@pytest.fixture
def shard() -> tuple[Stores, State]:
    stores = memory_stores()
    create(stores, RELATION)
    append(stores, "shard", 0, 5, [table(RELATION, [(1, 0, 1), (2, 4, 1)])])
    return stores, append(stores, "shard", 5, 9, [table(RELATION, [(1, 6, -1), (3, 5, 1)])])


@pytest.mark.parametrize(
    ("first", "second", "rows"),
    [(4, 4, []), (8, None, []), (4, 5, [(3, 1)]), (5, 6, [(1, -1)]), (3, 4, [(2, 1)])],
)
def test_a_difference_has_what_lies_behind_the_first_time(
    shard: tuple[Stores, State], first: int, second: int | None, rows: list[tuple[int, int]]
) -> None:
    stores, state = shard
    wanted = plan_changed(stores, state, first, second)
    found = [batch.to_pylist() for batch in changed_rows(stores, state, wanted)]

    assert [(row["n"], row["d"]) for some in found for row in some] == rows
    assert (wanted.parts > 0) == bool(rows)


def test_times_in_the_wrong_order_are_refused(shard: tuple[Stores, State]) -> None:
    with pytest.raises(InvalidRequest, match="after the second") as caught:
        plan_changed(*shard, 5, 4)

    assert caught.value.details["first"].startswith("5 (")


@pytest.mark.parametrize("first", [-1, 4, 9])
def test_a_first_time_that_cannot_be_read_is_refused(
    shard: tuple[Stores, State], first: int
) -> None:
    """Compaction moves updates up to since: what came after an earlier time is not known."""
    stores, _ = shard
    Machine(stores).apply("shard", lambda state, now: advance_since(state, now, 5))
    state = Machine(stores).load("shard")

    with pytest.raises(InvalidRequest, match="since=5"):
        plan_changed(stores, state, first, 8)
    assert plan_changed(stores, state, 5, 8).after == 5
