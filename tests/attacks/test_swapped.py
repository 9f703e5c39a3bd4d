"""What is stored in another thing's place is refused or found: blobs swapped, old states put back.

A swap that keeps the size passes a read that needs no whole part. It passes no validation.
"""

import sqlite3
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.audit.verdict import FORMAT_CHECK
from strata.errors import Corrupt
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.shard import open_shard
from tests.support.audited import World, world_in
from tests.support.shards import NAME

FOOTER = 8  # bytes behind a footer of Parquet: its length, and the mark


@pytest.fixture
def store(tmp_path: Path) -> StoreSettings:
    return StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")


@pytest.fixture
def world(store: StoreSettings) -> World:
    return world_in(store)


def contents(store: StoreSettings) -> Counter[str]:
    """Return every row of a fresh read."""
    rows = open_shard(Settings(store), NAME).scan(consolidate=True)
    return Counter(str(row) for batch in rows for row in batch.to_pylist())


def in_database(store: StoreSettings, statement: str, *values: object) -> None:
    base = sqlite3.connect(store.consensus.removeprefix("sqlite:///"))
    with base:
        assert base.execute(statement, values).rowcount
    base.close()


def of_kind(world: World, kind: str) -> list[str]:
    found = [info.key for info in world.stores.blob.list("") if f"/{kind}/" in info.key]
    assert len(found) > 1
    return sorted(found)


def swap(world: World, first: str, second: str) -> None:
    blob = world.stores.blob
    one, other = blob.get(first), blob.get(second)
    assert one is not None
    assert other is not None
    for key, data in ((first, other), (second, one)):
        blob.delete(key)
        blob.set(key, data)


@pytest.mark.parametrize("kind", ["parts", "manifests"])
def test_two_swapped_blobs_are_refused(world: World, store: StoreSettings, kind: str) -> None:
    first, *_, last = of_kind(world, kind)
    swap(world, first, last)

    with pytest.raises(Corrupt) as refused:
        contents(store)
    assert first in str(refused.value) or last in str(refused.value)


def test_a_part_of_another_shard_in_its_place_is_found(tmp_path: Path, world: World) -> None:
    """Padded to the size that the manifest says, with the rows that a filter skips elsewhere."""
    skipped, kept = world.parts(2)[0], world.parts(2)[-1]
    other = world_in(StoreSettings(f"file://{tmp_path}/b2", f"sqlite:///{tmp_path}/c2.db"))
    data = other.stores.blob.get(other.parts(2)[-1].key)
    assert data is not None
    assert kept.size_bytes < skipped.size_bytes
    world.stores.blob.delete(skipped.key)
    world.stores.blob.set(skipped.key, padded(data, skipped.size_bytes))

    report = world.validate()

    assert {verdict.part for verdict in report.mismatches} == {skipped.key}
    assert {verdict.check for verdict in report.mismatches} == {"big", FORMAT_CHECK}
    assert report.mode_after == "off"


def padded(data: bytes, size: int) -> bytes:
    """Return a Parquet file of a given size with the same rows: what is between is never read."""
    length = int.from_bytes(data[-FOOTER:-4], "little") + FOOTER
    longer = data[:-length] + b"\0" * (size - len(data)) + data[-length:]
    assert pq.read_table(pa.BufferReader(longer)).num_rows
    return longer


def put_back(store: StoreSettings, seqno: int) -> None:
    """Store an old state as the newest one."""
    in_database(
        store,
        "UPDATE strata_consensus SET data = (SELECT data FROM strata_consensus WHERE seqno = ?) "
        "WHERE seqno = (SELECT max(seqno) FROM strata_consensus)",
        seqno,
    )


@pytest.mark.parametrize("back", [1, 2, 3])
def test_an_old_state_in_the_place_of_the_newest_is_refused(
    world: World, store: StoreSettings, back: int
) -> None:
    put_back(store, world.state.seqno - back)

    with pytest.raises(Corrupt, match="belongs elsewhere") as refused:
        contents(store)
    assert refused.value.details["shard"] == NAME


def test_a_state_of_another_shard_is_refused(tmp_path: Path, world: World) -> None:
    address = f"sqlite:///{tmp_path}/consensus.db"
    seqno = world.state.seqno
    in_database(
        StoreSettings("memory:", address),
        "INSERT INTO strata_consensus SELECT 'shards/other', seqno, data FROM strata_consensus",
    )

    with pytest.raises(Corrupt, match="belongs elsewhere") as refused:
        Machine(world.stores).load("other")
    assert (refused.value.details["seqno"], refused.value.details["found"]) == (seqno, NAME)


def test_rows_of_the_history_that_are_gone_change_no_answer(
    world: World, store: StoreSettings
) -> None:
    """All but the newest state may go, as sweeps let them; what needs one of them says so."""
    before, newest = contents(store), world.state
    in_database(store, "DELETE FROM strata_consensus WHERE seqno < ?", newest.seqno)

    assert contents(store) == before
    assert Machine(world.stores).load(NAME) == newest
