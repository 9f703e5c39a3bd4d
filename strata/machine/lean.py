"""Move the unions of a state's statistics to blobs before the state is committed.

A batch that was just written comes with the union of its statistics, and older states hold unions.
`strata.parts.unions` reads the blobs.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from strata.format.pack import pack
from strata.state.state import Batch, SpineBatch, State
from strata.store.interface import Blob
from strata.store.keys import content_hash, union_key
from strata.store.retry import retry

PARTS_MIN: Final = 2  # of a batch with a union: the manifest of a single part says as much


def moved_out(blob: Blob, state: State) -> State:
    """Return `state` with the unions of its batches in blobs, where that is worthwhile.

    A blob has the state's generation, so that it is not collected before the state is committed.
    Cost: a small blob for each batch that came with its union.
    """
    if all(batch.stats_union is None for batch in state.batches):
        return state
    slots = tuple(_slot_moved(blob, state, slot) for slot in state.spine.slots)
    return replace(state, spine=replace(state.spine, slots=slots))


def _slot_moved(blob: Blob, state: State, slot: SpineBatch) -> SpineBatch:
    if all(batch.stats_union is None for batch in slot.batches):
        return slot
    return replace(slot, batches=tuple(_moved(blob, state, batch) for batch in slot.batches))


def _moved(blob: Blob, state: State, batch: Batch) -> Batch:
    if batch.stats_union is None:
        return batch
    without = replace(batch, stats_union=None, stats_digest=None, union=None)
    if batch.parts < PARTS_MIN:
        return without
    data = pack(batch.stats_union)
    key = union_key(state.name, content_hash(data), state.generation)
    retry(partial(blob.set, key, data))
    return replace(without, union=key)
