"""A listing that fails, at its start or half-way, is asked for again: no sweep ends by it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from strata import gc
from strata.errors import Unavailable
from strata.gc.drop import loss
from strata.gc.leaks import ROOT
from strata.machine.machine import Machine
from strata.store import keys
from strata.store.interface import BlobInfo
from strata.store.memory import MemoryBlob
from strata.store.open import Stores
from strata.store.retry import Patience, relisted
from tests.support.failing_stores import Faults, FaultyBlob, Outcome
from tests.support.garbage import HOUR, SETTINGS, SPEC, World


class Broken(MemoryBlob):
    """A store whose listings break off behind so many blobs, as many as are left."""

    def __init__(self, breaks: list[int]) -> None:
        super().__init__()
        self.breaks = breaks

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        left = self.breaks.pop(0) if self.breaks else -1
        for info in super().list(prefix):
            if not left:
                break
            left -= 1
            yield info
        if not left:
            raise Unavailable("a listing broke off", certain=True)


def filled(breaks: list[int]) -> Broken:
    blob = Broken(breaks)
    for key in "abcdef":
        blob.set(key, b"1")
    return blob


def test_a_listing_that_breaks_off_goes_on_where_it_was() -> None:
    slept: list[float] = []
    blob = filled([0, 2, 3, 0, 6])
    found = [info.key for info in relisted(blob, "", Patience(attempts=3), slept.append)]

    assert found == [*"abcdef"]
    assert len(slept) == 5


def test_a_listing_that_never_goes_on_fails_after_its_attempts() -> None:
    blob = filled([2] * 9)
    rows = relisted(blob, "", Patience(attempts=3, first_ms=0))

    assert [next(rows).key, next(rows).key] == ["a", "b"]
    with pytest.raises(Unavailable, match="broke off"):
        next(rows)
    assert len(blob.breaks) == 9 - 3


def loss_of(stores: Stores) -> Any:
    return loss(stores, Machine(stores).load("s")).to_json()


def leaks_in(stores: Stores) -> Any:
    return gc.find_leaks(stores, SETTINGS).to_json()


def planned(stores: Stores) -> Any:
    return gc.plan(stores, "s", SETTINGS, every=True).to_json()


def collected(stores: Stores) -> Any:
    return gc.collect(stores, "s", SETTINGS).to_json()


@pytest.mark.parametrize("work", [loss_of, leaks_in, planned, collected])
def test_each_call_may_fail_once(work: Callable[[Stores], Any]) -> None:
    world = World()
    for number in range(4):
        world.append(*range(number, 40, 4))
    world.compact()
    world.sweep()
    world.now_ms += HOUR
    world.stores.blob.set("shards/gone/parts/strange", b"1")
    there = planned(world.stores)
    calls = Faults(cycle([Outcome.REFUSED, Outcome.WORKS]), lambda _: None)
    failing = replace(world.stores, blob=FaultyBlob(world.stores.blob, calls))
    if work is collected:
        assert work(failing)["deleted"] == there["dead"] > 0
    else:
        assert work(failing) == work(world.stores)
    assert calls.drawn[Outcome.REFUSED]


class Meanwhile(FaultyBlob):
    """A store in which a shard begins just before everything is listed."""

    def __init__(self, world: World) -> None:
        super().__init__(world.stores.blob, Faults())
        self.world = world

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        if prefix == ROOT:
            Machine(self.world.stores).create(replace(SPEC, name="later"))
            self.inner.set(f"{keys.part_prefix('later')}00ff.parquet", b"1")
        yield from super().list(prefix)


def test_a_shard_that_begins_meanwhile_is_no_leak() -> None:
    world = World()
    world.append(1)
    assert gc.find_leaks(replace(world.stores, blob=Meanwhile(world)), SETTINGS).clean

    world.blob.set("shards/gone/parts/00ff.parquet", b"1")
    [stray] = gc.find_leaks(world.stores, SETTINGS).strays
    assert stray.reason == "there is no shard 'gone'"
