"""The end of a shard: dropped, and perhaps revived, or brought back, under the same name.

A dropped shard keeps only its name, its seqno and its fence: nothing can be appended or read, its
blobs become garbage, and `create` refuses the name. A revival is a separate, explicit request. It
begins a new generation, whose fence excludes all writers of the former life: their commits are
refused. So does a shard that is brought back from a backup.
"""

from dataclasses import replace

from strata.errors import InvalidRequest
from strata.model.spec import ShardSpec
from strata.model.time import MIN_TIME
from strata.state.generations import LONGEST_MS, live_writers
from strata.state.holds import live_holds
from strata.state.labels import is_label
from strata.state.rollout import ENTRIES_MAX, noted
from strata.state.state import Evidence, Mode, Spine, State, Tombstone
from strata.state.step import step, successor
from strata.state.transitions import create


def drop(
    state: State, now_ms: int, *, by: str, reason: str, force: bool = False
) -> tuple[State, Tombstone]:
    """Replace everything that the shard holds by a tombstone.

    `force` also drops a shard in use: its readers are fenced at their next renewal.
    Raises: InvalidRequest without a reason, or while the shard is in use.
    """
    if state.dropped is not None:
        return state, state.dropped
    if not by or not reason:
        raise InvalidRequest("to drop a shard takes a person and a reason", shard=state.name)
    live = in_use_by(state, now_ms)
    if live and not force:
        raise InvalidRequest(
            "this shard is in use",
            shard=state.name,
            held_by=live,
            cure="wait for them, release them, or insist",
        )
    stone = Tombstone(now_ms, by, reason)
    following = step(
        state, now_ms, dropped=stone, spine=Spine(), holds=(), writers=(), commits=(), ledger=(),
        verdicts=(), merges=(), merging=(), catalog=None, consumed=None, tripped=None,
        suppressed=None, erasing=None,
        generation=state.generation + 1, fence=state.generation + 1,
    )  # fmt: skip
    return following, stone


def redate(state: State, now_ms: int) -> tuple[State, int]:
    """Let a drop whose clock was far ahead have been now; return when the shard was dropped.

    Its blobs wait a grace from then, and would wait until that clock was right.
    """
    assert state.dropped is not None
    if state.dropped.at_ms <= now_ms + LONGEST_MS:
        return state, state.dropped.at_ms
    return successor(state, now_ms, dropped=replace(state.dropped, at_ms=now_ms)), now_ms


def in_use_by(state: State, now_ms: int) -> tuple[str, ...]:
    """Return the names of the live holds and of the writers with a live lease."""
    holds = (hold.name for hold in live_holds(state, now_ms))
    return (*holds, *(writer.name for writer in live_writers(state, now_ms)))


def revive(state: State, now_ms: int, *, spec: ShardSpec) -> tuple[State, int]:
    """Begin the shard anew, empty, as `spec` declares it; return its generation.

    Columns get their ids anew. A rule that was wrong stays in quarantine: statistics end with the
    rows that they are about, and rules do not. Raises: InvalidRequest for a shard that was not
    dropped.
    """
    if state.dropped is None:
        raise InvalidRequest("only a dropped shard can be revived", shard=state.name)
    new = create(spec, now_ms)
    old = state.rollout
    rollout = replace(
        new.rollout,
        quarantine=tuple(w for w in old.quarantine if not w.isdigit() and "/" not in w),
        entries=(*old.entries, *new.rollout.entries)[-ENTRIES_MAX:],
    )
    following = successor(
        state,
        now_ms,
        spec=new.spec,
        relations=new.relations,
        rollout=rollout,
        since=MIN_TIME,
        upper=MIN_TIME,
        dropped=None,
        next_column=0,
        generation=state.generation + 1,
        generation_ms=max(now_ms, 1),
        fence=state.generation + 1,
    )
    return following, following.generation


def bring_back(
    saved: State, now_ms: int, *, stone: State | None, generation: int, by: str, reason: str
) -> State:
    """Return the state in which a shard of a backup begins again, perhaps after its tombstone.

    Its labels stay; nobody of then still holds it or writes to it. `generation` is above that of
    every stored blob, so commits prepared in another life are refused. Whether skipping is right
    was found out in that life, too, and may have changed since: the mode is `soft` at most, and
    evidence begins anew. What the tombstone distrusts stays in quarantine, and `off` stays `off`:
    to drop a shard and bring it back from an older point takes one person, a release takes two.
    """
    before = saved if stone is None else stone
    generation = max(generation, saved.generation + 1, before.generation + 1)
    old, last = saved.rollout, before.rollout
    known = (*old.entries, *(line for line in last.entries if line not in old.entries))
    old = replace(
        old,
        quarantine=tuple(sorted({*old.quarantine, *last.quarantine})),
        entries=tuple(sorted(known, key=lambda line: line.at_ms)),
    )
    mode: Mode = "off" if "off" in (old.mode, last.mode) else "soft"
    rollout = replace(
        noted(old, now_ms, "restored", after=mode, percent=0, who=by, reason=reason),
        mode=mode,
        audit_percent=0,
        changed_ms=now_ms,
        changed_by=by,
        reason=reason,
        basis="",
        request=None,
        evidence=Evidence(),
    )
    return replace(
        saved,
        seqno=max(saved.seqno, before.seqno) + 1,
        walltime_ms=max(now_ms, saved.walltime_ms + 1, before.walltime_ms + 1),
        rollout=rollout,
        holds=tuple(found for found in saved.holds if is_label(found)),
        writers=(),
        merging=(),
        erasing=None,
        generation=generation,
        generation_ms=max(now_ms, 1),
        fence=generation,
    )
