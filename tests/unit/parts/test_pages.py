"""Manifests in pages: what is opened, what is written again, and what damage does."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata import gc
from strata.audit.batches import look
from strata.backup import Backup, back_up, restore, verify_shard
from strata.decide.plan import plan_read
from strata.errors import Corrupt
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.manifest import encode_manifest
from strata.format.pages import INDEX_SCHEMA, Index, decode_index, encode_index
from strata.machine.machine import Machine
from strata.maintain.exchange import Fresh, exchange
from strata.parts.manifests import ManifestBlobs, StoredManifest, StoredPiece
from strata.parts.pages import PageTarget, leaves_of
from strata.state.state import State
from strata.stats import STATS_VERSION
from strata.store import keys
from strata.store.memory import MemoryBlob
from strata.store.open import Stores
from tests.support.garbage import SETTINGS, World
from tests.support.paged import RELATION, Invented, batch_of, cut, part, shard_of
from tests.support.stored import create, memory_stores

NEAR = Filter(
    Call("equal_to", (Column(1, "n", "long"), Literal(41, "long")), "boolean"), "n = 41", 0, 0
)


class Counting:
    """A blob store that notes what is read."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.read = inner, list[str]()

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        self.read.append(key)
        found: bytes | None = self.inner.get(key, start, length)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
def shard() -> tuple[Stores, State]:
    """Return a shard of a hundred parts in pages of four, below two levels of indexes."""
    stores = memory_stores()
    with cut(4, 3):
        return stores, shard_of(stores, [Invented(n, n, t=n % 7) for n in range(100)])


def kinds(blob: Counting) -> dict[str, int]:
    found = [keys.parse_key(key).kind.value for key in blob.read]
    return {kind: found.count(kind) for kind in set(found)}


def counting(stores: Stores) -> tuple[Stores, Counting]:
    blob = Counting(stores.blob)
    counted: Any = blob
    return replace(stores, blob=counted), blob


@pytest.mark.parametrize("paged", [1, 4, 100])
def test_some_parts_of_a_piece_are_those_of_the_whole(paged: int) -> None:
    stores = memory_stores()
    with cut(paged, paged_parts=paged):
        state = shard_of(stores, [Invented(n, n) for n in range(30)])
    manifest = StoredManifest(stores.blob, "shard", state.batches[0])
    (piece,) = manifest.pieces()
    whole = piece.read(["key", "rows"])
    for rows in ([], [0], [29], [3, 4, 5], [28, 2, 2, 17], list(range(30))):
        chosen = np.array(rows, np.int64)

        assert piece.some(chosen, ["key", "rows"]).equals(whole.take(pa.array(chosen)))
        assert piece.forgotten().some(chosen, ["key", "rows"]).num_rows == len(rows)


def test_pages_without_a_part_that_is_wanted_are_neither_read_nor_decoded(
    shard: tuple[Stores, State], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, blob = counting(shard[0])
    manifest = StoredManifest(stores.blob, "shard", shard[1].batches[0])
    piece = StoredPiece(manifest, pages=leaves_of(manifest))
    blob.read.clear()
    decoded = list[int]()

    def noted(self: ManifestBlobs, data: Any, columns: Any) -> list[pa.Table]:
        decoded.append(len(data))
        return pages_decoded(self, data, columns)

    pages_decoded = ManifestBlobs.pages_decoded
    monkeypatch.setattr(ManifestBlobs, "pages_decoded", noted)
    found = piece.some(np.array([5, 50, 51]), ["key"])

    assert found.num_rows == 3
    assert (decoded, len(blob.read)) == ([2], 2)
    piece.read(["key"])
    piece.some(np.array([99]), ["key"])
    assert (decoded, len(blob.read)) == ([2, 25, 1], 2 + 25)


def test_a_read_opens_what_it_needs(shard: tuple[Stores, State]) -> None:
    stores, blob = counting(shard[0])

    plan = plan_read(stores, shard[1], filter=NEAR, mode="on")

    assert plan.parts_fetched == 1
    assert kinds(blob) == {"manifests": 1, "pages": 3}, "two indexes and a page"


def test_a_read_of_everything_opens_no_page(shard: tuple[Stores, State]) -> None:
    stores, blob = counting(shard[0])

    plan = plan_read(stores, shard[1])

    assert (plan.parts_fetched, plan.bytes_fetched) == (100, sum(range(1000, 1100)))
    assert plan.without_stats == (0, 0)
    assert kinds(blob) == {"manifests": 1}
    assert [ref.size_bytes for ref in plan.each()] == [*range(1000, 1100)]
    assert kinds(blob)["pages"] == 3 + 9 + 25


def test_tasks_read_their_parts_from_pages(shard: tuple[Stores, State]) -> None:
    plan = plan_read(*shard)
    pages = list(plan.parts.pages())
    assert [ref for page in pages for ref in page] == plan.fetched
    assert len(plan.parts.opened) == 0
    some = [piece for page in pages for piece in page.pieces(2200)]
    assert {piece.stop - piece.start for piece in some} == {2}
    assert [ref for piece in some for ref in piece] == plan.fetched
    assert sum(piece.size_bytes for piece in some) in range(
        plan.bytes_fetched - 100, plan.bytes_fetched + 1
    )
    sent = pickle.dumps(some[7])
    assert len(sent) < 8_000
    assert pickle.loads(sent).page == some[7].page


def test_pages_later_than_the_read_are_no_part_of_it() -> None:
    stores = memory_stores()
    with cut(4, 3):
        state = shard_of(stores, [Invented(n, n, t=n // 20) for n in range(100)])

    plan = plan_read(stores, state, as_of=1)

    assert plan.parts_total == plan.parts_fetched == 40
    assert len(plan.fetched) == 40


def test_parts_later_than_the_read_are_not_counted_as_skipped(shard: tuple[Stores, State]) -> None:
    plan = plan_read(*shard, as_of=2, filter=NEAR, mode="on")

    assert plan.parts_fetched == 0, "the part with 41 comes later"
    assert plan.parts_total == sum(n % 7 <= 2 for n in range(100))


def test_few_parts_are_one_blob_as_ever() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    batch = batch_of(stores, [Invented(n, n) for n in range(100)], 0, 10)
    from strata.format.manifest import manifest_table

    refs, stats = zip(*(part(n, Invented(n, n)) for n in range(100)), strict=True)
    assert stores.blob.get(batch.manifest or "") == encode_manifest(manifest_table(refs, stats))


def rewritten(stores: Stores, state: State, change: Callable[[pa.Table], pa.Table]) -> State:
    """Return the state with other rows in the index of its only batch, which has one level."""
    (batch,) = state.batches
    manifest = StoredManifest(stores.blob, "shard", batch)
    data = encode_index(Index(1, change(leaves_of(manifest))))
    key = keys.manifest_key("shard", keys.content_hash(data))
    stores.blob.set(key, data)
    slots = tuple(
        replace(slot, batches=(replace(batch, manifest=key),)) for slot in state.spine.slots
    )
    return replace(state, spine=replace(state.spine, slots=slots))


def inverted(index: pa.Table) -> pa.Table:
    column = index["s.1"].combine_chunks()
    names = [f.name for f in column.type]
    children = dict(zip(names, column.flatten(), strict=True))
    children["low"], children["high"] = pa.array([900] * 25), pa.array([-900] * 25)
    lying = pa.StructArray.from_arrays(list(children.values()), fields=list(column.type))
    return index.set_column(index.schema.get_field_index("s.1"), "s.1", lying)


def of_another_type(index: pa.Table) -> pa.Table:
    place = index.schema.get_field_index("s.1")
    return index.set_column(place, "s.1", pa.array(["900"] * 25))


@pytest.mark.parametrize(
    "change",
    [
        inverted,
        of_another_type,
        lambda index: index.drop_columns(["s.1"]),
        lambda index: index.set_column(
            index.schema.get_field_index("s.1"), "s.1", pa.nulls(25, index["s.1"].type)
        ),
    ],
    ids=["inverted", "of another type", "absent", "null"],
)
def test_a_union_that_says_nothing_opens_the_page(
    shard: tuple[Stores, State], change: Callable[[pa.Table], pa.Table]
) -> None:
    stores, state = shard
    other = rewritten(stores, state, change)
    stores, blob = counting(stores)

    plan = plan_read(stores, other, filter=NEAR, mode="on")

    assert [ref.key for ref in plan.fetched] == [
        ref.key for ref in plan_read(stores, state, filter=NEAR, mode="on").fetched
    ]
    assert kinds(blob)["pages"] == 25 + 3
    assert len(plan.fetched) == 1


@pytest.mark.parametrize("how", ["missing", "flipped", "cut"])
def test_a_damaged_blob_stops_the_read(shard: tuple[Stores, State], how: str) -> None:
    stores, state = shard
    assert isinstance(stores.blob, MemoryBlob)
    reads, blob = counting(stores)
    plan_read(reads, state, filter=NEAR, mode="on")
    for key in blob.read:
        data, at = whole = stores.blob.live[key]
        middle = len(data) // 2
        if how == "missing":
            del stores.blob.live[key]
        elif how == "flipped":
            flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
            stores.blob.live[key] = flipped, at
        else:
            stores.blob.live[key] = data[:middle], at
        with pytest.raises(Corrupt, match=r"missing|damaged") as error:
            plan_read(stores, state, filter=NEAR, mode="on")
        assert error.value.details["key"] == key
        assert error.value.details["shard"] == "shard"
        assert error.value.cure
        stores.blob.live[key] = whole


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("parts", "does not list the parts that the state counts"),
    ],
)
def test_an_index_that_counts_wrongly_is_refused(
    shard: tuple[Stores, State], name: str, says: str
) -> None:
    stores, state = shard
    place = INDEX_SCHEMA.get_field_index(name)
    other = rewritten(
        stores,
        state,
        lambda index: index.set_column(
            place, INDEX_SCHEMA.field(name), pa.array([5, *index[name].to_pylist()[1:]])
        ),
    )
    with pytest.raises(Corrupt, match=says):
        plan_read(stores, other)

    def swapped(index: pa.Table) -> pa.Table:
        counts = [5, 3, *index["parts"].to_pylist()[2:]]
        return index.set_column(place, INDEX_SCHEMA.field(name), pa.array(counts))

    with pytest.raises(Corrupt, match="does not list the parts that its index counts"):
        _ = plan_read(stores, rewritten(stores, state, swapped)).fetched


def test_an_exchange_writes_the_pages_that_change(shard: tuple[Stores, State]) -> None:
    stores, state = shard
    (batch,) = state.batches
    before = leaves_of(StoredManifest(stores.blob, "shard", batch))
    wanted = [ref.key for ref in plan_read(stores, state, filter=NEAR, mode="on").fetched]
    none = pa.record_batch({"rows": pa.array([2])})

    with cut(4, 3):
        done = exchange(stores, "shard", batch, wanted, lambda *_: Fresh(none, STATS_VERSION))

    assert done is not None
    assert done.changed == 1
    after = leaves_of(StoredManifest(stores.blob, "shard", done.batch))
    changed = [a != b for a, b in zip(before["key"], after["key"], strict=True)]
    assert [number for number, one in enumerate(changed) if one] == [10]
    assert done.batch.stats_bytes == batch.stats_bytes + done.bytes_added < batch.stats_bytes
    assert done.batch.stats_parts == 100
    now = Machine(stores).load("shard")
    assert now.batches[0].manifest == done.batch.manifest
    assert plan_read(stores, now, filter=NEAR, mode="on").parts_fetched == 1
    assert [r.key for r in plan_read(stores, now).fetched] == [
        r.key for r in plan_read(stores, state).fetched
    ]


def test_a_check_finds_what_an_index_says_wrongly(shard: tuple[Stores, State]) -> None:
    stores, state = shard

    def off(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
        field = INDEX_SCHEMA.field(name)
        return lambda index: index.set_column(
            INDEX_SCHEMA.get_field_index(name),
            field,
            pa.array([*index[name].to_pylist()[:-1], value], field.type),
        )

    def findings(some: State) -> list[str]:
        return [
            f.statement
            for one in look(stores, some)
            for f in one.findings
            if f.what not in ("part",)
        ]

    assert findings(state) == []
    for name, value in [("t_low", 9), ("t_last", 0), ("run_high", 3), ("rows", 1), ("digest", 1),
                        ("relation_version", 4), ("stats_parts", 2), ("retractions", True),
                        ("order", None), ("key_low", b"z"), ("unknown_bytes", 7)]:  # fmt: skip
        found = findings(rewritten(stores, state, off(name, value)))
        assert any(f" {name} " in text for text in found), name

    def narrowed(index: pa.Table) -> pa.Table:
        column = index["s.1"].combine_chunks()
        children = dict(zip([f.name for f in column.type], column.flatten(), strict=True))
        children["high"] = pa.array([n - 1 for n in children["high"].to_pylist()])
        lying = pa.StructArray.from_arrays(list(children.values()), fields=list(column.type))
        return index.set_column(index.schema.get_field_index("s.1"), "s.1", lying)

    assert any("n.high" in text for text in findings(rewritten(stores, state, narrowed)))


def test_sweeps_and_backups_know_pages() -> None:
    with cut(2, 2):
        world = World()
        for number in range(3):
            world.append(*range(number, 300, 3))
        pages = set(world.stored("pages"))
        assert len(pages) > 6
        world.trim(1)
        left = pages - {*world.stored("pages")}
        assert not left
        world.settle()
        gone = pages - {*world.stored("pages")}
        assert gone, "pages that no state names"
        world.check()
        assert gc.find_leaks(world.inner, SETTINGS).clean

        target = MemoryBlob()
        point = back_up(world.stores, target, SETTINGS).point
        assert {*world.stored("pages")} <= {*target.live}
        assert not verify_shard(world.stores, "s", SETTINGS).wrong
        (some,) = world.stored("pages")[:1]
        data = world.blob.live.pop(some)
        found = verify_shard(world.stores, "s", SETTINGS).wrong
        assert [one.key for one in found] == [some]
        world.blob.live[some] = data

        world.blob.live.clear()
        world.machine.drop("s", by="ann", reason="lost")
        restore(world.stores, Backup(target), point=point.name, by="ann", reason="lost")
        world.check()


def test_old_readers_are_told_that_they_are_old(shard: tuple[Stores, State]) -> None:
    from strata.format.manifest import decode_manifest

    stores, state = shard
    data = stores.blob.get(state.batches[0].manifest or "") or b""
    with pytest.raises(Corrupt, match="unknown version") as error:
        decode_manifest(data)
    assert error.value.details == {"version": "2", "known": 1}
    with pytest.raises(Corrupt, match="unknown version"):
        decode_index(encode_manifest(pa.table({"a": [1]})))
    assert decode_index(data).table.num_rows == 3
    assert PageTarget(stores.blob, "shard", 0).sizes.page_parts == 4096
