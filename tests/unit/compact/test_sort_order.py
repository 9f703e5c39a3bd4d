"""Another sort order: declared at any time, migrated by compaction, and it pays."""

import pytest

from strata.compact import compact_shard, plan, preview
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Literal
from strata.expr.nodes import Column as Ref
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.state.schema import SortBy
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores, settings, snapshot
from tests.support.updates import table

COLUMNS = (
    Column(1, "id", parse_type("int64")),
    Column(2, "city", parse_type("string")),
    Column(3, "n", parse_type("int64")),
)
RELATION = Relation(0, COLUMNS, (1,), ())
CITIES = 40


def filled() -> Stores:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=8192)
    for day in range(3):
        rows = [(i, f"city {i * 7 % CITIES:02}", i, day, 1) for i in range(day, 3000, 3)]
        append(stores, "shard", day, day + 1, [table(RELATION, rows)])
    return stores


def load(stores: Stores):
    return Machine(stores).load("shard")


def rows_by_name(stores: Stores) -> list[tuple[object, ...]]:
    """Return the snapshot, whatever it is sorted by."""
    relation = load(stores).relation
    place = {name: i for i, name in enumerate(relation.by_id[c].name for c in relation.sort_ids)}
    found = [(row[place["id"]], row[place["city"]], row[-1]) for row in snapshot(stores, "shard")]
    return sorted(found)


def prefix(text: str) -> Filter:
    expr = Call("starts_with", (Ref(2, "city", "string"), Literal(text, "string")), "boolean")
    return Filter(expr, f"city like '{text}%'", 0, 0)


def share_read(stores: Stores) -> float:
    made = plan_read(stores, load(stores), filter=prefix("city 07"), mode="on")
    return made.parts_fetched / made.parts_total


def test_another_order_is_migrated_and_then_a_prefix_filter_skips() -> None:
    stores = filled()
    compact_shard(stores, "shard", settings(), full=True)
    before, contents = share_read(stores), rows_by_name(stores)

    Machine(stores).evolve("shard", SortBy(("city",)))
    assert share_read(stores) == before
    assert rows_by_name(stores) == contents
    assert "another sort order" in (plan(load(stores), settings().compact).idle_reason or "")
    shown = preview(stores, "shard", settings(), migrate=True)
    done = compact_shard(stores, "shard", settings(), migrate=True)

    assert [r.reason for r in shown.requests] == ["written in another sort order"]
    assert [r.outcome for r in done.requests] == ["applied"]
    assert {run.order for b in load(stores).batches for run in b.runs} == {(2, 1, 3)}
    assert rows_by_name(stores) == contents
    assert before == 1.0
    assert share_read(stores) <= 0.25
    assert compact_shard(stores, "shard", settings(), migrate=True).requests == ()


def test_new_batches_come_in_the_new_order_and_merge_with_old_ones() -> None:
    stores = filled()
    Machine(stores).evolve("shard", SortBy(("city", "n")))
    append(stores, "shard", 3, 4, [table(load(stores).relation, [(9000, "city 07", 1, 3, 1)])])
    contents = rows_by_name(stores)

    compact_shard(stores, "shard", settings(), full=True)

    assert {run.order for b in load(stores).batches for run in b.runs} == {(2, 3, 1)}
    assert rows_by_name(stores) == contents
    Machine(stores).evolve("shard", SortBy(()))
    compact_shard(stores, "shard", settings(), full=True)
    assert {run.order for b in load(stores).batches for run in b.runs} == {(1, 2, 3)}
    assert rows_by_name(stores) == contents


@pytest.mark.parametrize(
    ("order", "why"),
    [(("nope",), "no such column"), (("city", "city"), "twice"), (("id",), "sorted so already")],
)
def test_an_order_that_makes_no_sense_is_refused(order: tuple[str, ...], why: str) -> None:
    stores = filled()

    with pytest.raises(InvalidRequest, match=why):
        Machine(stores).evolve("shard", SortBy(order))


def test_a_repeated_change_is_recognised() -> None:
    stores = filled()
    machine = Machine(stores)

    first = machine.evolve("shard", SortBy(("city",)), expected_version=0)
    again = machine.evolve("shard", SortBy(("city",)), expected_version=0)

    assert (first.already, again.already) == (False, True)
    assert load(stores).spec.order == ("city",)
