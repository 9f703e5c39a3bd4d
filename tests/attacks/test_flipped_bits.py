"""A bit that flips in what is stored is found: no bound moves, nothing passes for a newer version.

A flipped bit in a bound lost 30 of 30 rows without a word; one in a field's name was said to have
been written by a newer version.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from strata.decide.plan import plan_read
from strata.errors import Corrupt, StrataError
from strata.ingest.quarantine import rows_of_index, write_index
from strata.machine.ledger import commits_of
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.read.collections import load_catalog
from strata.rollout import kill
from strata.rollout.kill import KillSwitch, kill_switch, throw
from strata.shard import open_shard
from strata.state import codec
from strata.state.catalog import Catalog, encode_catalog
from strata.state.codec import decode_state, encode_commits, encode_state
from strata.state.seal import digest_of
from strata.state.state import Batch, Spine, SpineBatch, State
from strata.state.transitions import create
from strata.store import keys
from strata.store.interface import Versioned
from strata.store.memory import MemoryBlob
from strata.store.named import get_named
from strata.store.open import Stores
from tests.support.batches import spec
from tests.support.shards import NAME, copied

pytestmark = pytest.mark.slow

FORMATS = Path(__file__).parents[1] / "formats" / "v1"
UNION = b"\x00low\xff"
BATCH = Batch(
    0,
    10,
    0,
    3,
    99,
    1,
    manifest="shards/events/manifests/g0/00ff.arrow",
    stats_union=UNION,
    stats_digest=digest_of(UNION),
)
SMALL = replace(
    create(spec(), 1_000), seqno=2, upper=10, spine=Spine((SpineBatch(0, 1, 2, (BATCH,)),), 1)
)


def flips(data: bytes) -> Iterator[bytes]:
    """Yield the data with each of its bits flipped."""
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            yield bytes(flipped)


def believed(data: bytes, state: State) -> list[str]:
    """Return what each flip of a document is taken for, where it is taken for another state."""
    found = []
    for flipped in flips(data):
        try:
            if (
                codec._load(flipped, "state", State, old=not codec.is_sealed(flipped, "state"))
                == state
            ):
                continue
            found.append("another state")
        except Corrupt:
            continue
        except StrataError as error:
            found.append(error.message)
    return found


def test_no_flipped_bit_of_a_state_is_believed() -> None:
    data = encode_state(SMALL)
    assert len(data) > 2_000
    assert believed(data, SMALL) == []
    decoded = decode_state(data)
    assert decoded == SMALL


def test_a_document_without_a_digest_is_read_and_no_flip_of_it_is_a_newer_version() -> None:
    """Of before there were digests: what changes a value cannot be found, but nobody blames us."""
    data = (FORMATS / "state.json").read_bytes().strip()
    state = decode_state(data)
    assert data.startswith(b'{"format"')
    assert set(believed(data, state)) == {"another state"}
    assert encode_state(state).startswith(b'{"digest":"'), "its next commit is sealed"


def test_damage_names_shard_number_and_cure(tmp_path: Path) -> None:
    """In the database itself: a bit of a bound, then one of a field's name."""
    events = copied(tmp_path)
    machine = Machine(events.stores)
    seqno = machine.load(NAME).seqno
    file = events.settings.store.consensus.removeprefix("sqlite:///")
    events.stores.consensus.close()  # type: ignore[attr-defined]
    with sqlite3.connect(file) as base:
        query = "SELECT data FROM strata_consensus WHERE seqno = ?"
        ((data,),) = base.execute(query, (seqno,))
    base.close()
    for what in (b'"upper":["set",', b'"before":"', b'"digest":"', b'"seqn'):
        at = data.rindex(what) + len(what)
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with sqlite3.connect(file) as base:
            base.execute("UPDATE strata_consensus SET data = ? WHERE seqno = ?", (damaged, seqno))
        base.close()
        with pytest.raises(Corrupt) as told:
            open_shard(Settings(events.settings.store), NAME).plan()
        assert (told.value.details["shard"], told.value.details["seqno"]) == (NAME, seqno)
        assert "backup" in str(told.value.cure)


def test_statistics_that_were_damaged_in_a_writer_are_not_committed() -> None:
    """The digest is made with them, not with the document: a flip between the two is found."""
    for union in flips(UNION):
        batch = replace(BATCH, stats_union=union)
        lying = replace(SMALL, spine=Spine((SpineBatch(0, 1, 2, (batch,)),), 1))
        with pytest.raises(Corrupt, match="statistics of a batch are damaged"):
            encode_state(lying)


def test_an_old_state_that_is_damaged_stops_no_commit(tmp_path: Path) -> None:
    """Old ones are dropped by the way; who commits has not asked for them."""
    from strata.model.settings import StoreSettings
    from strata.store.open import open_stores

    stores = open_stores(StoreSettings(f"file://{tmp_path}/b", f"sqlite:///{tmp_path}/c.db"))
    machine = Machine(stores)
    machine.create(spec("events"))
    for number in range(400):
        machine.append("events", token=str(number), lower=number, upper=number + 1)
        if number == 300:
            with sqlite3.connect(tmp_path / "c.db") as base:
                base.execute("UPDATE strata_consensus SET data = x'78' WHERE seqno < 200")
            base.close()
    assert machine.load("events").upper == 400


HASH = keys.content_hash(UNION)
NAMED = (
    keys.ledger_key("s", -5, 9, HASH),
    keys.ledger_key("s", -5, 9, HASH, 2),
    keys.manifest_key("s", HASH, 3),
    keys.catalog_key("s", HASH),
    keys.consumed_key("s", HASH, 1),
    keys.quarantine_key("s", f"token/index-{HASH}"),
    keys.quarantine_key("s", f"token/{HASH}"),
    keys.verdict_key("s", f"run/{HASH}"),
)


@pytest.mark.parametrize("key", NAMED)
def test_each_kind_of_named_blob_is_compared_with_its_name(key: str) -> None:
    blob = MemoryBlob()
    blob.set(key, UNION)
    assert get_named(blob, key, "a blob") == UNION
    for data in flips(UNION):
        lying = MemoryBlob()
        lying.set(key, data)
        with pytest.raises(Corrupt, match="a blob is damaged: its bytes are not those") as caught:
            get_named(lying, key, "a blob", shard="s")
        assert caught.value.details == {"key": key, "size": len(data), "shard": "s"}
    with pytest.raises(Corrupt, match="a blob is missing"):
        get_named(MemoryBlob(), key, "a blob")


def damage(stores: Stores, key: str) -> None:
    """Flip the last bit of one blob, as a disk does it."""
    path = Path(stores.settings.blob.removeprefix("file://")) / key
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)


def test_what_is_read_whole_is_compared(tmp_path: Path) -> None:
    """By each who reads it: old commits, collections, rejected rows, a manifest."""
    events = copied(tmp_path)
    stores = events.stores
    state = Machine(stores).load(NAME)
    old, names = encode_commits(()), encode_catalog(Catalog(1, 1, ()))
    leaf = keys.ledger_key(NAME, 0, 9, keys.content_hash(old))
    catalog = keys.catalog_key(NAME, keys.content_hash(names))
    rows = keys.quarantine_key(NAME, f"t/{keys.content_hash(b'{}')}")
    for key, content in ((leaf, old), (catalog, names), (rows, b"{}")):
        stores.blob.set(key, content)
    index = write_index(stores.blob, NAME, "t", [rows]) or ""
    with_catalog = replace(state, catalog=catalog)
    readers: dict[str, Callable[[], object]] = {
        leaf: lambda: commits_of(stores.blob, leaf),
        catalog: lambda: load_catalog(stores, with_catalog),
        rows: lambda: rows_of_index(stores.blob, index),
        index: lambda: rows_of_index(stores.blob, index),
        state.batches[0].manifest or "": lambda: plan_read(stores, state),
    }
    for key, read in readers.items():
        read()
        damage(stores, key)
        with pytest.raises(Corrupt, match="its bytes are not those that its name was made from"):
            read()
        if key == rows:
            damage(stores, key)  # whole again


def test_no_flipped_bit_releases_the_kill_switch(tmp_path: Path) -> None:
    """What cannot be believed counts as thrown, also where it was released."""
    stores = copied(tmp_path).stores
    throw(stores, thrown=True, who="ann", reason="a")
    released = throw(stores, thrown=False, who="bob", reason="b")
    head = stores.consensus.head(kill.KEY)
    assert head is not None
    assert head.data.startswith(b'{"digest":"')
    assert kill_switch(stores) == released
    for data in flips(head.data):
        assert kill._decode(Versioned(head.seqno, data)).thrown


def test_a_kill_switch_of_before_there_were_digests_is_read() -> None:
    old = b'{"thrown":false,"by":"ann","reason":"r","at_ms":7}'
    assert kill._decode(Versioned(1, old)) == KillSwitch(False, "ann", "r", 7)
