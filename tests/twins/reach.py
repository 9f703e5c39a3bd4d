"""The slow, obviously right twin of `strata.gc.reach`: each state that counts, as a whole."""

from itertools import takewhile

from strata.format.manifest import decode_manifest
from strata.machine import ledger
from strata.machine.machine import Machine
from strata.machine.named import pointers
from strata.state.holds import readable_from
from strata.state.state import State
from strata.store.interface import Blob
from strata.store.keys import BlobKind


def named_by(blob: Blob, state: State) -> set[str]:
    """Return every key that a state names, those in its manifests and ledger included."""
    found = set(pointers(state))
    for key in tuple(found):
        if f"/{BlobKind.LEDGER}/" in key:
            found.update(ledger.ledger_keys(blob, (key,)))
        data = blob.get(key) if f"/{BlobKind.MANIFEST}/" in key else None
        if data is not None:
            found.update(decode_manifest(data, ["key"])["key"].to_pylist())
    return found


def reached(
    machine: Machine, head: State, fence: int, now_ms: int
) -> tuple[set[str], dict[str, int], int]:
    """Return what `Reach` calls live, held and states."""
    first = readable_from(head, now_ms)
    earlier = machine.states_before(head.name, head.seqno)
    states = [*takewhile(lambda s: s.seqno >= first or s.generation >= fence, earlier)]
    live = named_by(machine.stores.blob, head)
    held: dict[str, int] = {}
    for state in states:
        for key in named_by(machine.stores.blob, state) - live:
            held.setdefault(key, state.seqno)
    return live, held, 1 + len(states)
