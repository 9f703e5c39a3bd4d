"""A proof finds an erased row or a term wherever it is stored, and counts what it looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from strata.erase.parts import hash_rows, tasks_of
from strata.erase.prove import Bloom, Proof, prove
from strata.erase.remove import parts_of
from strata.erase.texts import Terms
from strata.errors import Corrupt
from strata.format.manifest import PartRef
from strata.kernels.arrays import Ints, Words
from strata.parts.suppressed import Kind, empty, store_suppressed
from strata.state.erasing import suppress
from strata.state.state import State
from strata.state.step import step
from strata.store import keys
from tests.support.garbage import World

NOTHING = Terms(())
RANDOM = np.random.default_rng(7)


def words(count: int) -> Words:
    return RANDOM.integers(0, 2**64, count, np.uint64)


@pytest.mark.parametrize("count", [0, 1, 2, 50, 3000])
def test_a_bloom_filter_holds_its_words_and_hardly_any_other(count: int) -> None:
    mine, others = words(count), words(20_000)

    bloom = Bloom.of(mine)

    assert bloom.may_hold(mine).all()
    assert bloom.may_hold(others).sum() <= 4
    assert bloom.may_hold(mine).dtype == bloom.may_hold(others).dtype == np.bool_


def none_of(_: State, refs: Sequence[PartRef]) -> Mapping[str, Ints]:
    return {ref.key: np.zeros(0, np.int64) for ref in refs}


def proved(world: World, terms: Terms = NOTHING) -> Proof:
    return prove(world.stores, "s", none_of, "e1", terms)[0]


def erased(world: World, kind: Kind, *numbers: int) -> None:
    """Have rows of the first part, which stay where they are, be among those that were erased."""
    ref, *_ = parts_of(world.stores, world.state).values()
    known = empty()
    [task] = tasks_of(world.stores, world.state, [ref], {ref.key: np.array(numbers)}, known)
    found = hash_rows(task)
    new = (
        known.plus("e1", "key", found.keys)
        if kind == "key"
        else known.plus("e1", "row", found.rows)
    )
    key = store_suppressed(world.blob, "s", new, world.state.generation)
    world.machine.apply(
        "s", lambda state, now: suppress(state, now, expected=None, key=key, generation=99)
    )


def filled() -> World:
    world = World()
    world.append(*range(10))
    world.append(20, 21)
    return world


@pytest.mark.parametrize("kind", ["key", "row"])
def test_rows_that_were_erased_are_found_in_parts_that_a_state_names(kind: Kind) -> None:
    world = filled()
    assert (proved(world).rows, proved(world).hash_hits) == (12, 0)
    erased(world, kind, 2, 5)

    proof = proved(world)

    assert (proof.parts, proof.rows, proof.bloom_hits, proof.hash_hits) == (2, 12, 2, 2)


def test_rows_that_were_erased_are_found_in_parts_that_no_state_names_yet() -> None:
    world = filled()
    erased(world, "key", 2, 5)
    world.write([2, 5, 30])

    proof = proved(world)

    assert (proof.parts, proof.rows, proof.hash_hits) == (3, 15, 4)


def test_a_part_that_cannot_be_read_proves_nothing() -> None:
    world = filled()
    world.blob.set(keys.part_key(keys.part_prefix("s", 0), "ab"), b"no part")

    with pytest.raises(Corrupt, match="that no state names cannot be read") as caught:
        proved(world)
    assert caught.value.details["part"]


def test_rows_that_the_filter_accepts_are_counted() -> None:
    world = filled()
    found, _ = prove(
        world.stores, "s", lambda _, refs: {ref.key: np.arange(3) for ref in refs}, "e1", NOTHING
    )
    assert found.matching == 6


def test_terms_are_found_in_other_blobs_and_in_states() -> None:
    world = filled()
    place = keys.usage_key("s", "2026-01-01", "001")
    world.blob.set(place, b'{"filter": "bob@example.org"}')
    world.blob.set("shards/s/somebody/else", b"bob@example.org")
    rollout = replace(world.state.rollout, reason="as bob@example.org asked")
    world.machine.apply("s", lambda state, now: (step(state, now, rollout=rollout), None))

    proof = proved(world, Terms(("bob@example.org",)))

    assert proof.left == [place, f"state {world.state.seqno}"]
    assert (proof.seqno, proof.states) == (world.state.seqno, world.state.seqno)
    assert proof.blobs == len(world.blob.live) - proof.parts - 1
    assert proof.to_json()["left_places"] == 2
