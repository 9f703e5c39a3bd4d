"""A signal that ends a process, at each call of its stores, leaves no lease, hold or mark."""

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TypeVar

import pytest

from strata.backup.drop import DROPPING, drop_points
from strata.backup.point import BEGUN, Backup
from strata.backup.save import back_up
from strata.compact import compact_shard
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.machine.reader_hold import reading
from strata.machine.writer_lease import Lease
from strata.model.settings import ReadSettings, Settings
from strata.store.memory import MemoryBlob
from tests.support.failing_stores import Faults, FaultyBlob, FaultyConsensus
from tests.support.garbage import World

T = TypeVar("T")


class Signals(Faults):
    """Ends the process before or after a call; a signal comes only to the main thread."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.after = -1, False

    def call(self, work: Callable[[], T], what: str) -> T:
        if threading.current_thread() is not threading.main_thread():
            return work()
        self.left -= 1
        if self.left == 0 and not self.after:
            raise SystemExit(143)
        result = work()
        if self.left == 0:
            raise SystemExit(143)
        return result


class Store:
    """A shard and a backup of it, at whose calls a signal may come."""

    def __init__(self, signals: Signals) -> None:
        self.world, self.target = World(), MemoryBlob()
        for number in range(2):
            self.world.append(*range(number * 9, number * 9 + 9))
        back_up(self.world.inner, self.target, Settings())
        self.world.append(99)
        inner = self.world.inner
        self.stores = replace(
            inner,
            blob=FaultyBlob(inner.blob, signals),
            consensus=FaultyConsensus(inner.consensus, signals),
        )
        self.backup = Backup(FaultyBlob(self.target, signals))
        [self.point] = Backup(self.target).names()

    def left(self) -> list[str]:
        """Return what others would wait for."""
        state = Machine(self.world.inner).load("s")
        marks = [k for k in self.target.live if k.endswith(f"/{BEGUN}") or k.startswith(DROPPING)]
        return [*(one.name for one in (*state.writers, *state.holds)), *marks]


def compacts(store: Store) -> None:
    lease = Lease(Machine(store.stores), "s", "compact")
    compact_shard(store.stores, "s", Settings(), full=True, lease=lease)


def reads(store: Store) -> None:
    with reading(store.stores, "s", ReadSettings(), "read") as state:
        assert store.stores.blob.get(state.batches[0].manifest) is not None


def backs_up(store: Store) -> None:
    back_up(store.stores, store.backup.blob, Settings())


def drops(store: Store) -> None:
    try:
        drop_points(store.backup, [store.point], store.stores.clock())
    except InvalidRequest:
        assert not Backup(store.target).names()


@pytest.mark.parametrize("work", [compacts, reads, backs_up, drops])
@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_ends_at_any_call_leaves_nothing_for_which_others_wait(
    work: Callable[[Store], None], after: bool
) -> None:
    """Also while it takes a lease, whose commit is done though nobody hears of it."""
    for calls in count(1):
        signals = Signals()
        store = Store(signals)
        signals.left, signals.after = calls, after
        try:
            work(store)
        except SystemExit:
            assert store.left() == [], calls
            work(store)
        else:
            break
    assert calls > 5
