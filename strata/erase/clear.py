"""Remove what still leads to erased rows: states of before, their blobs, and what sweeps set aside.

Readers who hold a state of before are waited for. A reader without a hold gets an error, never a
wrong answer.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from strata.erase.remove import Waiting
from strata.errors import InvalidRequest, Unavailable
from strata.gc.reach import reach
from strata.machine.machine import Machine
from strata.state.erasing import readers_before
from strata.store.interface import Expunging, Scrubbing
from strata.store.keys import BlobKind, generation_of, parse_key, shard_prefix
from strata.store.open import Stores
from strata.store.retry import retry

# Kinds that carry a generation: what no state names, and none can name any more, is garbage.
DERIVED: Final = frozenset(
    {
        BlobKind.PART,
        BlobKind.MANIFEST,
        BlobKind.PAGE,
        BlobKind.UNION,
        BlobKind.STAGED,
        BlobKind.BLOOM,
        BlobKind.CATALOG,
        BlobKind.SUPPRESSED,
    }
)


@dataclass
class Cleared:
    """What was removed for good, by what it was: blobs and bytes."""

    blobs: dict[str, list[int]] = field(default_factory=dict)
    states: int = 0

    def add(self, what: str, size_bytes: int) -> None:
        """Count one blob."""
        count = self.blobs.setdefault(what, [0, 0])
        count[0] += 1
        count[1] += size_bytes


def expunging(stores: Stores) -> Expunging:
    """Return the blob store as one that removes for good.

    Raises: InvalidRequest for a store that cannot.
    """
    if not isinstance(stores.blob, Expunging):
        raise InvalidRequest("this blob store cannot remove bytes for good")
    return stores.blob


def clear(stores: Stores, name: str, closed: int, patience: Waiting, cleared: Cleared) -> None:
    """Drop the states before `closed`, then every blob that only they led to.

    Raises: Unavailable when readers hold such a state for too long; Corrupt for a damaged manifest.
    """
    machine = Machine(stores)

    def readers() -> str:
        held = readers_before(machine.load(name), stores.clock(), closed)
        return ", ".join(hold.name for hold in held)

    patience.until(readers)
    cleared.states += machine.forget_before(name, closed)
    _check_forgotten(machine, name, closed)
    blob, head = expunging(stores), machine.load(name)
    assert head.erasing is not None
    fence = head.erasing.generation
    found = reach(machine, head, fence, stores.clock())
    for info in retry(lambda: [*stores.blob.list(shard_prefix(name))]):
        kind = blob_kind(info.key)
        old = generation_of(info.key) < fence
        if kind in DERIVED and old and info.key not in found.live and info.key not in found.held:
            cleared.add(kind.value, remove_blob(stores, info.key))
    for info in retry(lambda: [*blob.set_aside(shard_prefix(name))]):
        cleared.add("set aside", retry(partial(blob.expunge, info.key)))


def remove_blob(stores: Stores, key: str) -> int:
    """Remove a blob for good and return its bytes; 0 if there is none. It may be repeated."""
    size = retry(partial(stores.blob.delete, key)) or 0
    return max(size, retry(partial(expunging(stores).expunge, key)))


def _check_forgotten(machine: Machine, name: str, closed: int) -> None:
    oldest = next(iter(machine.states(name)), None)
    if oldest is not None and oldest.seqno < closed:
        raise Unavailable(
            "states with erased rows are still stored",
            certain=True,
            shard=name,
            oldest=oldest.seqno,
            closed=closed,
            cure="run the same command again",
        )


def scrubbed(stores: Stores) -> str:
    """Overwrite dropped states in the files of the database; return what is out of reach."""
    if not isinstance(stores.consensus, Scrubbing):
        return ""
    return retry(stores.consensus.scrub)


def blob_kind(key: str) -> BlobKind | None:
    """Return the kind of a blob; None for a key that is not ours."""
    try:
        return parse_key(key).kind
    except InvalidRequest:
        return None
