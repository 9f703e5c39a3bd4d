"""What readers can still reach: the blobs that states name, and why each of these states counts.

The newest state counts. Every state of a generation at or above the fence counts: it was the newest
state less than the grace ago, and a reader that planned then may still be reading. Every state
counts from the first one that a live hold reads from. A blob is out of reach for ever when only
states that do not count name it; `strata.state.generations` explains why it cannot come back.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

import orjson

from strata.errors import Corrupt
from strata.format.manifest import decode_manifest
from strata.machine import ledger
from strata.machine.machine import Machine
from strata.parts.fetch import load_manifest_of
from strata.state.codec import encode_state
from strata.state.delta import changes_between
from strata.state.holds import readable_from
from strata.state.state import Evidence, Rollout, State
from strata.store.interface import Blob
from strata.store.keys import BlobKind, shard_prefix
from strata.store.retry import retry


@dataclass(frozen=True)
class Reach:
    """Which states count, and the blobs they name."""

    head: State
    fence: int  # blobs of generations below it can no longer join a state
    live: frozenset[str]  # keys that the newest state names, parts included
    held: Mapping[str, int]  # keys that only earlier states name -> the last such state
    states: int  # how many states count, including the newest
    held_by: tuple[str, ...] = ()  # live holds that keep states before the newest
    lost: tuple[str, ...] = ()  # manifests of earlier states that are not stored


def reach(machine: Machine, head: State, fence: int, now_ms: int) -> Reach:
    """Return what can be reached while `head` is the newest state.

    `now_ms` decides which holds have expired.
    Raises: Corrupt when a manifest that the newest state names is missing or damaged, because then
    live blobs are unknown. Cost: reads each state that counts, in pages, and looks at what it and
    its successor do not share; reads each manifest that they name once.
    """
    blob = machine.stores.blob
    parts: dict[str, tuple[str, ...]] = {}  # for each manifest that was read
    lost: set[str] = set()
    for batch in head.batches:
        if batch.manifest is not None:
            table = load_manifest_of(blob, head.name, batch, ["key"])
            parts[batch.manifest] = tuple(table["key"].to_pylist())
    live = frozenset(_named(blob, head, parts, frozenset(), lost))
    first = readable_from(head, now_ms)
    held: dict[str, int] = {}
    states, after = 1, head
    for state in _earlier(machine, head, fence, first):
        for key in _named(blob, state, parts, live, lost, after):
            if key not in live:
                held.setdefault(key, state.seqno)
        states, after = states + 1, state
    return Reach(
        head, fence, live, held, states, tuple(_holders(head, now_ms)),
        tuple(sorted(lost)),
    )  # fmt: skip


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


def _named(
    blob: Blob,
    state: State,
    parts: dict[str, tuple[str, ...]],
    known: Container[str],
    lost: set[str],
    after: State | None = None,
) -> Iterator[str]:
    """Yield the keys that a state names, without the parts of manifests that are `known`.

    With `after`, a state whose keys are known, only those of values that it does not have.
    """
    for key in pointers(state) if after is None else pointers_beyond(state, after):
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
    """Return every blob key that appears in any field of a state.

    A new field of the state is therefore covered without a change here. Only the parts that the
    rollout distrusts do not count: they are named because they lied, even after they are gone.
    """
    return _pointers_in(encode_state(_without_distrust(state)), state.name)


def pointers_beyond(state: State, after: State) -> frozenset[str]:
    """Return the pointers in what a state has and another one lacks, and perhaps some more.

    Law: with `pointers(after)` they are all of `pointers(state)`. Cost: O(difference), if the
    states share values as successors do.
    """
    change = changes_between(_without_distrust(after), _without_distrust(state))
    return _pointers_in(orjson.dumps(change), state.name)


def _without_distrust(state: State) -> State:
    return replace(state, rollout=Rollout(evidence=Evidence(seen=state.rollout.evidence.seen)))


def _pointers_in(data: bytes, shard: str) -> frozenset[str]:
    found = re.findall(rb'"(%s[^"\\]+)"' % shard_prefix(shard).encode(), data)
    return frozenset(key.decode() for key in found)


def _parts(blob: Blob, state: State, key: str) -> tuple[str, ...] | None:
    """Return the parts of a manifest; None if it is not stored.

    A reader cannot plan with a missing manifest, so parts that only it named are out of reach.
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
