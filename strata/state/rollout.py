"""The rollout switch: whether readers of a shard may skip parts.

off -> soft -> audit -> on      a step up, on request and with approval: `strata.rollout.ladder`
any -> off                      automatically, when one verdict is a mismatch (`trip`)

A shard's declaration sets only where the rollout starts: `begun`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, cast

from strata.model.spec import RolloutSpec
from strata.state.state import Evidence, Happened, Mode, Rollout, RolloutEntry, State
from strata.state.step import step

ACTIVE: Final = ("soft", "audit", "on")
VERDICTS_MAX: Final = 32  # tables named by the state; all of them stay in the blob store
ENTRIES_MAX: Final = 32  # lines of history in the state


@dataclass(frozen=True, slots=True)
class Tripped:
    """The changes of a trip."""

    mode_before: Mode
    mode_after: Mode
    quarantine: tuple[str, ...]  # the whole quarantine, sorted


def begun(declared: RolloutSpec, now_ms: int) -> Rollout:
    """Return the rollout of a new shard: as declared, but no higher than `soft`.

    Readers skip only after evidence and approval, and a declaration is neither. The history records
    a higher declared mode.
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
    """Set the shard back to `off` after a mismatch, and quarantine the cause permanently.

    `quarantine`: column ids ("5"), functions or part keys. They are quarantined even if the shard
    is already off. Evidence begins anew, and an open request lapses.
    """
    old = state.rollout
    distrusted = tuple(sorted({*old.quarantine, *quarantine}))
    result = Tripped(old.mode, "off", distrusted)
    if old.mode not in ACTIVE and distrusted == old.quarantine:
        return state, result
    new = replace(
        noted(old, now_ms, "tripped", after="off", percent=0, who=who, reason=reason),
        mode="off",
        audit_percent=0,
        changed_ms=now_ms,
        changed_by=who,
        reason=reason,
        quarantine=distrusted,
        basis="",
        request=None,
        evidence=Evidence(),
    )
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
    """Return `old` with one more line of history: the event, and its evidence."""
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

    `mismatch` describes the finding; empty means none. Repeating a clean key changes nothing. A
    table with a mismatch trips the shard each time: a run of the same name that meets the same lie
    again, after people led the shard on, writes the very same table. `rollout` is the rollout with
    the evidence of a clean table; None: unchanged.
    """
    mode, distrusted = state.rollout.mode, state.rollout.quarantine
    known = key in state.verdicts
    if known and not mismatch:
        return state, Tripped(mode, mode, distrusted)
    verdicts = state.verdicts if known else (*state.verdicts, key)[-VERDICTS_MAX:]
    if not mismatch:
        new = rollout or state.rollout
        return step(state, now_ms, verdicts=verdicts, rollout=new), Tripped(
            mode, new.mode, distrusted
        )
    tripped, result = trip(state, now_ms, mismatch, quarantine)
    if tripped is state:
        return (state if known else step(state, now_ms, verdicts=verdicts)), result
    return replace(tripped, verdicts=verdicts), result
