"""Staged changes: what the slices read is what was put aside, whatever the slices are."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.errors import Corrupt
from strata.format.columns import child, updates_schema
from strata.ingest.changes import staging
from strata.ingest.changes.lookup import rows_of_slice
from strata.ingest.changes.staging import _chunks, slices_of, stage, staged_rows
from strata.ingest.plan import whole_task
from strata.ingest.readers.change import AT, KEY, changes_schema, combined, key_bytes, key_ids
from strata.ingest.task import Staged, Step
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.store.memory import MemoryBlob
from strata.updates.slices import Slice
from tests.support.sizes import tries
from tests.unit.ingest.test_engine import World

COLUMNS: Final[list[dict[str, Any]]] = [{"name": "id", "type": "int64", "nullable": False}]


def changes_of(relation: Any, numbers: list[int], file: int) -> pa.Table:
    ids = pa.table({child(relation.columns[0].id): pa.array(numbers, pa.int64())})
    count = len(numbers)
    filler: dict[str, Any] = {
        child(relation.columns[0].id): ids.column(0),
        KEY: key_bytes(ids, key_ids(relation)),
        AT: pa.array((file << 32) + np.arange(count)),
    }
    fields = changes_schema(relation)
    zeros = np.zeros(count, np.int64)
    arrays = [filler[f.name] if f.name in filler else pa.array(zeros).cast(f.type) for f in fields]
    return pa.Table.from_arrays(arrays, schema=fields)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root: Path = tmp_path_factory.mktemp("staging")
    return World(root, columns=COLUMNS, source={"paths": ["in/"], "format": "csv"})


@settings(max_examples=tries(15, 600), deadline=None)
@given(
    files=st.lists(st.lists(st.integers(-20, 20), max_size=30), min_size=1, max_size=4),
    chunk=st.integers(1, 7),
    task_bytes=st.sampled_from([1, 100, 500, 1 << 30]),
    hand_over=st.sampled_from([0, 300, 1 << 30]),
)
def test_slices_hold_each_staged_change_once(
    world: World, files: list[list[int]], chunk: int, task_bytes: int, hand_over: int
) -> None:
    relation, store = world.state.relation, MemoryBlob()
    step = Step(0, 1, "t", ())
    task = replace(whole_task(world.settings, world.state, step), hand_over=hand_over)
    tables = [combined([changes_of(relation, ids, n)], relation) for n, ids in enumerate(files)]
    staged: list[Staged] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "CHUNK_ROWS", chunk)
        patch.setattr(staging, "CHUNKS", 100)
        for table in tables:
            one = stage(store, task, table, (), ())
            staged += [] if one is None else [one]
    for one in staged:
        assert (one.key is None) == (one.size_bytes <= hand_over)
    slices = slices_of(staged, task_bytes)

    found = []
    for piece in slices:
        rows = [staged_rows(store, "s", one, piece) for one in staged]
        together = combined([some for some in rows if some is not None], relation)
        keys = together[KEY].to_pylist()
        assert all(piece.low <= key < (piece.high or b"\xff" * 20) for key in keys)
        found += together.to_pylist()

    assert found == combined(tables, relation).to_pylist()  # in order, none twice
    assert slices[0].low == b""
    assert slices[-1].high is None
    assert [a.high for a in slices[:-1]] == [b.low for b in slices[1:]]


def test_no_flipped_bit_of_staged_changes_is_believed(world: World) -> None:
    relation, store = world.state.relation, MemoryBlob()
    task = whole_task(world.settings, world.state, Step(0, 1, "t", ()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "CHUNK_ROWS", 2)
        one = stage(store, task, changes_of(relation, [1, 2, 3], 0), (), ())
    assert one is not None
    assert one.key is not None
    assert len(one.digests) == 2
    data = store.get(one.key) or b""
    second = Slice(one.lows[1], None)
    for at in range(len(data)):
        lying = MemoryBlob()
        lying.set(one.key, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(Corrupt, match="changes that were put aside are damaged"):
            staged_rows(lying, "s", one, Slice())
        if at < one.offsets[1] and _chunks(one.lows, second) == range(1, 2):
            assert staged_rows(lying, "s", one, second) is not None, "what is not asked for"
    with pytest.raises(Corrupt, match="changes that were put aside are gone"):
        staged_rows(MemoryBlob(), "s", one, Slice())


def test_there_are_as_many_slices_as_blobs_and_none_where_rows_may_move() -> None:
    lows = tuple(bytes([n]) for n in range(64))
    one = Staged("key", 16 << 20, lows, tuple(range(65)), ("",) * 64, ())

    slices = slices_of([one, one, one], 1 << 20)

    assert len(slices) == 3
    assert slices_of([one, replace(one, moved=True)], 1 << 20) == [Slice()]
    assert len(slices_of([one], 1 << 20)) == 1
    assert len(slices_of([replace(one, size_bytes=256 << 20)], 1 << 20)) == 4
    assert len(slices_of([one, one, one], 1 << 30)) == 3
    assert len(slices_of([replace(one, size_bytes=1 << 20)] * 3, 1 << 30)) == 1


def test_sorted_changes_stay_as_they_are_and_ties_go_by_place(world: World) -> None:
    relation = world.state.relation
    rows = changes_of(relation, [1, 1, 2, 5], 0)

    assert combined([rows], relation).equals(rows)
    for order in ([1, 0, 2, 3], [0, 1, 3, 2]):
        assert combined([rows.take(pa.array(order))], relation).equals(rows)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("kind", ["int64", "int32", "date", "string", "two"])
@given(st.lists(st.integers(-(2**15), 2**15 - 1), max_size=40), st.integers(0, 2))
def test_changes_are_sorted_as_their_keys_and_places_are(
    kind: str, in_place: bool, numbers: list[int], before: int
) -> None:
    columns = [Column(1, "id", parse_type("int32" if kind == "two" else kind))]
    columns += [Column(2, "more", parse_type("int64"))] if kind == "two" else []
    ids = tuple(column.id for column in columns)
    relation = Relation(0, tuple(columns), ids, ids)
    plain = pa.array(numbers, pa.int32())
    first = plain.cast(updates_schema(relation).field(child(1)).type)
    values = {child(1): first, child(2): pc.negate(plain.cast(pa.int64()))}
    whole = pa.table({child(i): values[child(i)] for i in ids})
    places = np.arange(len(numbers)) if in_place else np.arange(len(numbers))[::-1].copy()
    filler = {**values, KEY: key_bytes(whole, ids), AT: pa.array(places, pa.int64())}
    zeros = np.zeros(len(numbers), np.int64)
    schema = changes_schema(relation)
    arrays = [filler[f.name] if f.name in filler else pa.array(zeros).cast(f.type) for f in schema]
    rows = pa.Table.from_arrays(arrays, schema=schema).slice(before)

    found = combined([rows], relation)

    assert found.equals(rows.sort_by([(KEY, "ascending"), (AT, "ascending")]))


def test_a_slice_has_its_lower_key_and_not_its_upper_one(world: World) -> None:
    for ids in ([1, 2, 3], [4, 5]):
        text = "".join(f"{n}\n" for n in ids)
        world.ingest(world.put(f"{ids[0]}.csv", f"id\n{text}"))
    state = world.state
    keys = changes_of(state.relation, [2, 4], 0)[KEY].to_pylist()

    def found(piece: Slice) -> list[int]:
        rows = rows_of_slice(world.stores, state, piece).rows
        return list(rows.column(0).to_pylist())

    assert found(Slice(keys[0], keys[1])) == [2, 3]
    assert found(Slice(keys[0], None)) == [2, 3, 4, 5]
    assert found(Slice(b"", keys[0])) == [1]
    assert found(Slice()) == [1, 2, 3, 4, 5]
