"""What an erasure is about to do, noted before it is done, for the certificate.

    shards/{shard}/erasures/{id}/{hash}.json    a batch without rows, blobs and states to remove

A run that follows a killed one finds what that one has done. A note of what did not happen goes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

import orjson

from strata.errors import Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.state.state import State
from strata.store import keys
from strata.store.interface import Expunging
from strata.store.open import Stores
from strata.store.retry import retry

ASIDE: Final = "set aside"  # what sweeps have set aside; also what a killed run has
Note = dict[str, Any]


def expunging(stores: Stores) -> Expunging:
    """Return the blob store as one that removes for good.

    Raises: InvalidRequest for a store that cannot.
    """
    if not isinstance(stores.blob, Expunging):
        raise InvalidRequest("this blob store cannot remove bytes for good")
    return stores.blob


def remove_blob(stores: Stores, key: str) -> None:
    """Remove a blob for good. It may be repeated."""
    retry(partial(stores.blob.delete, key))
    retry(partial(expunging(stores).expunge, key))


def store_note(stores: Stores, shard: str, erasure: str, document: Mapping[str, Any]) -> str:
    """Store a note and return its key; the same note again is one."""
    data = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    key = keys.erasure_key(shard, f"{erasure}/{keys.content_hash(data)}")
    retry(partial(stores.blob.set, key, data))
    return key


def notes_of(stores: Stores, shard: str, erasure: str) -> Iterator[tuple[str, Note]]:
    """Yield the notes of an erasure in a shard, each with its key. Raises: Corrupt."""
    prefix = f"{keys.erasure_prefix(shard)}{erasure}/"
    for info in retry(lambda: [*stores.blob.list(prefix)]):
        data = retry(partial(stores.blob.get, info.key))
        if data is None or not keys.names_content(info.key, data):
            raise Corrupt("a step of an erasure is missing or damaged", key=info.key)
        yield info.key, orjson.loads(data)


def noted_steps(stores: Stores, shards: Sequence[str], erasure: str) -> list[Note]:
    """Return what the commits of an erasure did, in the order of their keys. Raises: Corrupt."""
    return [
        note for shard in shards for _, note in notes_of(stores, shard, erasure) if "parts" in note
    ]


def forget_undone(stores: Stores, shard: str, erasure: str) -> None:
    """Remove the notes of commits that did not come about: a run was killed, or a merge was faster.

    Raises: Corrupt. Cost: reads states from the newest back, where a run was killed.
    """
    steps = {key: note for key, note in notes_of(stores, shard, erasure) if "parts" in note}
    machine = Machine(stores)
    head = machine.load(shard)
    for state in chain([head], machine.states_before(shard, head.seqno)):
        for key, step in [*steps.items()]:
            came_about = _came_about(state, step)
            if came_about is not None:
                del steps[key]
            if came_about is False:
                remove_blob(stores, key)
        if not steps:
            return


def _came_about(state: State, step: Note) -> bool | None:
    """Return whether a commit was made, by the newest state that knows; None: this one does not."""
    manifests = {batch.manifest for batch in state.batches}
    if step["manifest"] in manifests:
        return False
    if step["instead"] is not None:
        return True if step["instead"] in manifests else None
    lower, upper = step["lower"], step["upper"]  # neighbours without rows are one batch
    empty = (b for b in state.batches if b.manifest is None)
    return True if any(b.lower <= lower and upper <= b.upper for b in empty) else None


@dataclass(frozen=True)
class Cleared:
    """What an erasure removes for good, noted with the shard of its request."""

    stores: Stores
    shard: str
    erasure: str

    def note(self, what: str, sizes: Mapping[str, int]) -> None:
        """Note that these blobs are about to go, with their bytes."""
        if sizes:
            store_note(self.stores, self.shard, self.erasure, {"what": what, "removed": sizes})

    def note_states(self, shard: str, first: int, end: int) -> None:
        """Note that the states of a shard from number `first` to before `end` are about to go."""
        if first < end:
            document = {"shard": shard, "states": [first, end]}
            store_note(self.stores, self.shard, self.erasure, document)

    def note_collections(self, catalog: str, count: int) -> None:
        """Note how many names are about to leave a catalog."""
        document = {"catalog": catalog, "collections": count}
        store_note(self.stores, self.shard, self.erasure, document)

    def total(self) -> "Total":
        """Return what all runs of the erasure have removed. Raises: Corrupt."""
        blobs: dict[str, tuple[str, int]] = {}
        states: set[tuple[str, int]] = set()
        collections = 0
        for _, note in notes_of(self.stores, self.shard, self.erasure):
            for key, size in note.get("removed", {}).items():
                if key not in blobs or note["what"] != ASIDE:
                    blobs[key] = note["what"], size
            if "states" in note:
                states |= {(note["shard"], number) for number in range(*note["states"])}
            collections += note.get("collections", 0)
        kinds: dict[str, tuple[int, int]] = {}
        for what, size in blobs.values():
            count, sum_bytes = kinds.get(what, (0, 0))
            kinds[what] = count + 1, sum_bytes + size
        return Total(kinds, len(states), collections)


@dataclass(frozen=True, slots=True)
class Total:
    """What an erasure has removed."""

    blobs: Mapping[str, tuple[int, int]]  # by what they were: how many, and their bytes
    states: int
    collections: int  # names in the catalog
