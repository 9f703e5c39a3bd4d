"""Sets and bloom filters arrive afterwards, are checked, swept, saved, and missed without harm."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from strata.audit.compare import Recorded, compare_part
from strata.decide.blooms import with_bits
from strata.decide.descent import load_manifest
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.decide.skips import decide_all
from strata.errors import InvalidRequest
from strata.format.manifest import blobs_of, part_refs, stats_columns
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Selection
from strata.maintain.trim import trim_shard
from strata.model.schema import Relation
from strata.parts.fetch import part_bytes, source_of
from strata.state.state import State
from strata.stats.members import place_named
from strata.store.keys import BlobKind
from strata.store.open import Stores
from tests.support import membered
from tests.support.membered import held, lookups
from tests.support.stored import memory_stores

PARTS, MANY = 4, 200
NAMES = ("name", "doc.id", "tags")


def world(**stats: Any) -> Stores:
    stores = memory_stores()
    declared = membered.spec(**stats)
    Machine(stores).create(declared)
    membered.fill(stores, declared, PARTS, MANY)
    return stores


def load(stores: Stores) -> State:
    return Machine(stores).load("shard")


def manifest(stores: Stores) -> pa.Table:
    state = load(stores)
    return load_manifest(stores, state, state.batches[0])


def blooms(stores: Stores) -> list[str]:
    return [i.key for i in stores.blob.list("shards/shard/") if f"/{BlobKind.BLOOM}/" in i.key]


def planned(stores: Stores, place: str, part: int = 1) -> ReadPlan:
    """Return the plan of a look-up of a value that one part holds."""
    value = next(v for row in membered.rows(part, MANY) for v in held(row, place) if len(v) > 4)
    lookup = next(lookups(place, value))
    return plan_read(stores, load(stores), filter=lookup.filter, mode="on")


@pytest.mark.parametrize("place", NAMES)
def test_a_backfill_makes_what_a_write_makes(place: str) -> None:
    written, filled = world(blooms=NAMES), world()
    assert planned(filled, place).parts_fetched == PARTS
    old = stats_columns(manifest(filled))

    report = backfill_shard(filled, "shard", Selection(blooms=NAMES))

    assert report.parts_changed == PARTS
    expected, found = manifest(written), manifest(filled)
    assert {*found.column_names} == {*expected.column_names}
    for name in found.column_names:
        if name.startswith(("s.set.", "s.bloom.")):
            assert found[name].to_pylist() == expected[name].to_pylist()
    assert found.select(old.column_names).equals(old)
    assert planned(filled, place).parts_fetched == planned(written, place).parts_fetched < PARTS


def test_what_is_there_is_not_collected_again() -> None:
    stores = world()
    backfill_shard(stores, "shard", Selection(sets=("few",), blooms=NAMES))

    again = backfill_shard(stores, "shard", Selection(sets=("few",), blooms=NAMES))
    more = backfill_shard(stores, "shard", Selection(blooms=(*NAMES, "u")))

    assert again.parts_selected == 0
    assert more.parts_changed == PARTS
    assert {"s.set.3", "s.bloom.2", "s.bloom.9"} <= {*manifest(stores).column_names}


def test_trimming_leaves_them_alone() -> None:
    stores = world(blooms=NAMES, sets=("few",))
    before = [n for n in manifest(stores).column_names if n.startswith(("s.set.", "s.bloom."))]

    trim_shard(stores, "shard", budget_bytes=0)

    assert set(before) <= {*manifest(stores).column_names}
    assert "s.2" not in manifest(stores).column_names
    assert planned(stores, "name").parts_fetched < PARTS


@pytest.mark.parametrize("name", ["nothing", "doc", "place", "name.x"])
def test_a_name_that_leads_to_no_values_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="no place whose values") as caught:
        world(sets=[name])

    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", ["few", "doc.a.b.c", "place.lat", "tags", "attrs"])
def test_columns_fields_elements_and_json_paths_have_values(name: str) -> None:
    assert world(sets=[name])


def test_states_name_the_filters_of_their_manifests() -> None:
    stores = world(blooms=NAMES)
    found = set(named_by(stores.blob, load(stores), {}, set()))

    assert len(blooms(stores)) == PARTS * len(NAMES)
    assert set(blooms(stores)) <= found
    assert set(blooms(stores)) < set(blobs_of(manifest(stores)))


@pytest.mark.parametrize("harm", ["lost", "damaged"])
def test_a_filter_that_cannot_be_had_keeps_its_part(harm: str) -> None:
    stores = world(blooms=NAMES)
    keys = pc.struct_field(manifest(stores)["s.bloom.2"], "key").to_pylist()
    before = planned(stores, "name")

    for key in keys:
        data = stores.blob.get(key)
        assert data is not None
        stores.blob.delete(key)
        if harm == "damaged":
            stores.blob.set(key, bytes(len(data)))

    assert before.parts_fetched < planned(stores, "name").parts_fetched == PARTS
    found = [text for row in range(PARTS) for text in statements(stores, row)]
    assert len(found) == PARTS
    assert all("name.bloom" in text and "no such filter" in text for text in found)


def statements(stores: Stores, row: int, stats: pa.Table | None = None) -> list[str]:
    """Return what a check of the format says of a part."""
    state, table = load(stores), manifest(stores)
    ref = part_refs(table)[row]
    known = stats_columns(table) if stats is None else stats
    recorded = with_bits(stores.blob, known.slice(row, 1)).combine_chunks().to_batches()[0]
    data = part_bytes(source_of(stores.blob, state), ref)
    found = compare_part(Recorded(ref, recorded, state.relations, ()), data).findings
    assert all(one.suspect for one in found)
    return [one.statement for one in found]


def test_a_set_or_filter_that_lacks_a_stored_value_is_a_finding() -> None:
    stores = world(blooms=NAMES, sets=("few",))
    assert statements(stores, 0) == []
    swapped = stats_columns(manifest(stores)).take(pa.array([1, 0, 2, 3]))
    table = stats_columns(manifest(stores))
    for name in ("s.set.3", "s.bloom.2", "s.bloom.6$.id", "s.bloom.4/[]"):
        index = table.schema.get_field_index(name)
        wrong = table.set_column(index, name, swapped[name])

        (text,) = statements(stores, 0, wrong)

        assert "that it lacks" in text, name


def test_filters_are_fetched_only_where_they_may_help(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = world(blooms=NAMES)
    asked: list[str] = []
    get = type(stores.blob).get

    def counting(self: Any, key: str, *args: Any) -> bytes | None:
        asked.append(key)
        return get(self, key, *args)

    monkeypatch.setattr(type(stores.blob), "get", counting)

    planned(stores, "name")
    fetched = [key for key in asked if "/blooms/" in key]
    asked.clear()
    decide_all(stores, load(stores), next(lookups("few", "kind99")).filter)

    assert len(fetched) == PARTS
    assert not [key for key in asked if "/blooms/" in key]


def test_a_place_of_another_type_is_unknown() -> None:
    """Values are recorded in the form of a type; after a change of the type they say nothing."""
    relation = membered.spec().relation()
    wider = replace(relation.by_name["n"], type=relation.by_name["price"].type)
    columns = tuple(wider if c.name == "n" else c for c in relation.columns)
    changed = Relation(1, columns, relation.key, relation.order)

    old, new = (place_named(r, "s.10") for r in (relation, changed))

    assert old is not None
    assert new is not None
    assert (old.form, new.form) == ("decimal0", "decimal2")
