"""Unions of statistics lie in blobs: a batch leaves its own there, and damage is no wrong skip."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from strata.audit.batches import look
from strata.audit.soft import explain_mismatch
from strata.decide.descent import readable_batches
from strata.decide.plan import plan_read
from strata.decide.skips import decide_all
from strata.errors import Corrupt
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.manifest import stats_columns
from strata.machine.lean import moved_out
from strata.machine.machine import Machine
from strata.maintain import exchange
from strata.maintain.trim import trim_shard
from strata.parts import unions
from strata.parts.manifests import load_manifest_of
from strata.parts.unions import batch_stats, stats_of
from strata.state.codec import encode_state
from strata.state.seal import digest_of
from strata.state.state import Batch, State
from strata.state.step import step
from strata.stats import row_stream, union
from strata.store.interface import Blob
from strata.store.keys import BlobKind, generation_of, parse_key
from strata.store.memory import MemoryBlob
from strata.store.open import Stores
from tests.support.shards import NAME, copied, let_skip
from tests.unit.decide.test_plan import load, stores

__all__ = ["stores"]
FAR = Filter(
    Call("greater_than", (Column(1, "id", "long"), Literal(10_000, "long")), "boolean"), "x", 0, 0
)


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    unions._KNOWN.clear()
    yield
    unions._KNOWN.clear()


def of_parts(stores: Stores, state: State, batch: Batch) -> pa.Table:
    """Return the union, the obvious way: of the manifest's rows."""
    row = union(stats_columns(load_manifest_of(stores.blob, state.name, batch)))
    assert row is not None
    return pa.Table.from_batches([row])


def test_each_batch_of_several_parts_has_a_union_in_a_blob(tmp_path: Path) -> None:
    events = copied(tmp_path)
    blob, state = events.stores.blob, events.state
    found = [b for b in state.batches if b.union]
    assert len(found) == 2, "the first has parts without statistics"
    for batch in found:
        assert batch.stats_union is None
        assert batch.stats_digest is None
        assert parse_key(batch.union or "").kind is BlobKind.UNION
        assert batch_stats(blob, NAME, batch) == of_parts(events.stores, state, batch)
    assert b"ARROW" not in encode_state(state)


def inline(state: State, blob: Blob) -> State:
    """Return a state as it was: the unions of its batches in it."""
    slots = []
    for slot in state.spine.slots:
        batches = tuple(with_union(blob, b, state) if b.union else b for b in slot.batches)
        slots.append(replace(slot, batches=batches))
    return replace(state, spine=replace(state.spine, slots=tuple(slots)))


def with_union(blob: Blob, batch: Batch, state: State) -> Batch:
    stats = batch_stats(blob, state.name, batch)
    assert stats is not None
    stream = row_stream(stats.combine_chunks().to_batches()[0])
    return replace(batch, union=None, stats_union=stream, stats_digest=digest_of(stream))


def test_a_state_from_before_is_read_and_moves_its_unions_out(tmp_path: Path) -> None:
    events = copied(tmp_path)
    blob, state = events.stores.blob, events.state
    old = inline(state, blob)
    unions._KNOWN.clear()
    assert len(encode_state(old)) > 2 * len(encode_state(state))
    for batch, before in zip(state.batches, old.batches, strict=True):
        assert batch_stats(blob, NAME, before) == batch_stats(blob, NAME, batch)
    assert moved_out(blob, old) == state
    assert moved_out(blob, state) is state


def test_the_next_commit_moves_them_out(tmp_path: Path) -> None:
    events = copied(tmp_path)
    machine = Machine(events.stores)
    before = events.state

    def put_back(state: State, now_ms: int) -> tuple[State, None]:
        return step(state, now_ms, spine=inline(state, events.stores.blob).spine), None

    machine.apply(NAME, put_back)
    assert machine.load(NAME).batches == before.batches


def test_a_blob_is_of_the_generation_of_the_state_that_is_committed(stores: Stores) -> None:
    """The sweep that has raised the fence since the manifest was written leaves it alone."""
    state = load(stores, "on")
    old = replace(inline(state, stores.blob), generation=7, fence=6)
    moved = moved_out(stores.blob, old)
    assert {generation_of(b.union) for b in moved.batches if b.union} == {7}


def test_a_batch_of_one_part_needs_none(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    state = load(stores, "on")
    every = inline(state, stores.blob)
    assert [b.parts for b in state.batches] == [1, 2, 1]
    monkeypatch.undo()
    moved = moved_out(stores.blob, every)
    assert [(bool(b.union), b.stats_union) for b in moved.batches] == [
        (False, None),
        (True, None),
        (False, None),
    ]


def test_a_damaged_union_is_told_and_never_used(tmp_path: Path) -> None:
    """A read goes on with the manifest; soft evaluation's look at the batches finds it."""
    events = copied(tmp_path)
    let_skip(events.stores)
    state, blob = events.state, events.stores.blob
    wanted = plan_read(events.stores, state, filter=FAR)
    assert wanted.dropped
    batch = next(b for b in readable_batches(state) if b.union)
    path = tmp_path / "blob" / (batch.union or "")
    whole = path.read_bytes()
    path.chmod(0o600)
    for data in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b"", None):
        unions._KNOWN.clear()
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(Corrupt, match="the union of a batch's statistics is"):
            batch_stats(blob, NAME, batch)
        assert stats_of(events.stores, NAME, [batch]) == [None]
        plan = plan_read(events.stores, state, filter=FAR)
        assert {ref.key for ref in plan.fetched} == {ref.key for ref in wanted.fetched}
        findings = [f for one in look(events.stores, state) for f in one.findings]
        assert [f.what for f in findings] == ["union"]
        assert batch.union in findings[0].statement
        path.write_bytes(whole)


def test_far_blobs_are_asked_for_at_once_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = copied(tmp_path)
    state = events.state
    asked: list[str] = []
    get = type(events.stores.blob).get
    blob = events.stores.blob

    def counted(key: str, *args: Any) -> bytes | None:
        asked.append(key)
        return get(blob, key, *args)

    monkeypatch.setattr(blob, "get", counted, raising=False)
    monkeypatch.setattr(unions, "is_near", lambda _: False)
    first = stats_of(events.stores, NAME, state.batches)
    assert sorted(asked) == sorted(b.union for b in state.batches if b.union)
    assert stats_of(events.stores, NAME, state.batches) == first
    assert len(asked) == 2


def test_a_mismatch_is_explained_without_a_union_that_is_damaged(tmp_path: Path) -> None:
    """Who looks at the batches says that it is damaged; a verdict is not lost for it."""
    events = copied(tmp_path)
    state = events.state
    skipped = next(s for s in decide_all(events.stores, state, FAR).skipped if s.batch.union)
    path = tmp_path / "blob" / (skipped.batch.union or "")
    path.chmod(0o600)
    path.write_bytes(b"damaged")
    unions._KNOWN.clear()
    assert explain_mismatch(events.stores, state, FAR, skipped) == []


def test_new_statistics_leave_no_union_of_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing is known of the batch as a whole any more: the old one may have lied."""
    events = copied(tmp_path)
    before = events.state.batches
    monkeypatch.setattr(exchange, "row_stream", lambda _: None)
    trim_shard(events.stores, NAME, budget_bytes=40)
    pairs = zip(before, events.state.batches, strict=True)
    changed = [(old, new) for old, new in pairs if old.manifest != new.manifest]
    assert any(old.union for old, _ in changed)
    assert not any(new.union for _, new in changed)


def test_a_union_lies_in_the_state_or_in_a_blob_or_nowhere() -> None:
    blob, row = MemoryBlob(), pa.RecordBatch.from_pylist([{"rows": 3, "s.1": {"low": 1}}])
    stream = row_stream(row)
    assert stream is not None
    bare = Batch(0, 1, 0)

    for batch in (replace(bare, stats_union=stream), replace(bare, stats_union=stream, union="-")):
        found = batch_stats(blob, "shard", batch)
        assert found is not None
        assert found.to_pylist() == row.to_pylist()
    assert batch_stats(blob, "shard", replace(bare, stats_union=b"damaged")) is None
    assert batch_stats(blob, "shard", bare) is None
