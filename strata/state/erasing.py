"""Erasures: rows leave the shard for good, not by a retraction but out of its stored bytes.

    begin      the erasure is known: the same request continues it, another one is refused
    suppress   hashes of the rows are known, so that no ingest brings them back
    remove     a batch is replaced by one without the rows; once for each batch that holds some
    close      no batch holds any: a generation begins, and the fence follows when older writers
               end; that state is the first clean one
    finish     the certificate is stored

States before the clean one still name blobs with the rows. They go once no reader holds them.
Law: `remove` takes exactly the removed rows from the sum of diffs and from the digest of a batch.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final

from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest
from strata.model.sums import MODULUS, wrapped
from strata.state import spine as spines
from strata.state.generations import live_writers
from strata.state.holds import live_holds
from strata.state.state import Batch, Erasure, Hold, State
from strata.state.step import check_alive, step
from strata.state.transitions import check_fence

ERASER: Final = "erase"  # purpose of the lease of an erasure, which writes only what is clean


@dataclass(frozen=True, slots=True)
class Removed:
    """What was taken out of one batch."""

    updates: int
    diffs_sum: int
    digest: int  # in the columns that the rows were written with


@dataclass(frozen=True, slots=True)
class Closing:
    """Whether an erasure is closed, and what it waits for."""

    erasure: Erasure
    unseen: frozenset[str]  # manifests that may hold erased rows
    writers: tuple[str, ...]  # with a live lease, who began before the rows were gone


def begin(state: State, now_ms: int, *, erasure: Erasure) -> tuple[State, Erasure]:
    """Begin an erasure, or continue the one of the same request; return it.

    Raises: InvalidRequest while another erasure is under way.
    """
    found = state.erasing
    if found is None:
        return step(state, now_ms, erasing=erasure), erasure
    if found.request != erasure.request:
        raise InvalidRequest(
            "another erasure of this shard is under way",
            shard=state.name,
            id=found.id,
            by=found.by,
            cure="run that one again until it is done",
        )
    return state, found


def suppress(
    state: State, now_ms: int, *, expected: str | None, key: str, generation: int
) -> tuple[State, bool]:
    """Name another list of hashes, which was written in `generation`; True if it was named before.

    Raises: Conflict when the current list is not the expected one; Fenced for a list that was
    written too long ago.
    """
    check_alive(state)
    if state.suppressed == key:
        return state, True
    if state.suppressed != expected:
        raise Conflict("another erasure changed the suppressed rows meanwhile", shard=state.name)
    if generation < state.fence:
        raise Fenced("this was written too long ago: it may have been collected", key=key)
    return step(state, now_ms, suppressed=key), False


def remove(
    state: State,
    now_ms: int,
    *,
    manifest: str,
    batch: Batch,
    removed: Removed,
    writer: str | None = None,
) -> tuple[State, bool]:
    """Replace the batch of a manifest by `batch`, which lacks the removed rows.

    Returns False if no batch has the manifest any more, because a merge was faster. The bounds are
    those that the batch has in the state. Merges under way of its rows are forgotten.
    Raises: Corrupt when the figures do not differ by exactly the removed rows; Fenced when the
    lease of `writer` has expired, or the new blobs may have been collected.
    """
    check_alive(state)
    old = next((b for b in state.batches if b.manifest == manifest), None)
    if old is None:
        return state, False
    new = replace(batch, lower=old.lower, upper=old.upper, since=old.since)
    _check_removed(state, old, new, removed)
    if new.manifest is not None:
        check_fence(state, now_ms, new, writer)
    merging = tuple(p for p in state.merging if manifest not in p.inputs)
    erasing = state.erasing and replace(state.erasing, generation=0, closed=0)
    spine = spines.substituted(state.spine, new)
    return step(state, now_ms, spine=spine, merging=merging, erasing=erasing), True


def _check_removed(state: State, old: Batch, new: Batch, removed: Removed) -> None:
    where: dict[str, Any] = {"shard": state.name, "manifest": old.manifest}
    if wrong := spines.batch_problems(new):
        raise InvalidRequest("the batch without the rows contradicts itself", **where, why=wrong[0])
    for name, left, whole in (
        ("updates", new.updates + removed.updates, old.updates),
        ("diffs_sum", wrapped(new.diffs_sum + removed.diffs_sum), wrapped(old.diffs_sum)),
        ("digest", (new.digest + removed.digest) % MODULUS, old.digest),
    ):
        if left != whole:
            raise Corrupt(
                "a batch without erased rows, and the rows, are not what the batch was",
                **where,
                field=name,
                found=left,
                recorded=whole,
                cure="`strata validate` names the damaged part",
            )


def close(state: State, now_ms: int, *, clean: Collection[str]) -> tuple[State, Closing]:
    """Go one step towards the end of an erasure whose batches are all clean; say what is left.

    `clean` are manifests without an erased row. The first step begins a generation: a writer that
    writes in it has read clean batches only. The second one moves the fence there, once no writer
    of before has a live lease; one without a lease is fenced, and begins again.
    Raises: InvalidRequest when no erasure is under way.
    """
    check_alive(state)
    erasure = state.erasing
    if erasure is None:
        raise InvalidRequest("no erasure is under way", shard=state.name)
    unseen = frozenset(b.manifest for b in state.batches if b.manifest) - frozenset(clean)
    if unseen or erasure.closed:
        return state, Closing(erasure, unseen, ())
    if not erasure.generation:
        generation = state.generation + 1
        erasure = replace(erasure, generation=generation)
        following = step(
            state, now_ms, erasing=erasure, generation=generation, generation_ms=max(now_ms, 1)
        )
        return following, Closing(erasure, unseen, _writers(following, now_ms, generation))
    if writers := _writers(state, now_ms, erasure.generation):
        return state, Closing(erasure, unseen, writers)
    erasure = replace(erasure, closed=state.seqno + 1)
    fence = max(state.fence, erasure.generation)
    # A killed run of this erasure has left its lease; a zombie of it is fenced.
    writers_left = tuple(w for w in state.writers if w.generation >= fence)
    following = step(state, now_ms, erasing=erasure, merging=(), fence=fence, writers=writers_left)
    return following, Closing(erasure, unseen, ())


def _writers(state: State, now_ms: int, generation: int) -> tuple[str, ...]:
    live = (w for w in live_writers(state, now_ms) if w.generation < generation)
    return tuple(w.name for w in live if w.purpose != ERASER)


def readers_before(state: State, now_ms: int, seqno: int) -> tuple[Hold, ...]:
    """Return the live holds that keep a state before `seqno`."""
    return tuple(h for h in live_holds(state, now_ms) if h.expires_ms and 0 < h.seqno < seqno)


def forget_verdicts(state: State, now_ms: int, *, keys: Collection[str]) -> tuple[State, int]:
    """Forget tables of verdicts; return how many the state named."""
    check_alive(state)
    left = tuple(key for key in state.verdicts if key not in keys)
    gone = len(state.verdicts) - len(left)
    return (step(state, now_ms, verdicts=left), gone) if gone else (state, 0)


def finish(state: State, now_ms: int, *, id: str) -> tuple[State, bool]:
    """End an erasure; False if it is not under way."""
    if state.erasing is None or state.erasing.id != id:
        return state, False
    return step(state, now_ms, erasing=None), True
