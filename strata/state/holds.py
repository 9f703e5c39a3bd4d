"""Holds: readers' claims that since may not pass.

A leased hold expires unless it is renewed. A critical hold never expires; it changes by
compare-and-set on an opaque token that its owner chooses, so that a second owner gets an error.
Expiry does not move since; the next `advance_since` may.
"""

from typing import Final

from strata.errors import Fenced, InvalidRequest
from strata.state.state import Hold, State
from strata.state.step import step

PUBLISHED: Final = "published-"  # of the names of holds that keep what other engines read
LABEL: Final = "label-"  # of the names of holds that are labels: `strata.state.labels`
CONSUMERS: Final = "consumer-"  # of the names of holds with positions: `strata.state.consumers`
_COMMANDS: Final = {LABEL: "strata tag", CONSUMERS: "strata deliver"}  # that make such holds


def hold(
    state: State, now_ms: int, *, name: str, since: int, lease_ms: int, owner: str = ""
) -> tuple[State, Hold]:
    """Take a leased hold, or take it over once it has expired.

    It also keeps the state that it joins, and all later ones, with every blob that they name.
    `owner`, if given, is a unique text. It lets a request succeed again, for example after its
    reply was lost, and gives a former owner of the name an error.

    Raises: InvalidRequest for a since that is gone or in the future, or a name that is taken, or
    that labels or consumers have.
    """
    check_hold_name(name)
    found = find_hold(state, name)
    if found is not None and (found.expires_ms is None or found.expires_ms > now_ms):
        if found.expires_ms is not None and owner and found.opaque == owner:
            return renew(state, now_ms, name=name, lease_ms=lease_ms, owner=owner)
        raise InvalidRequest("this hold is taken", hold=name, expires_ms=found.expires_ms)
    _check_since(state, since)
    new = Hold(name, since, now_ms + _lease(lease_ms), owner, state.seqno + 1)
    return step(state, now_ms, holds=_with(state, new)), new


def renew(  # noqa: PLR0913  these are the fields of one request
    state: State,
    now_ms: int,
    *,
    name: str,
    lease_ms: int,
    since: int | None = None,
    owner: str = "",
    seqno: int | None = None,
) -> tuple[State, Hold]:
    """Prolong a leased hold, and move its since forward if a greater one is given.

    `seqno`: the reader has moved on to this state, and no longer needs earlier ones.

    Raises: Fenced when it has expired, or another owner has the name; its blobs may be gone.
    """
    found = find_hold(state, name)
    if found is None or (found.expires_ms is not None and found.expires_ms <= now_ms):
        raise Fenced("this hold has expired", hold=name, shard=state.name)
    if found.expires_ms is None:
        raise InvalidRequest("a critical hold is not renewed", hold=name)
    if found.opaque != owner:
        raise Fenced("another owner has this hold", hold=name, since=found.since)
    kept = max(found.seqno, min(seqno or 0, state.seqno))
    wanted = max(found.since, found.since if since is None else since)
    if wanted > state.upper:
        _check_since(state, wanted)
    new = Hold(name, wanted, now_ms + _lease(lease_ms), owner, kept)
    return step(state, now_ms, holds=_with(state, new)), new


def carry_on(
    state: State, now_ms: int, *, name: str, seqno: int, lease_ms: int, owner: str
) -> tuple[State, Hold]:
    """Take or prolong a leased hold on an older state that some live hold still keeps.

    A reader that began under a shared hold uses this when it runs longer than that hold lives. The
    hold keeps states, not history: its since is the shard's upper.

    Raises: Fenced when no live hold keeps that state, since its blobs may be gone.
    """
    if readable_from(state, now_ms) > seqno:
        raise Fenced("no hold keeps this state any more", shard=state.name, seqno=seqno)
    found = find_hold(state, name)
    if found is not None and found.opaque != owner:
        raise Fenced("another owner has this hold", hold=name, since=found.since)
    new = Hold(name, state.upper, now_ms + _lease(lease_ms), owner, seqno)
    return step(state, now_ms, holds=_with(state, new)), new


def hold_critical(
    state: State, now_ms: int, *, name: str, since: int, expected: str, opaque: str
) -> tuple[State, Hold]:
    """Take a critical hold (`expected` empty), or change the one with opaque token `expected`.

    Its since never goes back. Repeating the last successful call succeeds without effect.

    Raises: Fenced when another owner has changed it; InvalidRequest for a since that is gone.
    """
    if not opaque:
        raise InvalidRequest("a critical hold needs an opaque token", hold=name)
    check_hold_name(name)
    found = find_hold(state, name)
    if found is not None and found.expires_ms is not None:
        raise InvalidRequest("this name belongs to a leased hold", hold=name)
    if found is not None and found.opaque == opaque and found.since >= since:
        return state, found
    if (found.opaque if found else "") != expected:
        raise Fenced("another owner has this hold", hold=name, since=found.since if found else None)
    if found is None:
        _check_since(state, since)
    new = Hold(name, max(since, found.since if found else since), None, opaque)
    return step(state, now_ms, holds=_with(state, new)), new


def release(state: State, now_ms: int, *, name: str, opaque: str = "") -> tuple[State, bool]:
    """Give up a hold; False if there is none. A critical one needs its opaque token.

    Raises: Fenced for a wrong opaque token.
    """
    found = find_hold(state, name)
    if found is None:
        return state, False
    if found.expires_ms is None and name.startswith(LABEL):
        raise InvalidRequest("this hold is a label", hold=name, cure="strata untag")
    if found.opaque != opaque:
        raise Fenced("another owner has this hold", hold=name, since=found.since)
    return step(state, now_ms, holds=tuple(h for h in state.holds if h != found)), True


def drop_expired(state: State, now_ms: int, *, name: str) -> tuple[State, bool]:
    """Drop an expired hold of any owner; False if there is none.

    Raises: InvalidRequest for a live one.
    """
    found = find_hold(state, name)
    if found is None:
        return state, False
    if found in live_holds(state, now_ms):
        raise InvalidRequest(
            "this hold is alive",
            hold=name,
            expires_ms=found.expires_ms,
            cure="only its owner releases it",
        )
    return step(state, now_ms, holds=tuple(h for h in state.holds if h != found)), True


def readable_from(state: State, now_ms: int) -> int:
    """Return the first seqno that a live hold still reads from; the state's own if there is none.

    Critical holds keep since back, but no state: their owners read the newest one.
    """
    live = (h.seqno for h in state.holds if h.expires_ms is not None and h.expires_ms > now_ms)
    return min([state.seqno, *(seqno for seqno in live if seqno)])


def live_holds(state: State, now_ms: int) -> tuple[Hold, ...]:
    """Return the live holds; critical holds never expire."""
    return tuple(h for h in state.holds if h.expires_ms is None or h.expires_ms > now_ms)


def find_hold(state: State, name: str) -> Hold | None:
    """Return the hold of this name, expired or not; None if there is none."""
    return next((h for h in state.holds if h.name == name), None)


def _with(state: State, new: Hold) -> tuple[Hold, ...]:
    others = (h for h in state.holds if h.name != new.name)
    return tuple(sorted((*others, new), key=lambda h: h.name))


def check_hold_name(name: str) -> None:
    """Refuse names of holds that mean more than a hold. Raises: InvalidRequest."""
    for prefix, command in _COMMANDS.items():
        if name.startswith(prefix):
            word = prefix.removesuffix("-")
            raise InvalidRequest(f"a hold of this name is a {word}", hold=name, cure=command)


def _check_since(state: State, since: int) -> None:
    if not state.since <= since <= state.upper:
        raise InvalidRequest(
            "this time cannot be held",
            shard=state.name,
            time=since,
            since=state.since,
            upper=state.upper,
            cure="a time from since to upper",
        )


def _lease(lease_ms: int) -> int:
    if lease_ms <= 0:
        raise InvalidRequest("a lease must last", lease_ms=lease_ms)
    return lease_ms
