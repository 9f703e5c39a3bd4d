"""The slow, obviously right twin of `strata.gc.reach`: each state that counts, as a whole."""

from itertools import takewhile

from strata.format.manifest import decode_manifest, head_of
from strata.format.pages import decode_index
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
        if f"/{BlobKind.MANIFEST}/" in key:
            found.update(_below(blob, key))
    return found


def _below(blob: Blob, key: str) -> set[str]:
    """Return every key that a manifest or page names, at any depth."""
    data = blob.get(key)
    if data is None:
        return set()
    if head_of(data)[0] == "1":
        return set(decode_manifest(data, ["key"])["key"].to_pylist())
    pages = decode_index(data).table["key"].to_pylist()
    return {*pages, *(one for page in pages for one in _below(blob, page))}


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
