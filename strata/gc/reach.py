"""What readers can still reach: the blobs that states name, and why each of these states counts.

The newest state counts. Every state of a generation at or above the fence counts: it was the newest
state less than the grace ago, and a reader that planned then may still be reading. Every state
counts from the first one that a live hold reads from. A blob is out of reach for ever when only
states that do not count name it; `strata.state.generations` explains why it cannot come back.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from strata.gc.live import Live, live_keys
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.parts.manifests import StoredManifest
from strata.state.holds import readable_from
from strata.state.state import State
from strata.store.interface import Blob


@dataclass(frozen=True)
class Reach:
    """Which states count, and the blobs they name."""

    head: State
    fence: int  # blobs of generations below it can no longer join a state
    live: Live  # keys that the newest state names, parts included
    held: Mapping[str, int]  # keys that only earlier states name -> the last such state
    states: int  # how many states count, including the newest
    held_by: tuple[str, ...] = ()  # live holds that keep states before the newest
    lost: tuple[str, ...] = ()  # manifests of earlier states that are not stored
    missing: int = 0  # keys that the newest state names and a listing lacks


def reach(machine: Machine, head: State, fence: int, now_ms: int) -> Reach:
    """Return what can be reached while `head` is the newest state.

    `now_ms` decides which holds have expired.
    Raises: Corrupt when a manifest that the newest state names is missing or damaged, because then
    live blobs are unknown. Cost: reads each state that counts, in pages, and looks at what it and
    its successor do not share; reads each manifest that they name once. Memory: as of `live_keys`,
    and the keys that only earlier states name.
    """
    blob = machine.stores.blob
    lost: set[str] = set()
    live = live_keys(all_named(blob, head, lost))
    parts: dict[str, tuple[str, ...]] = {}  # and bloom filters, of each manifest or page read
    first = readable_from(head, now_ms)
    held: dict[str, int] = {}
    states, after = 1, head
    for state in _earlier(machine, head, fence, first):
        for key in named_by(blob, state, parts, lost, live, after):
            if key not in live:
                held.setdefault(key, state.seqno)
        states, after = states + 1, state
    return Reach(
        head,
        fence,
        live,
        held,
        states,
        tuple(_holders(head, now_ms)),
        tuple(sorted(lost)),
    )


def all_named(blob: Blob, head: State, lost: set[str]) -> Iterator[str]:
    """Yield every key that a state names, some more than once; `lost`: see `named_by`.

    Raises: Corrupt when the manifest of a batch is missing or damaged. Memory: a page.
    """
    read: set[str] = set()
    for batch in head.batches:
        if batch.manifest is not None:
            for key, below in StoredManifest(blob, head.name, batch).each_names():
                read.add(key)
                yield from below
    yield from named_by(blob, head, {}, lost, read)


def _holders(head: State, now_ms: int) -> Iterable[str]:
    for hold in head.holds:
        if 0 < hold.seqno < head.seqno and (hold.expires_ms or 0) > now_ms:
            yield hold.name


def _earlier(machine: Machine, head: State, fence: int, first: int) -> Iterator[State]:
    """Yield the states that count, newest first, without the newest of all.

    Generations only grow, so no state before one that does not count counts, and none is read.
    """

    def counts(state: State) -> bool:
        return state.seqno >= first or state.generation >= fence

    return takewhile(counts, machine.states_before(head.name, head.seqno))
