"""Steps of the rollout: up on request and with another person's approval, down at once.

    off -> soft -> audit -> on     one rung at a time: `ask`, then `approve` by somebody else
    any -> lower                   `step_down`, by one person, with a reason
    any -> off                     automatic on a mismatch: `strata.state.rollout.trip`
    audit, on -> soft              automatic when the deciding code changes: `record`

A request has an id, `request_id`. An approval names the request whose evidence was examined; an
answer to an older or newer request approves nothing. A request that nobody answers in time is
rejected. The evidence is checked twice: when the step is requested, and when it is approved, then
by the strictest of all gates that held since the request (`judging`). All functions here are pure
functions of a state, for `Machine.apply`.
"""

from collections.abc import Collection
from dataclasses import astuple, replace
from typing import Final

from strata.errors import Conflict, InvalidRequest
from strata.rollout.basis import basis_of, recorded_basis
from strata.rollout.evidence import AuditCounts, add
from strata.rollout.gates import LADDER, gates, next_mode, unmet
from strata.rollout.obey import SKIPPING, is_approved
from strata.rollout.people import NOBODY, Person, check_said, identity_of
from strata.rollout.policy import THRESHOLDS, Policy
from strata.rollout.pool import Pool
from strata.state.rollout import Tripped, noted, record_verdicts
from strata.state.state import Evidence, Happened, Mode, Request, Rollout, State
from strata.state.step import step

DAY_MS: Final = 86_400_000


def ask(  # noqa: PLR0913  these are the fields of one request
    state: State,
    now_ms: int,
    *,
    to: str,
    percent: int,
    who: str,
    reason: str,
    policy: Policy,
    user: str = "",
    clear: Collection[str] = (),
    pool: Pool | None = None,
) -> tuple[State, Request]:
    """Ask for the next step up; somebody else has to approve it.

    `user`: the database user behind `who`; empty: the name is only claimed.
    `pool`: evidence of other shards of the class, which the request and the history record.

    `percent`: the share of skipped parts that is audited afterwards. `clear`: words of the
    quarantine to release with the step; "all" releases all.

    Raises: InvalidRequest if `to` is not the next step, if evidence is lacking (naming each gate),
    or if a request is open already.
    """
    check_said("a change of rollout", who, reason, shard=state.name)
    rollout = _under(_lapsed(state, now_ms), policy)
    wanted = _next_step(state, to, percent)
    if rollout.request is not None:
        raise InvalidRequest(
            "a step is already asked for",
            shard=state.name,
            to=rollout.request.to,
            by=rollout.request.by,
            cure="approve or reject it first",
        )
    _enough(state, rollout, wanted, policy, pool)
    asked = Request(
        wanted,
        percent,
        who,
        reason,
        now_ms,
        now_ms + policy.gates.request_days * DAY_MS,
        _released(state, clear),
        pool is not None,
        user,
    )
    new = noted(
        rollout,
        now_ms,
        "requested",
        after=rollout.mode,
        percent=percent,
        who=who,
        reason=reason,
        user=user,
        request=request_id(state.name, asked),
        pooled=_pooled(pool),
    )
    return step(state, now_ms, rollout=replace(new, request=asked)), asked


def approve(  # noqa: PLR0913  these are the fields of one approval
    state: State,
    now_ms: int,
    *,
    request: str,
    who: str,
    reason: str,
    policy: Policy,
    user: str = "",
    pool: Pool | None = None,
) -> tuple[State, Rollout]:
    """Take the requested step; `pool` counts if the request was made with one.

    `request`: the id of the request that the approver was shown. `user`: the database user behind
    the approver; empty: the name is only claimed.

    Raises: InvalidRequest if no request is open (any more), if another one than `request` is open,
    if the approver is the asker or is not named by the policy, or if the evidence does not suffice
    by the gates of now, or by any that held since the step was asked for.
    """
    check_said("a change of rollout", who, reason, shard=state.name)
    rollout, asked = _open(state, now_ms, request)
    if _gates_since(state, policy) is None:
        raise InvalidRequest(
            "the history lacks gates that held since this was asked for",
            shard=state.name,
            request=request,
            by=asked.by,
            cure="reject it and ask again",
        )
    judged = judging(state, policy)
    rollout = _under(rollout, judged)
    policy.check_approver(Person(who, user), Person(asked.by, asked.user), shard=state.name)
    if next_mode(rollout.mode) != asked.to:
        raise InvalidRequest(
            "the shard has moved since this was asked for",
            shard=state.name,
            mode=rollout.mode,
            to=asked.to,
            cure="reject it and ask again",
        )
    shared = pool if asked.pooled else None
    _enough(state, rollout, asked.to, policy, shared)
    _enough(state, rollout, asked.to, judged, shared, asked=asked)
    entered = noted(
        rollout,
        now_ms,
        "approved",
        after=asked.to,
        percent=asked.audit_percent,
        who=who,
        reason=reason,
        user=user,
        asked_by=asked.by,
        asked_user=asked.user,
        request=request_id(state.name, asked),
        pooled=_pooled(shared),
    )
    seen = rollout.evidence if rollout.mode != "off" else Evidence()
    new = replace(
        entered,
        mode=asked.to,
        audit_percent=asked.audit_percent,
        changed_ms=now_ms,
        changed_by=who,
        reason=reason,
        quarantine=tuple(word for word in rollout.quarantine if word not in asked.clear),
        basis=recorded_basis(state),
        request=None,
        evidence=replace(seen, step_days=0, step_day=-1),
    )
    return step(state, now_ms, rollout=new), new


def reject(
    state: State,
    now_ms: int,
    *,
    who: str,
    reason: str,
    user: str = "",
    request: str | None = None,
) -> tuple[State, Rollout]:
    """Refuse the requested step; the person who asked may refuse it as well.

    `request`: the id of the request to refuse; None means the open one.

    Raises: InvalidRequest if no request is open, or another one than `request`.
    """
    check_said("a change of rollout", who, reason, shard=state.name)
    rollout, asked = _open(state, now_ms, request)
    refused = noted(
        rollout,
        now_ms,
        "rejected",
        after=rollout.mode,
        percent=rollout.audit_percent,
        who=who,
        reason=reason,
        user=user,
        asked_by=asked.by,
        asked_user=asked.user,
        request=request_id(state.name, asked),
    )
    new = replace(refused, request=None)
    return step(state, now_ms, rollout=new), new


def step_down(
    state: State, now_ms: int, *, to: str, who: str, reason: str, user: str = ""
) -> tuple[State, Rollout]:
    """Step down at once: one person and a reason are enough. An open request lapses.

    Raises: InvalidRequest for a mode that is not lower.
    """
    check_said("a change of rollout", who, reason, shard=state.name)
    old = state.rollout
    if to not in LADDER or LADDER.index(to) >= LADDER.index(old.mode):
        below = ", ".join(LADDER[: LADDER.index(old.mode)]) or "nothing is below off"
        raise InvalidRequest(
            "this is no step down", shard=state.name, mode=old.mode, to=to, cure=f"one of: {below}"
        )
    new = _lowered(old, now_ms, to, Person(who, user), reason)
    return step(state, now_ms, rollout=new), new


def distrust_rule(state: State, now_ms: int, *, reason: str) -> tuple[State, bool]:
    """Take a shard that skips back to `soft`, because a rule was wrong in another shard.

    Returns whether it skipped. One that stepped down meanwhile stays there: up takes two people.
    """
    if state.rollout.mode not in SKIPPING:
        return state, False
    new = _lowered(state.rollout, now_ms, "soft", Person("validate"), reason)
    return step(state, now_ms, rollout=new), True


def record(  # noqa: PLR0913  these are the fields of one record
    state: State,
    now_ms: int,
    *,
    key: str,
    counts: AuditCounts,
    policy: Policy,
    mismatch: str = "",
    quarantine: Collection[str] = (),
) -> tuple[State, Tripped]:
    """Record a verdict table and its effect on the rollout, in one commit.

    A mismatch trips the shard. Otherwise the audits are added to the evidence. If the evidence was
    collected with other code, it starts again, and readers of the new code stop skipping.

    Raises: Conflict when `counts` continue evidence that is no longer the shard's; InvalidRequest
    if the code was replaced beneath this process.
    """
    if key in state.verdicts and not mismatch:
        return record_verdicts(state, now_ms, key=key)
    rollout = _under(_lapsed(state, now_ms), policy)
    if mismatch:
        under = replace(state, rollout=_under(state.rollout, policy))
        return record_verdicts(under, now_ms, key=key, mismatch=mismatch, quarantine=quarantine)
    if counts.seen is not None and counts.seen.before != rollout.evidence.seen:
        raise Conflict("other audits were recorded meanwhile", shard=state.name)
    basis = recorded_basis(state)
    if rollout.mode in SKIPPING and not is_approved(state):
        before = rollout.basis or "none that anybody approved"
        reason = f"the code that decides changed from {before} to {basis}"
        rollout = _lowered(rollout, now_ms, "soft", Person("validate"), reason, what="reset")
    for_step = rollout.mode == "audit" and counts.percent >= policy.gates.on_percent
    seen = add(rollout.evidence, counts, now_ms, basis, counts_for_step=for_step)
    rollout = replace(rollout, evidence=seen)
    return record_verdicts(state, now_ms, key=key, rollout=rollout)


def _lowered(
    old: Rollout, now_ms: int, to: Mode, who: Person, reason: str, what: Happened = "stepped down"
) -> Rollout:
    percent = old.audit_percent if to in SKIPPING else 0
    following = noted(
        old, now_ms, what, after=to, percent=percent, who=who.name, user=who.user, reason=reason
    )
    return replace(
        following,
        mode=to,
        audit_percent=percent,
        changed_ms=now_ms,
        changed_by=who.name,
        reason=reason,
        request=None,
        evidence=replace(old.evidence, step_days=0, step_day=-1),
        basis=old.basis if to in SKIPPING else "",
    )


def _under(rollout: Rollout, policy: Policy) -> Rollout:
    """Return the rollout with the thresholds that judge its evidence, for its history."""
    return replace(rollout, policy=policy.number, gates=policy.figures())


def _lapsed(state: State, now_ms: int) -> Rollout:
    """Return the rollout without an expired request."""
    rollout, asked = state.rollout, state.rollout.request
    if asked is None or now_ms < asked.expires_ms:
        return rollout
    following = noted(
        rollout,
        asked.expires_ms,
        "lapsed",
        after=rollout.mode,
        percent=rollout.audit_percent,
        who=NOBODY,
        reason="nobody answered in time",
        asked_by=asked.by,
        asked_user=asked.user,
        request=request_id(state.name, asked),
    )
    return replace(following, request=None)


def judging(state: State, policy: Policy) -> Policy:
    """Return the policy that judges the next step: for an open request the strictest of all.

    A request is judged by the gates under which it was made, by those of now, and by all that held
    between. Nothing passes that an approver may have seen fail, even if gates were raised and
    lowered again.
    """
    for gates_then in _gates_since(state, policy) or ():
        policy = policy.at_least(gates_then)
    return policy


def _gates_since(state: State, policy: Policy) -> list[dict[str, int]] | None:
    """Return the gates that held from the open request on, without those of now.

    None if no request is open, or if the histories lack some of them.
    """
    asked = state.rollout.request
    if asked is None:
        return None
    named = request_id(state.name, asked)
    for entry in reversed(state.rollout.entries):
        if entry.what == "requested" and entry.request == named:
            then, later = (
                dict(zip(THRESHOLDS, entry.gates, strict=False)),
                policy.since(entry.policy),
            )
            return None if later is None or not then else [then, *later]
    return None


def request_id(shard: str, asked: Request) -> str:
    """Return the id of a request: a digest of the shard, all that is asked, and when."""
    return identity_of((shard, *astuple(asked)))


def _open(state: State, now_ms: int, named: str | None) -> tuple[Rollout, Request]:
    rollout = _lapsed(state, now_ms)
    if rollout.request is None:
        raise InvalidRequest(
            "no step is asked for",
            shard=state.name,
            reason=_why_closed(state, named),
            cure="strata rollout request",
        )
    there = request_id(state.name, rollout.request)
    if named is not None and named.strip() != there:
        raise InvalidRequest(
            "another request is open than the one that was answered",
            shard=state.name,
            request=named,
            open=there,
            by=rollout.request.by,
            cure=f"look at `strata rollout show {state.name}`, and answer what it shows",
        )
    return rollout, rollout.request


def _why_closed(state: State, named: str | None) -> str:
    """Return why no request is open: the answer to the named one, which a killed run may repeat."""
    if state.rollout.request is not None:
        return "it was not answered in time"
    wanted = (named or "").strip()
    for entry in reversed(state.rollout.entries):
        if wanted and entry.request == wanted and entry.what in {"approved", "rejected"}:
            return f"it was {entry.what} already, by {entry.by}"
    return "nobody asked"


def _next_step(state: State, to: str, percent: int) -> Mode:
    wanted = next_mode(state.rollout.mode)
    if to != wanted:
        raise InvalidRequest(
            "steps up are taken one at a time",
            shard=state.name,
            mode=state.rollout.mode,
            to=to,
            next=wanted or "there is none",
            cure=f"--to {wanted}" if wanted else None,
        )
    least = 1 if wanted in SKIPPING else 0
    if isinstance(percent, bool) or not least <= percent <= 100:
        raise InvalidRequest(
            "not a share of parts to audit",
            audit_percent=percent,
            cure="1 to 100: skipping is never left unwatched",
        )
    return wanted


def _pooled(pool: Pool | None) -> int:
    return 0 if pool is None else pool.evidence.parts


def _enough(
    state: State,
    rollout: Rollout,
    to: Mode,
    policy: Policy,
    pool: Pool | None,
    *,
    asked: Request | None = None,
) -> None:
    """Refuse a step if its gates fail; `asked`: the request since which stricter gates held."""
    lacking = unmet(gates(rollout, to, policy, basis_of(state), pool))
    if lacking and asked is not None:
        raise InvalidRequest(
            "the gates were lowered since this was asked for, and the strictest of them fail",
            shard=state.name,
            to=to,
            by=asked.by,
            lacking=lacking,
            cure="reject it and ask again",
        )
    if lacking:
        raise InvalidRequest(
            "there is not enough evidence for this step",
            shard=state.name,
            to=to,
            lacking=lacking,
            cure="let soft evaluation run on",
        )


def _released(state: State, clear: Collection[str]) -> tuple[str, ...]:
    if "all" in clear:
        return state.rollout.quarantine
    for word in clear:
        if word not in state.rollout.quarantine:
            raise InvalidRequest(
                "this is not in quarantine",
                shard=state.name,
                word=word,
                known=list(state.rollout.quarantine),
            )
    return tuple(sorted(clear))
