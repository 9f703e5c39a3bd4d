"""Every change of a shard's state, each a pure function `(state, now_ms, ...) -> (state, result)`.

The new state has the next seqno and a strictly greater walltime. A transition that changes nothing
returns the same state object, and nothing is committed. Every transition may be repeated when the
outcome of an attempt is unknown: doing it twice has the effect of doing it once.

Holds are in `holds`, the rollout switch in `rollout`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from strata.errors import Conflict, Fenced, InvalidRequest
from strata.model.schema import Relation
from strata.model.spec import ShardSpec
from strata.model.sums import wrapped
from strata.model.time import MAX_TIME, MIN_TIME
from strata.state import spine as spines
from strata.state.generations import check_writer
from strata.state.holds import CONSUMERS, live_holds
from strata.state.rollout import begun
from strata.state.source import check_source
from strata.state.spine import Applied, MergeResult, NotApplied
from strata.state.state import Batch, Commit, Consumed, State
from strata.state.step import check_alive, step, walltime_after
from strata.store.keys import generation_of

COMMITS_MAX: Final = 128  # commits in the state; beyond that the oldest are spilled
COMMITS_SPILLED: Final = 64
FIRST_SEQNO: Final = 1


@dataclass(frozen=True, slots=True)
class Appended:
    """The append is in the shard."""

    commit: Commit  # of the first attempt, if it was already there
    already_committed: bool


@dataclass(frozen=True, slots=True)
class Basis:
    """The state that an append depends on; it may not join any other state."""

    upper: int | None = None  # of the shard; None: any
    before: Consumed | None = None  # the ingested source files before the append
    consumed: Consumed | None = None  # the ingested source files with the append; None: not tracked
    # of the shard when its rejected rows were written, whose keys have none; None: there are none
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Advanced:
    """The position of since after an advance."""

    since: int
    moved: bool
    held_by: tuple[str, ...]  # the holds that kept it from going as far as requested


def create(spec: ShardSpec, now_ms: int) -> State:
    """Return the first state of a new shard: empty, readable nowhere, writable from MIN_TIME."""
    relation: Relation = spec.relation()
    return State(
        FIRST_SEQNO,
        now_ms,
        spec,
        (relation,),
        rollout=begun(spec.rollout, now_ms),
        generation_ms=max(now_ms, 1),
    )


def append(  # noqa: PLR0913  these are the fields of one request
    state: State,
    now_ms: int,
    *,
    token: str,
    lower: int,
    upper: int,
    batch: Batch | None = None,
    rejected: int = 0,
    rejects: str | None = None,
    writer: str | None = None,
    basis: Basis | None = None,
) -> tuple[State, Appended]:
    """Append all updates of [lower, upper); `batch` None means that there are none.

    A gap between the shard's upper and `lower` becomes part of the batch: nothing happened in it. A
    token that was committed before returns that commit, even if the call would fail by now.

    Raises: InvalidRequest for bad bounds, for a token that was used for another interval, for an
    interval that another writer has written, and for a manifest that a batch already has; Conflict
    when the shard differs from `basis`; Fenced when the lease of `writer` has expired, or the blobs
    may have been collected.
    """
    check_alive(state)
    _check_append(state, token, lower, upper, batch)
    known = find_commit(state.commits, token)
    if known is not None:
        return state, recognise(known, lower, upper)
    check_fence(state, now_ms, batch, writer)
    changes = {} if basis is None else _from_basis(state, basis)
    if lower < state.upper:
        raise InvalidRequest(
            "this interval is already written, and not under this token",
            shard=state.name,
            token=token,
            lower=lower,
            upper=upper,
            shard_upper=state.upper,
            cure="append from the shard's upper on, or repeat with the token of the first time",
        )
    _check_new(state, batch)
    new = batch or Batch(lower, upper, MIN_TIME)
    commit = Commit(
        token,
        state.seqno + 1,
        lower,
        upper,
        new.updates,
        new.parts,
        new.size_bytes,
        rejected,
        rejects,
        walltime_after(state, now_ms),
    )
    spine = state.spine
    if upper > state.upper:
        spine = spines.insert(spine, replace(new, lower=state.upper, upper=upper))
    commits = (*state.commits, commit)
    following = step(state, now_ms, spine=spine, upper=upper, commits=commits, **changes)
    return following, Appended(commit, already_committed=False)


def _check_new(state: State, batch: Batch | None) -> None:
    """Refuse a batch whose updates are already in the shard as another batch.

    Equal rows of another interval have another manifest, since parts contain their times.
    Raises: InvalidRequest.
    """
    manifest = None if batch is None else batch.manifest
    for other in state.batches if manifest is not None else ():
        if other.manifest == manifest:
            raise InvalidRequest(
                "another batch has this manifest, its updates would count twice",
                shard=state.name,
                manifest=manifest,
                lower=other.lower,
                upper=other.upper,
                cure="write the parts for the new interval, or repeat with the first token",
            )


def _from_basis(state: State, basis: Basis) -> dict[str, Any]:
    """Return the other changes of an append.

    Raises: Corrupt while the source is tripped; Conflict when the shard differs from the basis of
    the append; Fenced when a blob of the ledger or of rejected rows may have been collected.
    """
    check_source(state)
    if basis.generation is not None:
        check_begun(state, basis.generation)
    if basis.upper is not None and basis.upper != state.upper:
        raise Conflict(
            "the shard went on while this was worked out",
            shard=state.name,
            upper=state.upper,
            expected=basis.upper,
            cure="run again",
        )
    if basis.consumed is None:
        return {}
    if basis.before != state.consumed:
        raise Conflict(
            "other source files were taken in meanwhile", shard=state.name, cure="run again"
        )
    known = () if state.consumed is None else state.consumed.segments
    for segment in basis.consumed.segments:
        if segment not in known and generation_of(segment.key) < state.fence:
            raise _too_old(state, key=segment.key)
    return {"consumed": basis.consumed}


def _check_append(state: State, token: str, lower: int, upper: int, batch: Batch | None) -> None:
    where: dict[str, Any] = {"shard": state.name, "lower": lower, "upper": upper}
    if not token:
        raise InvalidRequest("an append needs a token", **where)
    if not MIN_TIME <= lower <= upper <= MAX_TIME:
        raise InvalidRequest("these are not the bounds of an interval", **where)
    if batch is None:
        return
    if lower == upper and batch.updates:
        raise InvalidRequest("an empty interval cannot hold updates", **where)
    if batch.upper != upper or not batch.lower <= lower:
        raise InvalidRequest(
            "the batch was written for another interval",
            batch_lower=batch.lower,
            batch_upper=batch.upper,
            **where,
        )
    if batch.since > state.since:
        raise InvalidRequest(
            "the times of the batch were advanced too far", since=batch.since, **where
        )
    # An older version is fine: parts name their version, and readers convert them.
    known = {relation.version for relation in state.relations}
    if batch.manifest is not None and not known.issuperset(batch.versions):
        raise InvalidRequest(
            "the batch has a relation version that the shard does not know",
            versions=batch.versions,
            known=sorted(known),
            **where,
        )
    if wrong := spines.batch_problems(batch):
        raise InvalidRequest("the batch contradicts itself", reason=wrong[0], **where)


def check_fence(state: State, now_ms: int, batch: Batch | None, writer: str | None = None) -> None:
    """Refuse a batch from behind the fence; see `strata.state.generations`.

    Raises: Fenced.
    """
    if writer is not None:
        check_writer(state, now_ms, writer)
    manifest = None if batch is None else batch.manifest
    if manifest is None or generation_of(manifest) >= state.fence:
        return
    if all(manifest != b.manifest for b in state.batches):  # blobs in the state are alive
        raise _too_old(
            state,
            "run again; hold a writer's lease where the work takes longer than that",
            generation=generation_of(manifest),
        )


def check_begun(state: State, generation: int) -> None:
    """Refuse what began in a generation behind the fence, as in another life of the shard.

    Raises: Fenced.
    """
    if generation < state.fence:
        raise _too_old(state, generation=generation)


def _too_old(state: State, cure: str = "run again", **written: object) -> Fenced:
    """Return the error of what was written behind the fence; `written` says what."""
    return Fenced(
        "this was written too long ago: its blobs may have been collected",
        shard=state.name,
        **written,
        fence=state.fence,
        cure=cure,
    )


def find_commit(commits: tuple[Commit, ...], token: str) -> Commit | None:
    """Return the commit of this token, or None."""
    return next((c for c in reversed(commits) if c.token == token), None)


def recognise(known: Commit, lower: int, upper: int) -> Appended:
    """Return the success of a repeated append.

    Raises: InvalidRequest when the token was used for another interval.
    """
    if (known.lower, known.upper) != (lower, upper):
        raise InvalidRequest(
            "this token was used for another interval",
            token=known.token,
            lower=lower,
            upper=upper,
            first_lower=known.lower,
            first_upper=known.upper,
        )
    return Appended(known, already_committed=True)


def spill(state: State, key: str) -> State:
    """Return `state` with its oldest commits moved to the ledger blob `key`; the same seqno."""
    return replace(state, commits=state.commits[COMMITS_SPILLED:], ledger=(*state.ledger, key))


def fold_ledger(state: State, keys: tuple[str, ...], node: str) -> State:
    """Return `state` with neighbours in its ledger replaced by `node`; the same seqno."""
    start = state.ledger.index(keys[0])
    assert state.ledger[start : start + len(keys)] == keys, "only neighbours are folded"
    ledger = (*state.ledger[:start], node, *state.ledger[start + len(keys) :])
    return replace(state, ledger=ledger)


def apply_merge(
    state: State, now_ms: int, result: MergeResult, *, writer: str | None = None
) -> tuple[State, Applied | NotApplied]:
    """Replace the inputs of a merge by its result, or report that they are gone.

    Raises: as `spine.apply`; Fenced when the inputs are present, but the lease of `writer` has
    expired or the result's blobs may have been collected.
    """
    check_alive(state)
    if wrong := spines.batch_problems(result.batch):
        raise InvalidRequest("the merged batch contradicts itself", reason=wrong[0])
    spine = spines.apply(state.spine, result, state.since)
    if isinstance(spine, NotApplied):
        return state, spine
    if spine == state.spine:
        return state, Applied(already=True)
    check_fence(state, now_ms, result.batch, writer)
    return step(state, now_ms, spine=spine), Applied(already=False)


def replace_manifests(
    state: State, now_ms: int, replacements: Mapping[str, Batch], *, writer: str | None = None
) -> tuple[State, int]:
    """Replace batches by ones with new manifests over the same updates; return their number.

    A batch whose old manifest is gone is left out, because a merge was faster. A batch that is
    already in place counts, so that a repetition returns the same.

    Raises: InvalidRequest for a batch that describes other updates; Fenced for one whose manifest
    may have been collected, or when the lease of `writer` has expired.
    """
    check_alive(state)
    placed = {new.manifest for new in replacements.values()}
    slots = tuple(
        replace(slot, batches=tuple(_exchange(b, replacements) for b in slot.batches))
        for slot in state.spine.slots
    )
    spine = replace(state.spine, slots=slots)
    count = sum(b.manifest in placed for slot in slots for b in slot.batches if b.manifest)
    if spine == state.spine:
        return state, count
    there = {b.manifest for slot in slots for b in slot.batches}
    for new in replacements.values():
        if new.manifest in there:
            check_fence(state, now_ms, new, writer)
    return step(state, now_ms, spine=spine), count


def _exchange(old: Batch, replacements: Mapping[str, Batch]) -> Batch:
    """Return the replacement of `old`, with the bounds that it has in the state.

    The bounds may have moved since the manifest was read: a merge that keeps every part unchanged
    writes the same manifest again, for a later since or for a longer interval.
    """
    new = replacements.get(old.manifest) if old.manifest is not None else None
    if new is None:
        return old
    new = replace(new, lower=old.lower, upper=old.upper, since=old.since)
    known, said = (replace(b, diffs_sum=wrapped(b.diffs_sum)) for b in (old, new))
    for name in ("updates", "size_bytes", "diffs_sum", "digest", "retractions", "versions"):
        if getattr(said, name) != getattr(known, name):
            raise InvalidRequest(
                "a new manifest must describe the same updates",
                manifest=old.manifest,
                field=name,
                old=getattr(old, name),
                new=getattr(new, name),
            )
    if wrong := spines.batch_problems(new):
        raise InvalidRequest("the new batch contradicts itself", reason=wrong[0])
    return new


def advance_since(state: State, now_ms: int, since: int) -> tuple[State, Advanced]:
    """Move since up to `since`, as far as live holds and the last readable time allow.

    Earlier reads become impossible. Going back, or not moving, is no error and no commit. Expired
    holds are dropped only here: the expiry of a hold alone moves nothing.

    Raises: InvalidRequest for a since beyond upper.
    """
    check_alive(state)
    if since > state.upper:
        raise InvalidRequest(
            "since cannot pass upper", shard=state.name, since=since, upper=state.upper
        )
    live = live_holds(state, now_ms)
    # since == upper would leave no readable time
    target = min([since, max(state.upper - 1, MIN_TIME), *(h.since for h in live)])
    held_by = tuple(h.name for h in live if h.since < since)
    if target <= state.since:
        return state, Advanced(state.since, moved=False, held_by=held_by)
    # A consumer that since has passed must learn of it, so its position stays.
    kept = tuple(h for h in state.holds if h in live or h.name.startswith(CONSUMERS))
    following = step(state, now_ms, since=target, holds=kept)
    return following, Advanced(target, moved=True, held_by=held_by)
