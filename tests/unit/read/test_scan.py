"""Which times can be read, what a scan gives, and what happens when a blob is not there."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts import fetch
from strata.parts.fetch import BlobFile, part_batches, source_of
from strata.parts.manifests import load_manifest_of
from strata.read.scan import read_updates, scan, scan_schema
from strata.state.transitions import advance_since
from strata.store.memory import MemoryBlob
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores, snapshot
from tests.support.updates import table

RELATION = Relation(
    0,
    (
        Column(1, "carrier", parse_type("string")),
        Column(2, "delay", parse_type("int64")),
        Column(3, "note", parse_type("string")),
    ),
    (1,),
    (),
)


@pytest.fixture
def stores() -> Stores:
    """A shard with three batches: [0, 10), [10, 20) with two runs, [20, 30) empty."""
    stores = memory_stores()
    create(stores, RELATION, write_format="structured")  # every byte of a part is read
    append(stores, "shard", 0, 10, [table(RELATION, [("AA", 1, "x", 0, 1), ("BB", 2, "y", 5, 1)])])
    first = table(RELATION, [("AA", 1, "x", 12, -1), ("CC", 3, None, 10, 1)])
    second = table(RELATION, [("AA", 9, "z", 12, 1)])
    append(stores, "shard", 10, 20, [first, second])
    append(stores, "shard", 20, 30, [])
    return stores


def rows(batches: Iterator[pa.RecordBatch]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def scanned(stores: Stores, as_of: int | None = None, **options: object) -> list:
    state = Machine(stores).load("shard")
    return rows(scan(stores, state, plan_read(stores, state, as_of=as_of), **options))


def test_the_newest_readable_time_is_taken_by_default(stores: Stores) -> None:
    plan = plan_read(stores, Machine(stores).load("shard"))

    assert plan.as_of == 29
    assert (plan.parts_fetched, plan.parts_skipped, plan.parts_total) == (3, 0, 3)
    assert plan.bytes_fetched == plan.bytes_total == sum(ref.size_bytes for ref in plan.fetched)
    assert [(run.upper, run.run) for run in plan.runs] == [(10, 0), (20, 0), (20, 1)]


def test_an_empty_shard_has_an_empty_plan_and_no_readable_time() -> None:
    stores = memory_stores()
    state = create(stores, RELATION)

    plan = plan_read(stores, state)

    assert plan.parts_total == 0
    assert list(scan(stores, state, plan)) == []
    with pytest.raises(InvalidRequest, match="as_of=0"):
        plan_read(stores, state, as_of=0)


@pytest.mark.parametrize("as_of", [-1, 11, 30, 99])
def test_times_outside_since_and_upper_are_refused_by_name(stores: Stores, as_of: int) -> None:
    machine = Machine(stores)
    machine.apply("shard", lambda state, now: advance_since(state, now, 12))

    with pytest.raises(InvalidRequest, match="since=12 upper=30") as caught:
        plan_read(stores, machine.load("shard"), as_of=as_of)

    assert caught.value.details["as_of"] == as_of


def test_parts_that_begin_after_the_time_are_not_fetched(stores: Stores) -> None:
    state = Machine(stores).load("shard")

    assert plan_read(stores, state, as_of=9).parts_total == 1
    assert plan_read(stores, state, as_of=10).parts_total == 2  # the other run begins at 12
    assert plan_read(stores, state, as_of=12).parts_total == 3


def test_a_scan_has_columns_by_name_then_time_and_diff(stores: Stores) -> None:
    assert scanned(stores, 9) == [("AA", 1, "x", 9, 1), ("BB", 2, "y", 9, 1)]
    assert scanned(stores, 4) == [("AA", 1, "x", 4, 1)]
    schema = scan_schema(RELATION, ["note", "carrier"])
    assert schema.names == ["note", "carrier", "t", "d"]
    assert rows(scan(stores, *_plan(stores, 9), columns=["note", "carrier"])) == [
        ("x", "AA", 9, 1),
        ("y", "BB", 9, 1),
    ]


def _plan(stores: Stores, as_of: int) -> tuple:
    state = Machine(stores).load("shard")
    return state, plan_read(stores, state, as_of=as_of)


def test_a_consolidated_scan_has_each_row_once_in_order(stores: Stores) -> None:
    assert scanned(stores, consolidate=True) == [
        ("AA", 9, "z", 29, 1),
        ("BB", 2, "y", 29, 1),
        ("CC", 3, None, 29, 1),
    ]
    assert scanned(stores, consolidate=True, columns=["delay"]) == [
        (9, 29, 1),
        (2, 29, 1),
        (3, 29, 1),
    ]
    assert sorted(map(str, scanned(stores))) == sorted(
        map(
            str,
            [
                ("AA", 1, "x", 29, 1),
                ("BB", 2, "y", 29, 1),
                ("AA", 1, "x", 29, -1),
                ("CC", 3, None, 29, 1),
                ("AA", 9, "z", 29, 1),
            ],
        )
    )


def test_rows_at_several_times_meet_within_a_part() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    updates = [
        ("AA", 1, "x", 0, 1),
        ("AA", 1, "x", 3, 2),
        ("BB", 1, "x", 1, 1),
        ("BB", 1, "x", 2, -1),
    ]
    append(stores, "shard", 0, 10, [table(RELATION, updates)])

    assert scanned(stores) == [("AA", 1, "x", 9, 3)]
    # Without all columns nothing says which rows are the same, so none are added up.
    assert scanned(stores, columns=["carrier"]) == [
        ("AA", 9, 1),
        ("AA", 9, 2),
        ("BB", 9, 1),
        ("BB", 9, -1),
    ]


def test_an_unknown_column_is_refused_before_anything_is_read(stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="no such column"):
        scanned(stores, columns=["nope"])


@pytest.mark.parametrize("consolidate", [True, False])
@pytest.mark.parametrize("damage", ["missing", "cut", "foreign"])
def test_a_damaged_part_is_corrupt_and_named(
    stores: Stores, damage: str, consolidate: bool
) -> None:
    blob = stores.blob
    assert isinstance(blob, MemoryBlob)
    plan = plan_read(stores, Machine(stores).load("shard"))
    victim, other = plan.fetched[0].key, plan.fetched[1].key
    data = blob.live.pop(victim)[0]
    if damage == "cut":
        blob.live[victim] = (data[:-20], 0)
    elif damage == "foreign":
        blob.live[victim] = blob.live[other]

    with pytest.raises(Corrupt) as caught:
        scanned(stores, consolidate=consolidate)

    assert caught.value.details["part"] == victim
    assert caught.value.details["shard"] == "shard"
    assert caught.value.cure


def test_no_flipped_byte_changes_what_is_read(stores: Stores) -> None:
    """Page headers hold hints that nobody reads; any other byte is found out."""
    blob = stores.blob
    assert isinstance(blob, MemoryBlob)
    state = Machine(stores).load("shard")
    ref = plan_read(stores, state).fetched[0]
    good, data = read_updates(stores, state, ref), blob.live[ref.key][0]
    found = 0
    for i in range(0, len(data), 13):
        blob.live[ref.key] = (data[:i] + bytes([data[i] ^ 0xFF]) + data[i + 1 :], 0)
        try:
            assert read_updates(stores, state, ref).equals(good)
        except Corrupt:
            found += 1

    assert found > len(data) // 13 // 2


def test_a_missing_or_foreign_manifest_is_corrupt_and_named(stores: Stores) -> None:
    blob = stores.blob
    assert isinstance(blob, MemoryBlob)
    state = Machine(stores).load("shard")
    first, second = (b.manifest for b in state.batches if b.manifest)
    blob.live[first] = blob.live[second]

    with pytest.raises(Corrupt, match="not those that its name") as caught:
        plan_read(stores, state)
    assert caught.value.details["key"] == first

    del blob.live[first]
    with pytest.raises(Corrupt, match="missing") as caught:
        plan_read(stores, state)
    assert caught.value.details["key"] == first


def test_no_flipped_bit_of_a_manifest_is_believed(stores: Stores) -> None:
    blob = stores.blob
    assert isinstance(blob, MemoryBlob)
    state = Machine(stores).load("shard")
    batch = next(b for b in state.batches if b.manifest)
    assert batch.manifest is not None
    data, _ = blob.live[batch.manifest]

    for i in range(0, len(data), 11):
        blob.live[batch.manifest] = (data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :], 0)
        with pytest.raises(Corrupt) as caught:
            load_manifest_of(blob, state.name, batch, ["rows", "s.*"])
        assert caught.value.details["key"] == batch.manifest


def test_a_manifest_that_lists_other_parts_than_counted_is_corrupt(stores: Stores) -> None:
    state = Machine(stores).load("shard")
    batch = next(b for b in state.batches if b.manifest)

    with pytest.raises(Corrupt, match="does not list the parts"):
        load_manifest_of(stores.blob, state.name, replace(batch, parts=batch.parts + 1))


def test_read_updates_gives_times_as_they_are_stored(stores: Stores) -> None:
    state = Machine(stores).load("shard")
    (ref, *_) = plan_read(stores, state).fetched

    assert read_updates(stores, state, ref)["t"].to_pylist() == [0, 5]


def test_ranges_and_whole_parts_give_the_same_rows(stores: Stores) -> None:
    state = Machine(stores).load("shard")
    source = source_of(stores.blob, state)
    for ref in plan_read(stores, state).fetched:
        data = stores.blob.get(ref.key)
        assert list(part_batches(source, ref)) == list(part_batches(source, ref, data=data))


def test_a_part_with_other_rows_than_recorded_is_corrupt(stores: Stores) -> None:
    state = Machine(stores).load("shard")
    source = source_of(stores.blob, state)
    ref = plan_read(stores, state).fetched[0]
    wrong = replace(ref, rows=ref.rows + 1)

    for data in (None, stores.blob.get(ref.key)):
        with pytest.raises(Corrupt, match="number of rows") as caught:
            list(part_batches(source, wrong, data=data))
        assert caught.value.details["recorded"] == ref.rows + 1


def test_a_blob_file_reads_like_a_file() -> None:
    blob = MemoryBlob()
    data = bytes(range(256)) * 1000
    blob.set("a/b", data)
    with BlobFile(blob, "a/b", len(data)) as file:
        assert file.seek(-10, 2) == len(data) - 10
        assert file.read() == data[-10:]
        assert file.seek(5) == 5
        assert file.read(7) == data[5:12]
        assert file.tell() == 12
        assert file.seek(-2, 1) == 10
        assert file.read(0) == b""
        assert file.readall() == data[10:]
        assert file.read(5) == b""


def test_an_abandoned_scan_leaves_no_thread(stores: Stores) -> None:
    batches = scan(stores, *_plan(stores, 29))
    next(batches)
    batches.close()  # type: ignore[attr-defined]

    assert not [t for t in threading.enumerate() if t.name.startswith("strata-fetch")]


def test_a_consolidated_scan_of_a_part_in_another_order_is_right() -> None:
    """What is stored says by which columns it is sorted; readers want another order."""
    stores = memory_stores()
    create(stores, RELATION)
    pairs = [("BB", 1), ("AA", 2), ("CC", 0)]
    append(stores, "shard", 0, 10, [table(RELATION, [(name, n, "", 0, 1) for name, n in pairs])])
    machine = Machine(stores)
    reordered = Relation(1, RELATION.columns, (1,), (2,))
    state = machine.load("shard")
    state = replace(state, relations=(*state.relations, reordered))
    found = rows(scan(stores, state, plan_read(stores, state), consolidate=True))

    assert [row[1] for row in found] == [0, 1, 2]
    assert [row[0] for row in snapshot(stores, "shard")] == ["AA", "BB", "CC"]


def test_a_large_part_in_another_order_is_put_aside_and_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "SPILL_BYTES", 0)
    test_a_consolidated_scan_of_a_part_in_another_order_is_right()


@pytest.mark.parametrize(("diff", "monotonic"), [(1, True), (-1, False)])
def test_a_read_without_retractions_is_monotonic(diff: int, monotonic: bool) -> None:
    relation = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())
    stores = memory_stores()
    create(stores, relation)
    state = append(stores, "shard", 0, 1, [table(relation, [("a", 0, 1), ("b", 0, diff)])])

    assert plan_read(stores, state).monotonic == monotonic
