"""Stretches of time: which batches are planned for one, and who hears of it."""

import pytest

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.plain.parse import plain_filter
from strata.read.changes import changes, listen, plan_changes, planned_stretch
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "n", parse_type("int64")),), (1,), ())


@pytest.fixture
def stores() -> Stores:
    """Batches [0, 10), [10, 20) and [20, 30) with an update at each edge."""
    stores = memory_stores()
    create(stores, RELATION)
    for lower in (0, 10, 20):
        rows = [(lower, lower, 1), (lower + 9, lower + 9, 1)]
        append(stores, "shard", lower, lower + 10, [table(RELATION, rows)])
    return stores


@pytest.mark.parametrize(
    ("lower", "upper", "parts", "found"),
    [
        (10, 20, 1, [10, 19]),
        (9, 20, 2, [9, 10, 19]),
        (10, 21, 2, [10, 19, 20]),
        (11, 19, 1, []),
        (10, 10, 0, []),
    ],
)
def test_only_batches_of_the_stretch_are_planned(
    stores: Stores, lower: int, upper: int, parts: int, found: list[int]
) -> None:
    state = Machine(stores).load("shard")

    stretch, plan = planned_stretch(stores, state, lower, upper, None)

    rows = [row for batch in changes(stores, state, stretch) for row in batch.to_pylist()]
    assert (plan.parts_total, len(stretch.parts)) == (parts, parts)
    assert [(row["n"], row["t"], row["d"]) for row in rows] == [(n, n, 1) for n in found]
    assert plan_changes(stores, state, lower, upper) == stretch


def test_who_listens_hears_of_each_plan(stores: Stores) -> None:
    heard: list[tuple[int, int, Filter | None]] = []
    waited: list[int] = []

    def wait() -> None:
        waited.append(1)
        if len(waited) > 1:
            raise KeyboardInterrupt
        append(stores, "shard", 30, 40, [table(RELATION, [(30, 30, 1)])])

    where = plain_filter(RELATION, "n > 9", 0)
    heard_of = listen(
        stores,
        "shard",
        20,
        where=lambda _: where,
        wait=wait,
        planned=lambda state, plan, filter: heard.append((state.upper, plan.as_of, filter)),
    )
    found = []
    with pytest.raises(KeyboardInterrupt):
        found += [
            (stretch.lower, stretch.upper, [row["n"] for b in rows for row in b.to_pylist()])
            for stretch, rows in heard_of
        ]
    assert heard == [(30, 29, where), (40, 39, where)]


@pytest.mark.parametrize("upper", [10, 30, 40])
def test_who_listens_does_not_go_on_in_another_life_of_the_shard(
    stores: Stores, upper: int
) -> None:
    """Behind what it had read came another shard's rows; of a shorter one it waited for more."""
    spec, waits = Machine(stores).load("shard").spec, iter([1])

    def wait() -> None:
        assert next(waits, None), "it would wait for ever"
        Machine(stores).drop("shard", by="ann", reason="due", force=True)
        Machine(stores).create(spec, revive=True)
        append(stores, "shard", 0, upper, [table(RELATION, [(upper, upper - 1, 1)])])

    heard = listen(stores, "shard", 20, wait=wait)
    assert [row["n"] for batch in next(heard)[1] for row in batch.to_pylist()] == [20, 29]

    with pytest.raises(InvalidRequest, match="restored or created again"):
        next(heard)


def test_a_stretch_that_is_not_complete_is_refused(stores: Stores) -> None:
    state = Machine(stores).load("shard")
    for lower, upper in ((0, 31), (21, 20)):
        with pytest.raises(InvalidRequest, match="begin before they end"):
            plan_changes(stores, state, lower, upper)
