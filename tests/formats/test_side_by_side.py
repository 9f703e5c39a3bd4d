"""Stores of other versions: yesterday's goes on under today's, and tomorrow's is refused whole.

`v1/store-2026-11-24.zip` was written by the commit before erasures: states are changes with whole
ones between, unions are blobs, commits are in a ledger; there is a merge, a critical hold, an
ingest with a rejected row. It stays as it is.
"""

import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from strata import gc
from strata.backup import verify_shard
from strata.compact import compact_shard
from strata.errors import InvalidRequest
from strata.ingest.quarantine import rejected
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state
from strata.model.settings import GcSettings, ReadSettings, Settings, StoreSettings
from strata.state import versions
from strata.state.codec import encode_state
from strata.state.holds import hold_critical
from strata.state.plain import dump
from strata.state.seal import sealed
from strata.store.interface import Versioned
from strata.store.keys import state_key
from strata.store.open import Stores, open_stores
from tests.formats.test_old_store import grow, rows
from tests.support.erasing import all_rows
from tests.support.shards import NAME, build

pytestmark = pytest.mark.slow

STORE = Path(__file__).parent / "v1" / "store-2026-11-24.zip"
SWEEP = Settings(gc=GcSettings(grace_ms=0))


@pytest.fixture
def old(tmp_path: Path) -> Stores:
    """Return the stores, unpacked, as a new process sees them."""
    root = tmp_path / "old"
    with zipfile.ZipFile(STORE) as archive:
        archive.extractall(root)
    versions.forget_known()
    return open_stores(StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/consensus.db"))


def test_it_is_read(old: Stores, tmp_path: Path) -> None:
    today = build(tmp_path / "new").stores
    grow(today)
    state = Machine(old).load(NAME)
    assert (state.suppressed, state.erasing) == (None, None)
    assert state.ledger
    assert [hold.name for hold in state.holds] == ["kept"]
    assert len(state.merges) == 1
    assert rows(old).drop_columns(["t"]).equals(rows(today).drop_columns(["t"]))
    assert all_rows(old, "people") == {(1, "a"): 1, (2, "b"): 1, (3, "d"): 1}
    assert [row["raw"] for found in rejected(old, "people") for row in found.rows] == [b"x,c"]


def test_it_goes_on_under_today(old: Stores) -> None:
    machine, before = Machine(old), list(Machine(old).states(NAME))
    whole = all_rows(old, NAME)
    first = before[-1].commits[0]
    again = machine.append(NAME, token="t0", lower=0, upper=1000)  # in the ledger, by its token
    assert again.already_committed
    assert first.token != "t0"
    machine.append(NAME, token="today", lower=5000, upper=5001)
    versions.forget_known()
    assert list(machine.states(NAME))[: len(before)] == before
    compact_shard(old, NAME, Settings(), full=True)
    for _ in range(3):
        gc.collect(old, NAME, SWEEP)
    versions.forget_known()
    assert all_rows(old, NAME) == whole
    assert verify_shard(old, NAME, Settings()).wrong == ()
    opaque = {"expected": "a", "opaque": "b"}
    machine.apply(NAME, partial(hold_critical, name="kept", since=200, **opaque))


def whole(stores: Stores) -> bytes:
    """Return the next document as tomorrow's program writes it, whole."""
    state = Machine(stores).load(NAME)
    document: dict[str, Any] = orjson.loads(encode_state(state))
    document["state"] |= {"seqno": state.seqno + 1, "tomorrow": 5}
    return resealed(document)


def change(stores: Stores) -> bytes:
    """Return the same as a change."""
    machine = Machine(stores)
    state = machine.load(NAME)
    version = machine._documents.head(NAME)
    assert version is not None
    following = type(state)(
        **{
            **{f: getattr(state, f) for f in state.__slots__},
            "seqno": state.seqno + 1,
            "walltime_ms": state.walltime_ms + 1,
        }
    )
    document: dict[str, Any] = orjson.loads(versions.successor(version, following)[0])
    assert "base" in document
    document["state"]["tomorrow"] = ["set", 5]
    return resealed(document)


def resealed(document: dict[str, Any]) -> bytes:
    return sealed(dump({k: v for k, v in document.items() if k != "digest"} | {"by": "9.0"}))


@pytest.mark.parametrize("make", [whole, change])
def test_what_tomorrow_commits_is_refused_and_nothing_is_harmed(
    old: Stores, make: Callable[[Stores], bytes]
) -> None:
    machine = Machine(old)
    machine.append(NAME, token="today", lower=5000, upper=5001)  # whole, of today's format
    state = machine.load(NAME)
    data = make(old)
    assert old.consensus.compare_and_set(
        state_key(NAME), state.seqno, Versioned(state.seqno + 1, data)
    )
    versions.forget_known()
    blobs = [(info.key, info.size_bytes) for info in old.blob.list("")]

    for attempt in (
        lambda: machine.load(NAME),
        lambda: held_state(old, NAME, ReadSettings()),
        lambda: machine.append(NAME, token="late", lower=6000, upper=6001),
        lambda: compact_shard(old, NAME, Settings(), full=True),
        lambda: gc.collect(old, NAME, SWEEP),
        lambda: machine.drop(NAME, by="ann", reason="no"),
    ):
        with pytest.raises(InvalidRequest, match="newer version"):
            attempt()

    assert [(info.key, info.size_bytes) for info in old.blob.list("")] == blobs
    head = old.consensus.head(state_key(NAME))
    assert head == Versioned(state.seqno + 1, data)
    assert NAME in machine.names()
    machine.append("people", token="more", lower=20, upper=21)  # other shards go on
    assert sum(all_rows(old, "people").values()) == 3


def test_a_change_names_only_what_it_changes(old: Stores) -> None:
    """What makes two versions side by side possible until the next whole document."""
    machine = Machine(old)
    for number in range(3):
        machine.append(NAME, token=f"n{number}", lower=5000 + number, upper=5001 + number)
        head = old.consensus.head(state_key(NAME))
        assert head is not None
        if versions.link_of(head.data) is not None:
            assert b"suppressed" not in head.data
            assert b"erasing" not in head.data
            return
    raise AssertionError("no change among three commits")
