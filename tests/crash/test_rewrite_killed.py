"""Killed at any moment of both passes, a merge into another order and relation loses nothing.

The process that is killed is that of `test_compact_killed`; here the batches of the shard are of
another sort order and relation.
"""

import random
import time
from pathlib import Path

import pyarrow as pa
import pytest

from strata.audit.batches import look
from strata.compact import compact_shard
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.state.schema import DropColumn, SortBy
from strata.store.open import Stores, open_stores
from tests.crash.test_compact_killed import OPTIONS, on_disk, start
from tests.support.stored import append, create, snapshot
from tests.support.updates import table

COLUMNS = (
    Column(1, "id", parse_type("string")),
    Column(2, "n", parse_type("int64")),
    Column(3, "gone", parse_type("int64")),
)
RELATION = Relation(0, COLUMNS, (1,), ())
DAYS, ROWS = 3, 600


def day(number: int) -> pa.Table:
    new = [(f"row {i:05}", i * 31 % 97 + number, i, number, 1) for i in range(ROWS)]
    old = [(f"row {i:05}", i * 31 % 97 + number - 1, i, number, -1) for i in range(ROWS) if number]
    return table(RELATION, [*new, *old])


def filled(root: Path) -> Stores:
    stores = open_stores(on_disk(root))
    create(stores, RELATION)
    for number in range(DAYS):
        append(stores, "shard", number, number + 1, [day(number)])
    for change in (DropColumn("gone"), SortBy(("n",))):
        Machine(stores).evolve("shard", change)
    return stores


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_killed_again_and_again_it_ends_as_an_undisturbed_run(seed: int, tmp_path: Path) -> None:
    stores, draw = filled(tmp_path), random.Random(seed)
    before, kills, resumed = snapshot(stores, "shard"), 0, 0

    for _ in range(60):
        process = start(tmp_path)
        assert process.stdout is not None
        for _ in range(draw.randrange(1, 6)):
            last = process.stdout.readline()
        time.sleep(draw.random() * 0.05)
        process.kill()
        rest = process.stdout.read()
        process.stdout.close()
        ended = process.wait()
        assert ended in {0, -9}
        assert snapshot(stores, "shard") == before
        state = Machine(stores).load("shard")
        resumed = max([resumed, *(merge.resumed for merge in state.merges)])
        if "done" in last + rest:
            break
        kills += 1

    state = Machine(stores).load("shard")
    assert kills >= 5
    assert resumed > 0
    assert len(state.batches) == 1
    assert {run.order for run in state.batches[0].runs} == {(2, 1)}
    assert state.merging == ()
    assert [finding for one in look(stores, state) for finding in one.findings] == []
    assert state.batches == undisturbed(tmp_path / "other")


def undisturbed(root: Path):
    """Return what one run that nobody disturbs makes of the same appends."""
    root.mkdir()
    stores = filled(root)
    compact_shard(stores, "shard", OPTIONS, full=True)
    return Machine(stores).load("shard").batches
