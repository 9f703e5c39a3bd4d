"""A whole store that an earlier version wrote is read, written to and swept as one of today.

`v1/store.zip` was written on 2026-11-23, when states were whole documents with the unions of
statistics in them (`tests.support.shards.build`, then the folder). It stays as it is.
"""

import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from strata import gc
from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.machine.machine import Machine
from strata.model.settings import GcSettings, Settings, StoreSettings
from strata.read.scan import scan
from strata.state import versions
from strata.store.keys import state_key
from strata.store.open import Stores, open_stores
from tests.support.shards import NAME, append, build, event, let_skip

pytestmark = pytest.mark.slow

STORE = Path(__file__).parent / "v1" / "store.zip"
FEW = Filter(
    Call("less_than", (Column(1, "id", "long"), Literal(30, "long")), "boolean"), "id < 30", 0, 0
)


@pytest.fixture
def old(tmp_path: Path) -> Stores:
    """Return the stores, unpacked, as a new process sees them."""
    with zipfile.ZipFile(STORE) as archive:
        archive.extractall(tmp_path / "old")
    versions.forget_known()
    root = tmp_path / "old"
    return open_stores(StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/consensus.db"))


def rows(stores: Stores) -> pa.Table:
    """Return all that is in the shard, in its order."""
    state = Machine(stores).load(NAME)
    plan = plan_read(stores, state)
    return pa.Table.from_batches(scan(stores, state, plan, consolidate=True)).combine_chunks()


def grow(stores: Stores) -> None:
    """Append one more batch, the same wherever it is done."""
    import random

    state = Machine(stores).load(NAME)
    draw = random.Random(3)
    new = [(event(400 + i, draw), 3000 + i, 1) for i in range(100)]
    append(stores, state, new, 3000, "both")


def test_it_is_read(old: Stores, tmp_path: Path) -> None:
    state = Machine(old).load(NAME)
    assert [b.union for b in state.batches] == [None] * 3
    assert sum(b.stats_union is not None for b in state.batches) == 2, "it holds them itself"
    today = build(tmp_path / "new")
    assert rows(old).equals(rows(today.stores))
    let_skip(old)
    let_skip(today.stores)
    plans = [plan_read(s, Machine(s).load(NAME), filter=FEW) for s in (old, today.stores)]
    assert len({tuple((r.digest, r.rows, r.key_low) for r in plan.fetched) for plan in plans}) == 1
    assert plans[0].parts_skipped == plans[1].parts_skipped > 0


def test_its_next_commit_is_of_today_and_its_old_states_stay(old: Stores, tmp_path: Path) -> None:
    machine = Machine(old)
    before = list(machine.states(NAME))
    grow(old)
    versions.forget_known()
    after = list(machine.states(NAME))
    assert after[: len(before)] == before
    state = after[-1]
    assert all(b.stats_union is None for b in state.batches)
    assert sum(b.union is not None for b in state.batches) == 3
    stored = old.consensus.scan(state_key(NAME), state.seqno, 1)[0].data
    assert versions.link_of(stored) is None, "whole, since those before are of an older format"
    today = build(tmp_path / "new")
    grow(today.stores)
    assert rows(old).equals(rows(today.stores))
    for one in range(70):  # and on, past the next whole document
        machine.append(NAME, token=f"later-{one}", lower=4000 + one, upper=4001 + one)
        if one == 0:
            stored = old.consensus.scan(state_key(NAME), state.seqno + 1, 1)[0].data
            assert versions.link_of(stored) is not None, "what changed"
    versions.forget_known()
    assert replace(machine.load(NAME), seqno=0).batches[:4] == state.batches[:4]


def test_a_sweep_leaves_what_it_has(old: Stores) -> None:
    whole = rows(old)
    grow(old)
    machine = Machine(old)
    for _ in range(3):
        gc.collect(old, NAME, Settings(old.settings, gc=GcSettings(grace_ms=0)))
    state = machine.load(NAME)
    assert all(old.blob.get(b.union, 0, 1) for b in state.batches if b.union)
    assert rows(old).num_rows == whole.num_rows + 100
