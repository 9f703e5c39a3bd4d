"""What a state names is live, by name or by number, and nothing else is."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from strata import gc
from strata.errors import InvalidRequest
from strata.gc import live
from strata.gc.back import brought_back, named_count
from strata.gc.drop import drop_shard, loss
from strata.gc.leaks import find_leaks
from strata.gc.live import LiveNumbers, live_keys, which_live
from strata.gc.reach import reach
from strata.machine.machine import Machine
from strata.model.time import MIN_TIME
from strata.state import erasing
from strata.state.holds import hold
from strata.state.state import Erasure, Hold
from strata.store import keys
from strata.store.interface import Expunging
from strata.store.memory import MemoryBlob
from tests.support.garbage import SETTINGS, SPEC, World

KINDS: tuple[Callable[[str], str], ...] = (
    lambda digest: keys.part_key(keys.part_prefix("s"), digest),
    lambda digest: keys.bloom_key_of(keys.part_prefix("s"), digest),
    lambda digest: keys.manifest_key("s", digest),
    lambda digest: keys.page_key("s", digest),
    lambda digest: keys.verdict_key("s", digest),
)


def named(number: int) -> str:
    return KINDS[number % len(KINDS)](f"{number:064x}")


@pytest.mark.parametrize("exact", [0, 1, 7, 40, 41])
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_each_key_that_is_named_is_live_and_no_other(
    monkeypatch: pytest.MonkeyPatch, exact: int, at_once: int
) -> None:
    monkeypatch.setattr(live, "NAMES_MAX", exact)
    monkeypatch.setattr(live, "AT_ONCE", at_once)
    mine, others = [named(n) for n in range(40)], [named(n) for n in range(40, 80)]
    Random(exact).shuffle(mine)

    found = live_keys(iter(mine))

    assert isinstance(found, LiveNumbers) is (exact < len(mine))
    assert [*which_live(found, mine)] == [True] * 40
    assert [*which_live(found, others)] == [False] * 40
    assert named_count(found) == 40


def test_what_a_drop_would_delete_is_counted() -> None:
    world = World()
    world.append(1)
    world.append(2)
    stored = {info.key: info.size_bytes for info in world.blob.list("shards/s/")}

    document = loss(world.stores, world.state).to_json()

    assert (document["blobs"], document["bytes"]) == (len(stored), sum(stored.values()))
    assert sum(kind["blobs"] for kind in document["kinds"]) == len(stored)


def test_a_drop_that_is_repeated_keeps_its_tombstone() -> None:
    world = World()
    first = drop_shard(world.machine, "s", by="ann", reason="a trial", force=False)

    assert drop_shard(world.machine, "s", by="bob", reason="again", force=False) == first


def test_what_was_set_aside_comes_back_only_for_a_shard_that_is_there() -> None:
    world = World()
    manifest = world.append(1).manifest
    assert manifest is not None
    world.blob.delete(manifest)

    assert brought_back(world.machine, "s") == 1
    assert manifest in world.stored()

    world.machine.drop("s", by="ann", reason="a trial")
    world.blob.delete(manifest)
    assert isinstance(world.blob, Expunging)
    assert brought_back(world.machine, "s") == 0
    assert manifest not in world.stored()


def test_a_strange_key_below_one_of_several_shards_is_no_blob_of_none() -> None:
    world = World()
    Machine(world.stores).create(replace(SPEC, name="other"))
    below, beside = "shards/s/parts-of-somebody/x", "shards/nobody/strange"
    for key in (below, beside):
        world.blob.set(key, b"?")

    found = find_leaks(world.stores, SETTINGS)

    assert {one.key: one.reason for one in found.strays} == {
        below: "no key that Strata makes",
        beside: "of no shard",
    }
    assert len(found.strays) == 2
    assert not found.clean


def test_a_sweep_counts_each_blob_and_its_bytes() -> None:
    world = World()
    for row in range(3):
        world.append(row, row + 10)
    world.compact()
    world.settle()
    world.write([5])
    stored = {info.key: info.size_bytes for info in world.blob.list("shards/s/")}

    for every in (False, True):
        counts = gc.plan(world.stores, "s", SETTINGS, every=every).counts.values()
        assert sum(blobs for blobs, _ in counts) == len(stored)
        assert sum(size for _, size in counts) == sum(stored.values())


def test_no_journal_is_dropped_by_a_person() -> None:
    with pytest.raises(InvalidRequest, match="Strata alone"):
        drop_shard(World().machine, "strata_operations", by="ann", reason="x", force=True)


ERASURE = Erasure("e1", 0, "ann", "asked", "a fingerprint")


def test_a_drop_ends_an_erasure_in_the_shards_about_it_and_a_refused_one_does_not() -> None:
    """Nobody could go on with it there, and no other erasure could begin."""
    world = World()
    for name in ("about", "other"):
        Machine(world.stores).create(replace(SPEC, name=name))
    for name in ("s", "about"):
        world.machine.apply(name, partial(erasing.begin, erasure=ERASURE))
    world.machine.apply("s", partial(hold, name="reader", since=MIN_TIME, lease_ms=9_999))

    with pytest.raises(InvalidRequest, match="in use"):
        drop_shard(world.machine, "s", by="ann", reason="x", force=False)
    assert world.machine.load("about").erasing is not None

    drop_shard(world.machine, "s", by="ann", reason="x", force=True)

    assert world.machine.load("about").erasing is None
    assert world.machine.load("s", dropped=True).erasing is None


@pytest.mark.parametrize(
    ("claim", "keeps"),
    [
        (Hold("r", 0, 1001, seqno=8), True),
        (Hold("r", 0, 1000, seqno=8), False),  # just expired
        (Hold("r", 0, 1001, seqno=1), True),
        (Hold("r", 0, 1001, seqno=9), False),  # it reads the newest state
        (Hold("r", 0, 1001, seqno=0), False),  # of before holds said from where they read
        (Hold("r", 0, None, seqno=8), False),  # critical: it reads the newest state
    ],
)
def test_a_live_hold_that_reads_an_older_state_is_named(claim: Hold, keeps: bool) -> None:
    world = World()
    for number in range(8):
        world.append(number)
    head = replace(world.state, holds=(claim,))
    assert head.seqno == 9

    found = reach(world.machine, head, fence=0, now_ms=1000)

    assert found.held_by == (("r",) if keeps else ())


def test_states_that_count_are_counted() -> None:
    world = World()
    for number in range(3):
        world.append(number)
    head = world.state

    assert reach(world.machine, head, fence=head.generation, now_ms=0).states == head.seqno
    assert reach(world.machine, head, fence=head.generation + 1, now_ms=0).states == 1


class Plain:
    """A store that cannot say what it has set aside."""

    def __init__(self, inner: MemoryBlob) -> None:
        self._inner = inner
        self.get, self.list, self.restore = inner.get, inner.list, inner.restore


def test_a_store_that_sets_nothing_aside_brings_nothing_back() -> None:
    world = World()
    manifest = world.append(1).manifest
    assert manifest is not None
    world.blob.delete(manifest)
    plain = Machine(replace(world.stores, blob=Plain(world.blob)))  # type: ignore[arg-type]

    assert brought_back(plain, "s") == 0
    assert manifest not in world.stored()
