"""What readers can still reach: the blobs that states name, and why each of these states counts.

The newest state counts. So does every state of a generation from the fence on: it was the newest
one less than the grace ago, and whoever planned a read then may still be reading. So does every
state from the first on that a live hold reads from. What an older state names and no state that
counts is out of reach for ever; see `strata.state.generations` for why it cannot come back.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

from strata.errors import Corrupt
from strata.format.manifest import decode_manifest
from strata.machine import ledger
from strata.machine.machine import Machine
from strata.parts.fetch import load_manifest_of
from strata.state.codec import encode_state
from strata.state.holds import readable_from
from strata.state.state import Evidence, Rollout, State
from strata.store.interface import Blob
from strata.store.keys import BlobKind, shard_prefix
from strata.store.retry import retry


@dataclass(frozen=True)
class Reach:
    """What counts, and what it names."""

    head: State
    fence: int  # blobs of generations below it join no state any more
    live: frozenset[str]  # keys that the newest state names, parts included
    held: Mapping[str, int]  # keys that only earlier states name -> the last one that does
    states: int  # how many count, the newest included
    held_by: tuple[str, ...] = ()  # live holds that keep states before the newest
    lost: tuple[str, ...] = ()  # manifests of earlier states that are not stored


def reach(machine: Machine, head: State, fence: int, now_ms: int) -> Reach:
    """Return what can be reached while `head` is the newest state.

    `now_ms` decides which holds have expired.
    Raises: Corrupt when a manifest that the newest state names is missing or damaged: then it is
    not known what is alive. Cost: the states that count, and each manifest that one names, once.
    """
    blob = machine.stores.blob
    parts: dict[str, tuple[str, ...]] = {}  # of each manifest that was read
    lost: set[str] = set()
    for batch in head.batches:
        if batch.manifest is not None:
            table = load_manifest_of(blob, head.name, batch, ["key"])
            parts[batch.manifest] = tuple(table["key"].to_pylist())
    live = frozenset(_named(blob, head, parts, frozenset(), lost))
    first = readable_from(head, now_ms)
    earlier = _earlier(machine, head, fence, first)
    held: dict[str, int] = {}
    for state in earlier:
        for key in _named(blob, state, parts, live, lost):
            if key not in live:
                held[key] = max(state.seqno, held.get(key, 0))
    return Reach(
        head, fence, live, held, 1 + len(earlier), tuple(_holders(head, now_ms)),
        tuple(sorted(lost)),
    )  # fmt: skip


def _holders(head: State, now_ms: int) -> Iterable[str]:
    for hold in head.holds:
        if 0 < hold.seqno < head.seqno and (hold.expires_ms or 0) > now_ms:
            yield hold.name


def _earlier(machine: Machine, head: State, fence: int, first: int) -> list[State]:
    """Return the states before the newest that count.

    Generations only grow: before the last state that does not count, none does, and none is read.
    """

    def counts(state: State) -> bool:
        return state.seqno >= first or state.generation >= fence

    return [*takewhile(counts, machine.states_before(head.name, head.seqno))]


def _named(
    blob: Blob,
    state: State,
    parts: dict[str, tuple[str, ...]],
    known: Container[str],
    lost: set[str],
) -> Iterator[str]:
    """Yield the keys that a state names, but not what stands behind those that are `known`."""
    for key in pointers(state):
        yield key
        if f"/{BlobKind.LEDGER}/" in key and key not in known:
            yield from ledger.ledger_keys(blob, (key,))
        if f"/{BlobKind.MANIFEST}/" not in key or key in known:
            continue
        if key not in parts:
            found = _parts(blob, state, key)
            parts[key] = found or ()
            if found is None:
                lost.add(key)
        yield from parts[key]


def pointers(state: State) -> frozenset[str]:
    """Return every blob key that stands anywhere in a state, in whatever field.

    So a field that joins the state is respected without a word here. Only what the rollout
    distrusts does not count: it is named because it lied, and stays named when it is gone.
    """
    seen = Evidence(seen=state.rollout.evidence.seen)
    data = encode_state(replace(state, rollout=Rollout(evidence=seen)))
    found = re.findall(rb'"(%s[^"\\]+)"' % shard_prefix(state.name).encode(), data)
    return frozenset(key.decode() for key in found)


def _parts(blob: Blob, state: State, key: str) -> tuple[str, ...] | None:
    """Return the parts of a manifest; None if it is not stored.

    Nobody can plan with a manifest that is gone, so what only it named is out of reach.
    """
    data = retry(partial(blob.get, key))
    if data is None:
        return None
    try:
        return tuple(decode_manifest(data, ["key"])["key"].to_pylist())
    except Corrupt as error:
        raise Corrupt(
            error.message, shard=state.name, seqno=state.seqno, manifest=key,
            cure="nothing was deleted; it goes when no state that counts names this manifest",
        ) from error  # fmt: skip
