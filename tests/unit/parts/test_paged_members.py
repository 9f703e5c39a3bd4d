"""Sets and bloom filters of manifests in pages: found, named, swept, saved, and brought back."""

from collections.abc import Iterator

import pytest

from strata import gc
from strata.audit.batches import look
from strata.backup import Backup, back_up, restore, verify_shard
from strata.decide.plan import plan_read
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Selection
from strata.model.spec import parse_spec
from strata.parts.manifests import StoredManifest
from strata.parts.pages import leaves_of
from strata.store.keys import BlobKind
from strata.store.memory import MemoryBlob
from strata.store.open import Stores
from tests.support import garbage, membered
from tests.support.garbage import SETTINGS, World
from tests.support.membered import held, lookups
from tests.support.paged import cut
from tests.support.stored import memory_stores

PARTS, MANY = 9, 100
NAMES = ("name", "doc.id", "tags", "few")
KEYED = parse_spec(
    {
        "name": "s",
        "columns": [{"name": "id", "type": "int64"}, {"name": "text", "type": "string"}],
        "key": ["id"],
        "part_bytes": 1 << 16,
        "stats": {"blooms": ["id"], "bloom_bits": 12},
    }
)


def world(**stats: object) -> Stores:
    stores = memory_stores()
    declared = membered.spec(**stats)
    Machine(stores).create(declared)
    membered.fill(stores, declared, PARTS, MANY)
    return stores


def stored(stores: Stores, kind: BlobKind) -> set[str]:
    return {i.key for i in stores.blob.list("shards/") if f"/{kind}/" in i.key}


def fetched(stores: Stores) -> list[tuple[int, ...]]:
    """Return the parts that look-ups read, of a value of each part and place."""
    state, found = Machine(stores).load("shard"), []
    for part in range(0, PARTS, 4):
        for place in NAMES:
            values = (v for row in membered.rows(part, MANY) for v in held(row, place))
            filter = next(lookups(place, next(v for v in values if len(v) > 4))).filter
            plan = plan_read(stores, state, filter=filter, mode="on")
            found.append(tuple(run.run for run in plan.runs))
    return found


@pytest.fixture
def paged() -> Iterator[Stores]:
    with cut(2, 2):
        yield world(blooms=NAMES, bloom_bits=16)


def test_pages_decide_as_one_blob_does(paged: Stores) -> None:
    found = fetched(paged)

    with cut(PARTS):
        assert fetched(world(blooms=NAMES, bloom_bits=16)) == found
    assert sum(map(len, found)) < len(found) * PARTS / 3


def test_indexes_have_no_sets_and_filters_and_name_nothing_but_pages(paged: Stores) -> None:
    state = Machine(paged).load("shard")
    manifest = StoredManifest(paged.blob, "shard", state.batches[0])

    assert manifest.in_pages
    assert not [n for n in leaves_of(manifest).column_names if ".set." in n or ".bloom." in n]
    named = {key for blobs in manifest.names().values() for key in blobs}
    assert stored(paged, BlobKind.BLOOM)
    assert stored(paged, BlobKind.BLOOM) <= named
    assert named == {*named_by(paged.blob, state, {}, set())} & named
    assert not [f for found in look(paged, state) for f in found.findings if f.what == "page"]


def test_a_backfill_gives_pages_what_a_write_gives_them(paged: Stores) -> None:
    with cut(2, 2):
        filled = world()
        backfill_shard(filled, "shard", Selection(blooms=NAMES))
    with cut(2, 2):
        assert fetched(filled) == fetched(world(blooms=NAMES))


@pytest.mark.parametrize("size", [2, 1000])
def test_sweeps_and_backups_know_filters(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "SPEC", KEYED)
    with cut(size, 2):
        one = World()
        for number in range(3):
            one.append(*range(number, 600, 3))
        before = {*one.stored("blooms")}
        assert len(before) >= 3
        one.compact()
        one.settle()
        assert before - {*one.stored("blooms")}, "filters of merged parts are swept"
        one.check()
        live = {*one.stored("blooms")}
        assert live
        assert live <= {*named_by(one.blob, one.machine.load("s"), {}, set())}
        assert gc.find_leaks(one.inner, SETTINGS).clean

        target = MemoryBlob()
        point = back_up(one.stores, target, SETTINGS).point
        assert live <= {*target.live}
        lost, data = next((key, one.blob.live[key]) for key in sorted(live))
        del one.blob.live[lost]
        assert [one.key for one in verify_shard(one.stores, "s", SETTINGS).wrong] == [lost]
        one.blob.live[lost] = data
        one.blob.live.clear()
        one.machine.drop("s", by="ann", reason="lost")
        restore(one.stores, Backup(target), point=point.name, by="ann", reason="lost")
        one.check()
        assert {*one.stored("blooms")} == live
