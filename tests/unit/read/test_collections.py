"""Collections share a shard, are made and read by name, and a read of one touches few parts."""

from dataclasses import replace
from functools import partial

import pytest

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import Conflict, InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.read.collections import (
    create_collections,
    figures,
    load_catalog,
    narrowed,
    planned_collection,
    scan_collection,
)
from strata.rollout.kill import throw
from strata.state.catalog import Catalog, Collection, decode_catalog, encode_catalog, set_catalog
from strata.state.schema import SortBy
from strata.store.open import Stores
from tests.support.stored import append, create, killed, memory_stores, settings, snapshot
from tests.support.updates import table

COLUMNS = (
    Column(1, "tenant", parse_type("string"), nullable=False),
    Column(2, "id", parse_type("int64")),
    Column(3, "n", parse_type("int64")),
)
RELATION = Relation(0, COLUMNS, (1, 2), ())
NAMES = [f"c{i:03}" for i in range(1000)]


def filled(names: list[str], rows: int, days: int = 2, **changes: object) -> Stores:
    """Return a shard in which each collection has rows in each of some batches."""
    stores = memory_stores()
    create(stores, RELATION, **changes)
    for day in range(days):
        found = [(name, i, day, day, 1) for name in names for i in range(rows)]
        append(stores, "shard", day, day + 1, [table(RELATION, found)])
    create_collections(Machine(stores), "shard", names)
    return stores


def load(stores: Stores):
    return Machine(stores).load("shard")


def read(stores: Stores, name: str, **options: object) -> list[tuple[object, ...]]:
    state = load(stores)
    wanted = planned_collection(stores, state, name)
    batches = scan_collection(stores, state, wanted, **options)  # type: ignore[arg-type]
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def test_a_read_of_one_of_a_thousand_touches_two_percent_at_most() -> None:
    stores = filled(NAMES, rows=5, days=1, part_bytes=3000, write_format="structured")
    before = figures(stores, load(stores))
    compact_shard(stores, "shard", settings(), full=True)
    state = load(stores)
    parts = sum(batch.parts for batch in state.batches)
    whole = plan_read(stores, state, mode="off")

    touched = [narrowed(stores, state, whole, "tenant", name) for name in NAMES]

    assert parts >= 50
    assert max(plan.parts_fetched for plan in touched) <= 0.02 * parts
    assert min(plan.parts_fetched for plan in touched) >= 1
    assert planned_collection(stores, state, NAMES[0]).parts_total == parts
    assert [f.parts for f in figures(stores, state)] == [p.parts_fetched for p in touched]
    assert [f.name for f in before] == NAMES
    for name in NAMES[::250]:
        assert len(read(stores, name)) == 5
    throw(stores, thrown=True, who="ann", reason="something is wrong")
    assert planned_collection(stores, state, NAMES[0]).plan.parts_fetched == parts


@pytest.mark.parametrize("consolidate", [True, False])
def test_a_collection_is_what_a_filter_on_the_whole_would_be(consolidate: bool) -> None:
    names = ["a", "a.b", "ab", "b", "x" * 100, "x" * 101]
    stores = filled(names, rows=12, part_bytes=6000)
    whole = snapshot(stores, "shard")
    for migrated in (False, True):
        if migrated:
            compact_shard(stores, "shard", settings(), full=True)
        for name in names:
            expected = [row for row in whole if row[0] == name]
            assert read(stores, name, consolidate=consolidate) == expected
    narrow = read(stores, "a", columns=["n"], consolidate=consolidate)
    assert {len(row) for row in narrow} == {3}
    assert len(narrow) == 24


def test_parts_in_another_order_or_quarantine_are_read_whole() -> None:
    stores = filled(["a", "b", "c"], rows=30, part_bytes=6000)
    expected = read(stores, "b")
    Machine(stores).evolve("shard", SortBy(("n",)))
    assert read(stores, "b") == expected
    compact_shard(stores, "shard", settings(), migrate=True)

    wanted = planned_collection(stores, load(stores), "b")

    assert wanted.plan.parts_fetched == wanted.parts_total > 1
    assert read(stores, "b") == expected
    assert planned_collection(killed(stores), load(stores), "b").plan.groups == {}


def test_the_kill_switch_leaves_each_part_to_be_read() -> None:
    stores = filled(["a", "b"], rows=2)
    state = load(stores)
    plan = plan_read(stores, state)
    assert narrowed(killed(stores), state, plan, "tenant", "nobody") is plan
    assert narrowed(stores, state, plan, "tenant", "nobody").parts_fetched == 0


def test_equal_rows_come_as_they_were_written_unless_they_are_added_up() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    for day in range(2):
        rows = [("a", 1, 5, day, 1), ("b", 2, 5, day, 1)]
        append(stores, "shard", day, day + 1, [table(RELATION, rows)])
    create_collections(Machine(stores), "shard", ["a", "b"])

    assert read(stores, "a") == [("a", 1, 5, 1, 1)] * 2
    assert read(stores, "a", consolidate=True) == [("a", 1, 5, 1, 2)]


def test_only_parts_in_quarantine_are_read_whole() -> None:
    stores = filled(["a", "b", "c"], rows=60, part_bytes=1 << 20, row_group_bytes=1024)
    state = load(stores)
    first, second = (ref.key for ref in plan_read(stores, state).fetched)
    distrusted = replace(state, rollout=replace(state.rollout, quarantine=frozenset({second})))

    for one, wholes in ((state, set()), (distrusted, {second})):
        plan = planned_collection(stores, one, "b").plan
        assert [ref.key for ref in plan.fetched] == [first, second]
        assert {first, second} - plan.groups.keys() == wholes
        for ref in plan.fetched:
            assert ref.key in wholes or 0 < len(plan.groups[ref.key]) < len(ref.splits)


def test_names_are_made_once_and_unknown_ones_are_told() -> None:
    stores = filled(["a"], rows=1)
    machine = Machine(stores)
    before = load(stores)

    assert create_collections(machine, "shard", ["a"]).by_name.keys() == {"a"}
    assert load(stores) == before
    create_collections(machine, "shard", ["c", "b", "a"], note="new")
    catalog = load_catalog(stores, load(stores))
    assert catalog is not None
    assert [(c.name, c.note) for c in catalog.collections] == [
        ("a", ""),
        ("b", "new"),
        ("c", "new"),
    ]
    assert read(stores, "b") == []
    with pytest.raises(InvalidRequest, match="no such collection"):
        read(stores, "nope")
    with pytest.raises(InvalidRequest, match="not a usable name"):
        create_collections(machine, "shard", ["it's"])


def test_two_who_make_collections_at_once_both_succeed() -> None:
    stores = filled(["a"], rows=1)
    machine, state = Machine(stores), load(stores)
    create_collections(machine, "shard", ["b"])

    with pytest.raises(Conflict):
        machine.apply("shard", partial(set_catalog, expected=state.catalog, key="x", generation=0))
    create_collections(machine, "shard", ["c"])

    assert list(load_catalog(stores, load(stores)).by_name) == ["a", "b", "c"]  # type: ignore[union-attr]


def test_a_shard_without_a_leading_text_cannot_have_collections() -> None:
    stores = memory_stores()
    create(stores, Relation(0, (Column(1, "n", parse_type("int64")),), (1,), ()))

    with pytest.raises(InvalidRequest, match="never null"):
        create_collections(Machine(stores), "shard", ["a"])


def test_a_catalog_comes_back() -> None:
    catalog = Catalog(4, 7, (Collection("a", 1), Collection("b", 2, "note")))
    assert decode_catalog(encode_catalog(catalog)) == catalog
