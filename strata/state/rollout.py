"""The rollout switch: whether readers of a shard may skip parts.

off -> soft -> audit -> on      a step up, on request and with approval: `strata.rollout.ladder`
any -> off                      by itself, when one verdict is a mismatch (`trip`)

What a shard's declaration says of it is where it starts, and no more: `begun`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, cast

from strata.model.spec import RolloutSpec
from strata.state.state import Evidence, Happened, Mode, Rollout, RolloutEntry, State
from strata.state.step import step

ACTIVE: Final = ("soft", "audit", "on")
VERDICTS_MAX: Final = 32  # tables remembered in the state; all of them stay in the blob store
ENTRIES_MAX: Final = 32  # lines of history in the state


@dataclass(frozen=True, slots=True)
class Tripped:
    """What a trip changed."""

    mode_before: Mode
    mode_after: Mode
    quarantine: tuple[str, ...]  # all of it, sorted


def begun(declared: RolloutSpec, now_ms: int) -> Rollout:
    """Return the rollout of a new shard: as declared, but no higher than `soft`.

    Readers skip after evidence and approval only; a declaration is neither. The history tells of a
    higher mode that was declared.
    """
    mode, percent = cast(Mode, declared.mode), declared.audit_percent
    if mode in ("off", "soft"):
        return Rollout(mode, percent, now_ms, "create", "as declared")
    reason = f"declared as {mode}: a shard begins in soft, evidence and approvals lead on"
    blank = Rollout("soft", 0, now_ms, "create", reason)
    return noted(blank, now_ms, "declared", after="soft", percent=0, who="create", reason=reason)


def trip(
    state: State,
    now_ms: int,
    reason: str,
    quarantine: Collection[str] = (),
    who: str = "validate",
) -> tuple[State, Tripped]:
    """Set the shard back to `off` after a mismatch and distrust what lied, for ever after.

    `quarantine`: column ids ("5"), functions or part keys. A shard that is off stays off, and
    what lied is quarantined all the same. Evidence begins anew, an open request lapses.
    """
    old = state.rollout
    distrusted = tuple(sorted({*old.quarantine, *quarantine}))
    result = Tripped(old.mode, "off", distrusted)
    if old.mode not in ACTIVE and distrusted == old.quarantine:
        return state, result
    new = replace(
        noted(old, now_ms, "tripped", after="off", percent=0, who=who, reason=reason),
        mode="off", audit_percent=0, changed_ms=now_ms, changed_by=who, reason=reason,
        quarantine=distrusted, basis="", request=None, evidence=Evidence(),
    )  # fmt: skip
    return step(state, now_ms, rollout=new), result


def noted(  # noqa: PLR0913  these are the fields of one line
    old: Rollout,
    now_ms: int,
    what: Happened,
    *,
    after: Mode,
    percent: int,
    who: str,
    reason: str,
    user: str = "",
    asked_by: str = "",
    asked_user: str = "",
    request: str = "",
    pooled: int = 0,
) -> Rollout:
    """Return `old` with one more line of history: what happened, on which evidence."""
    seen = old.evidence
    entry = RolloutEntry(
        now_ms, what, old.mode, after, percent, who, reason, asked_by, seen.runs, seen.days,
        seen.parts, seen.rows, seen.size_bytes, seen.failed, seen.missing, len(seen.strata),
        seen.basis, pooled, user, asked_user, request, old.policy, old.gates, seen.repeats,
        seen.distinct_parts, seen.filters,
    )  # fmt: skip
    return replace(old, entries=(*old.entries, entry)[-ENTRIES_MAX:])


def record_verdicts(
    state: State,
    now_ms: int,
    *,
    key: str,
    mismatch: str = "",
    quarantine: Collection[str] = (),
    rollout: Rollout | None = None,
) -> tuple[State, Tripped]:
    """Remember a verdict table, and trip the shard in the same commit if it holds a mismatch.

    `mismatch` says what was found; empty means nothing was. The same key again changes nothing.
    `rollout` is what holds with the evidence of a clean table; None: as before.
    """
    mode, distrusted = state.rollout.mode, state.rollout.quarantine
    if key in state.verdicts:
        return state, Tripped(mode, mode, distrusted)
    verdicts = (*state.verdicts, key)[-VERDICTS_MAX:]
    if not mismatch:
        new = rollout or state.rollout
        return step(state, now_ms, verdicts=verdicts, rollout=new), Tripped(
            mode, new.mode, distrusted
        )
    tripped, result = trip(state, now_ms, mismatch, quarantine)
    if tripped is state:
        return step(state, now_ms, verdicts=verdicts), result
    return replace(tripped, verdicts=verdicts), result
