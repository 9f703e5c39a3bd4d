"""The rollout switch: whether readers of a shard may skip parts.

off -> soft -> audit -> on      a person's step, with a reason
any -> off                      by itself, when one verdict is a mismatch (`trip`)
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, cast

from strata.errors import InvalidRequest
from strata.model.spec import MODES
from strata.state.state import Mode, Rollout, State
from strata.state.transitions import step

ACTIVE: Final = ("soft", "audit", "on")


@dataclass(frozen=True, slots=True)
class Tripped:
    """What a trip changed."""

    mode_before: Mode
    mode_after: Mode
    quarantine: tuple[str, ...]  # all of it, sorted


def set_rollout(  # noqa: PLR0913  these are the fields of one request
    state: State,
    now_ms: int,
    *,
    mode: str,
    percent: int,
    who: str,
    reason: str,
    quarantine: Collection[str] | None = None,
) -> tuple[State, Rollout]:
    """Set the mode and the share of skipped parts that is audited all the same.

    `quarantine` None keeps what is quarantined; a collection replaces it.

    Raises: InvalidRequest for an unknown mode, a bad percentage, or a step without a name or
    a reason.
    """
    if mode not in MODES:
        raise InvalidRequest("no such rollout mode", mode=mode, cure=f"one of {', '.join(MODES)}")
    if isinstance(percent, bool) or not 0 <= percent <= 100:
        raise InvalidRequest("not a percentage", audit_percent=percent, cure="0 to 100")
    if not who.strip() or not reason.strip():
        raise InvalidRequest("a change of rollout needs a name and a reason", shard=state.name)
    kept = state.rollout.quarantine if quarantine is None else tuple(sorted(set(quarantine)))
    new = Rollout(cast(Mode, mode), percent, now_ms, who, reason, kept)
    if replace(new, changed_ms=state.rollout.changed_ms) == state.rollout:
        return state, state.rollout
    return step(state, now_ms, rollout=new), new


def trip(
    state: State,
    now_ms: int,
    reason: str,
    quarantine: Collection[str] = (),
    who: str = "validate",
) -> tuple[State, Tripped]:
    """Set the shard back to `off` after a mismatch and distrust what lied, for ever after.

    `quarantine`: column ids ("5"), functions or part keys. A shard that is off stays off, and
    what lied is quarantined all the same.
    """
    old = state.rollout
    distrusted = tuple(sorted({*old.quarantine, *quarantine}))
    result = Tripped(old.mode, "off", distrusted)
    if old.mode not in ACTIVE and distrusted == old.quarantine:
        return state, result
    new = Rollout("off", 0, now_ms, who, reason, distrusted)
    return step(state, now_ms, rollout=new), result
