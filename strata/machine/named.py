"""What a state names: every blob that today's and later readers of it may need.

Pointers are found by their value, in any field, so that a field added to the state later is
respected without a change here.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import replace
from functools import partial

import orjson

from strata.errors import Corrupt
from strata.format.manifest import BLOB_COLUMNS, blobs_of, decode_manifest, head_of
from strata.format.pages import INDEX_VERSION, decode_index
from strata.machine import ledger
from strata.state.codec import encode_state
from strata.state.delta import changes_between
from strata.state.state import Evidence, Rollout, State
from strata.store.interface import Blob
from strata.store.keys import BlobKind, shard_prefix
from strata.store.retry import retry


def named_by(
    blob: Blob,
    state: State,
    parts: dict[str, tuple[str, ...]],
    lost: set[str],
    known: Container[str] = frozenset(),
    after: State | None = None,
) -> Iterator[str]:
    """Yield the keys that a state names, without the parts of manifests and pages in `known`.

    `after` is a state whose keys are known; values shared with it are left out. `parts` receives
    the blobs of each manifest and page that is read: parts and bloom filters, or pages; `lost`
    those manifests and pages that are not stored.
    Raises: Corrupt for a damaged manifest, or ledger.
    """
    for key in pointers(state) if after is None else pointers_beyond(state, after):
        yield key
        if f"/{BlobKind.LEDGER}/" in key and key not in known:
            yield from ledger.ledger_keys(blob, (key,))
        if f"/{BlobKind.MANIFEST}/" not in key or key in known:
            continue
        if key not in parts:
            found = _below(blob, state, key)
            parts[key] = found or ()
            if found is None:
                lost.add(key)
        yield from _all_below(blob, state, parts[key], parts, lost, known)


def pointers(state: State) -> frozenset[str]:
    """Return every blob key that appears in any field of a state.

    A new field of the state is therefore covered without a change here. Only the parts that the
    rollout distrusts do not count: they are named because they lied, even after they are gone. Nor
    does the list of what was audited, once the shard is dropped: nobody reads it any more.
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
    seen = state.rollout.evidence.seen if state.dropped is None else None
    return replace(state, rollout=Rollout(evidence=Evidence(seen=seen)))


def _pointers_in(data: bytes, shard: str) -> frozenset[str]:
    found = re.findall(rb'"(%s[^"\\]+)"' % shard_prefix(shard).encode(), data)
    return frozenset(key.decode() for key in found)


def _all_below(
    blob: Blob,
    state: State,
    found: tuple[str, ...],
    parts: dict[str, tuple[str, ...]],
    lost: set[str],
    known: Container[str],
) -> Iterator[str]:
    """Yield keys that a manifest names, and what the pages among them name, unless it is known."""
    for key in found:
        yield key
        if f"/{BlobKind.PAGE}/" not in key or key in known:
            continue
        if key not in parts:
            below = _below(blob, state, key)
            parts[key] = below or ()
            if below is None:
                lost.add(key)
        yield from _all_below(blob, state, parts[key], parts, lost, known)


def _below(blob: Blob, state: State, key: str) -> tuple[str, ...] | None:
    """Return the blobs that a manifest or page names; None if it is not stored.

    A reader cannot plan with a missing manifest, so parts that only it named are out of reach.
    """
    data = retry(partial(blob.get, key))
    if data is None:
        return None
    try:
        if head_of(data)[0] == str(INDEX_VERSION):
            return tuple(decode_index(data, ()).table["key"].to_pylist())
        return blobs_of(decode_manifest(data, BLOB_COLUMNS))
    except Corrupt as error:
        raise Corrupt(
            error.message,
            shard=state.name,
            seqno=state.seqno,
            manifest=key,
            cure="nothing was changed; bring the blob back from a backup (`strata verify` names all"
            " that are damaged), or wait until no state that counts names it",
        ) from error
