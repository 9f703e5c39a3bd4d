"""What leads to erased rows goes, and nothing that a state of after still names."""

from dataclasses import replace

import pytest

from strata.erase.clear import clear
from strata.erase.notes import ASIDE, Cleared
from strata.erase.remove import Waiting
from strata.errors import Fenced, Unavailable
from strata.state.erasing import begin
from strata.state.holds import hold
from strata.state.state import Erasure, State
from strata.state.step import step
from strata.store import keys
from tests.support.garbage import World

ERASURE = Erasure("e1", 0, "ann", "asked", "a fingerprint")


def closed(state: State, now_ms: int) -> tuple[State, int]:
    """Close the erasure, as where no batch held a row and no writer of before is left."""
    assert state.erasing is not None
    generation = state.generation + 1
    erasing = replace(state.erasing, generation=generation, closed=state.seqno + 1)
    following = step(
        state,
        now_ms,
        erasing=erasing,
        generation=generation,
        generation_ms=now_ms,
        fence=generation,
    )
    return following, following.seqno


def begun() -> tuple[World, int]:
    """Return a shard whose erasure is closed, and the first state without a row."""
    world = World()
    world.append(1)
    world.append(2)
    world.machine.apply("s", lambda state, now_ms: begin(state, now_ms, erasure=ERASURE))
    return world, world.machine.apply("s", closed, whole=True)


def cleared(world: World, first: int) -> Cleared:
    removed = Cleared(world.stores, "s", "e1")
    clear(world.stores, "s", first, Waiting(0, lambda _: None), removed)
    return removed


def test_states_and_blobs_of_before_go_and_what_a_sweep_has_set_aside() -> None:
    world, first = begun()
    orphan = world.write([9], replace(world.state, generation=0)).manifest
    young = world.write([8]).manifest
    aside = keys.verdict_key("s", "old")
    world.blob.set(aside, b"12345")
    world.blob.delete(aside)
    live = {*world.state_parts()}

    removed = cleared(world, first).total()

    assert [state.seqno for state in world.machine.states("s")] == [first]
    assert world.blob.deleted == {}
    assert orphan not in world.stored()
    assert young in world.stored(), "its writer read clean batches only"
    assert live <= {*world.stored()}
    assert removed.states == first - 1
    assert removed.blobs[ASIDE] == (1, 5)
    assert removed.blobs["parts"][0] == removed.blobs["manifests"][0] == 1


def test_what_a_state_of_after_names_stays_for_its_reader_though_a_merge_came() -> None:
    world, first = begun()
    world.machine.apply(
        "s", lambda state, now: hold(state, now, name="r", since=state.upper, lease_ms=9_999)
    )
    clean, parts = world.state, {*world.state_parts()}
    world.compact()

    cleared(world, first)

    assert parts <= {*world.stored()}
    assert world.read(clean) == [1, 2]


def test_a_reader_of_a_state_of_before_is_waited_for() -> None:
    world, first = begun()
    world.machine.apply(
        "s", lambda state, now: hold(state, now, name="r", since=state.upper, lease_ms=9_999)
    )

    with pytest.raises(Unavailable, match="when others have ended") as caught:
        cleared(world, world.state.seqno + 1)

    assert caught.value.details["waits_for"] == "r"
    assert next(world.machine.states("s")).seqno < first


@pytest.mark.parametrize("erasing", [None, replace(ERASURE, id="e2", generation=1)])
def test_a_run_whose_erasure_another_one_has_ended_removes_no_blob(erasing: Erasure | None) -> None:
    world, first = begun()
    world.write([9], replace(world.state, generation=0))
    stored = world.stored()
    world.machine.apply("s", lambda state, now: (step(state, now, erasing=erasing), None))

    with pytest.raises(Fenced, match="another run of this erasure"):
        cleared(world, first)

    assert [key for key in world.stored() if "/erasures/" not in key] == stored


def test_no_blob_goes_while_a_state_of_before_is_still_stored() -> None:
    """A database that could not drop it would lead to what is gone."""
    world, first = begun()
    world.write([9], replace(world.state, generation=0))
    stored = world.stored()
    consensus = world.stores.consensus
    consensus.truncate = lambda *_: 0  # type: ignore[method-assign]

    with pytest.raises(Unavailable, match="still stored") as caught:
        cleared(world, first)

    assert (caught.value.details["oldest"], caught.value.details["closed"]) == (1, first)
    assert [key for key in world.stored() if "/erasures/" not in key] == stored
