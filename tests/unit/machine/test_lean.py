"""No committed state holds the statistics of its batches."""

from dataclasses import replace

import pytest

from strata.format.pack import unpack
from strata.machine.lean import moved_out
from strata.state.seal import digest_of
from strata.store.keys import generation_of
from strata.store.memory import MemoryBlob
from tests.unit.state.test_transitions import filled


@pytest.mark.parametrize("with_union", [(0, 1, 2), (0,), (1, 2), (2,)])
def test_each_union_leaves_the_state_also_beside_batches_without_one(
    with_union: tuple[int, ...],
) -> None:
    state = replace(filled(16, 4, 16), generation=3)
    [slot] = state.spine.slots
    union = {"stats_union": b"ARROW", "stats_digest": digest_of(b"ARROW"), "parts": 2}
    batches = tuple(
        replace(one, **union) if n in with_union else one for n, one in enumerate(slot.batches)
    )
    heavy = replace(state, spine=replace(state.spine, slots=(replace(slot, batches=batches),)))
    blob = MemoryBlob()

    moved = moved_out(blob, heavy).batches

    assert [bool(one.union) for one in moved] == [n in with_union for n in range(3)]
    assert all(one.stats_union is one.stats_digest is None for one in moved)
    for one in moved:
        if one.union:
            assert generation_of(one.union) == 3
            assert unpack(blob.get(one.union) or b"") == b"ARROW"


def test_a_batch_without_a_union_of_its_own_stays_as_it_is() -> None:
    """Its union is in a blob already, or is not known."""
    state = filled(256, 16, 4, 16)
    first, second = state.spine.slots
    there = replace(second.batches[0], union="shards/events/unions/ab", parts=2)
    unknown = replace(second.batches[1], parts=2)
    own = replace(second.batches[2], stats_union=b"ARROW", parts=2)
    second = replace(second, batches=(there, unknown, own))
    heavy = replace(state, spine=replace(state.spine, slots=(first, second)))

    moved = moved_out(MemoryBlob(), heavy)

    assert moved.spine.slots[0] is first
    assert moved.spine.slots[1].batches[:2] == (there, unknown)
    assert moved.spine.slots[1].batches[2].union
    assert moved_out(MemoryBlob(), moved) is moved
