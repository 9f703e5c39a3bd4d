"""Remove what still leads to erased rows: states of before, their blobs, and what sweeps set aside.

Readers who hold a state of before are waited for. A reader without a hold gets an error, never a
wrong answer.
"""

from functools import partial
from typing import Final

from strata.erase.notes import ASIDE, Cleared, expunging, remove_blob
from strata.erase.remove import Waiting
from strata.errors import Fenced, Unavailable
from strata.gc.reach import reach
from strata.machine.machine import Machine
from strata.state.erasing import readers_before
from strata.state.state import State
from strata.store.interface import Scrubbing
from strata.store.keys import BlobKind, blob_kind, generation_of, shard_prefix
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
        BlobKind.CONSUMED,
        BlobKind.SUPPRESSED,
    }
)


def clear(stores: Stores, name: str, closed: int, patience: Waiting, cleared: Cleared) -> None:
    """Drop the states before `closed`, then every blob that only they led to.

    Raises: Unavailable when readers hold such a state for too long; Corrupt for a damaged manifest;
    Fenced when another run has ended the erasure.
    """
    machine = Machine(stores)

    def readers() -> str:
        held = readers_before(machine.load(name), stores.clock(), closed)
        return ", ".join(hold.name for hold in held)

    patience.until(readers)
    oldest = next(machine.states(name))
    cleared.note_states(name, oldest.seqno, closed)
    machine.forget_before(name, closed)
    _check_forgotten(machine, name, closed)
    blob, head = expunging(stores), machine.load(name)
    fence = _generation_of(head, cleared.erasure)
    found = reach(machine, head, fence, stores.clock())
    listed = retry(lambda: [*stores.blob.list(shard_prefix(name))])
    for kind in sorted(DERIVED):
        gone = {
            info.key: info.size_bytes
            for info in listed
            if blob_kind(info.key) is kind
            and generation_of(info.key) < fence
            and info.key not in found.live
            and info.key not in found.held
        }
        cleared.note(kind.value, gone)
        for key in gone:
            remove_blob(stores, key)
    aside = retry(lambda: {i.key: i.size_bytes for i in blob.set_aside(shard_prefix(name))})
    cleared.note(ASIDE, aside)
    for key in aside:
        retry(partial(blob.expunge, key))


def _generation_of(head: State, erasure: str) -> int:
    """Return the generation in which all rows of an erasure were gone. Raises: Fenced."""
    if head.erasing is None or head.erasing.id != erasure:
        raise Fenced(
            "another run of this erasure has ended it",
            shard=head.name,
            id=erasure,
            cure=f"`strata erasures {head.name}` shows its certificate",
        )
    return head.erasing.generation


def _check_forgotten(machine: Machine, name: str, closed: int) -> None:
    oldest = next(machine.states(name))
    if oldest.seqno < closed:
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
