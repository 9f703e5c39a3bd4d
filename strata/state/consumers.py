"""Consumers: named readers of changes whose positions the shard keeps.

A consumer's position is a time before which it has everything. It is stored in a leased hold, which
keeps since below it, so compaction does not move times that the consumer still has to tell apart:

    Hold("consumer-billing", since, expires, "1785974400000:9f2c…")    position, and whose it is

One session at a time moves a consumer on. The newest session takes over at once, and an older one
is refused from then on. So a program that was killed goes on without waiting, and two that run by
mistake never both count a stretch as done. The lease is about history, not about sessions: when no
session has moved the consumer for that long, since may pass it.
"""

from dataclasses import dataclass
from typing import Final

from strata.errors import Corrupt, Fenced, InvalidRequest
from strata.model.time import MIN_TIME, format_time
from strata.state.holds import CONSUMERS, find_hold
from strata.state.state import Hold, State
from strata.state.step import step

KEEP_MS: Final = 7 * 86_400_000  # how long history waits for a consumer that nobody moves on


@dataclass(frozen=True, slots=True)
class Consumer:
    """A named reader of changes."""

    name: str
    position: int  # it has every update before this time; MIN_TIME: none yet
    session: str  # who may move it on
    expires_ms: int  # until then its history is kept


def consumers_of(state: State) -> tuple[Consumer, ...]:
    """Return the consumers of a shard by name, expired ones included."""
    return tuple(_consumer(h) for h in state.holds if h.name.startswith(CONSUMERS))


def attach(
    state: State,
    now_ms: int,
    *,
    name: str,
    session: str,
    start: int | None = None,
    keep_ms: int = KEEP_MS,
) -> tuple[State, Consumer]:
    """Let a session move a consumer on; create the consumer if there is none.

    `start`: where a new consumer begins, None for the beginning; a known one goes forward to it,
    never back. Repeating the call of a session changes nothing but the lease.

    Raises: InvalidRequest for a bad name, for a start that is not complete yet, and when compaction
    has passed the position.
    """
    if not name or name != name.strip() or not name.isprintable():
        raise InvalidRequest("a consumer needs a name", name=name, cure="letters, digits, - and _")
    if not session or ":" in session:
        raise InvalidRequest("a session needs a token without a colon", consumer=name)
    known = find_hold(state, CONSUMERS + name)
    position = MIN_TIME if known is None else _consumer(known).position
    position = max(position, MIN_TIME if start is None else start)
    _check_position(state, name, position)
    return _moved(state, now_ms, name, session, position, keep_ms)


def move_on(
    state: State, now_ms: int, *, name: str, session: str, position: int, keep_ms: int = KEEP_MS
) -> tuple[State, Consumer]:
    """Count everything before `position` as done, and renew the lease.

    Repeating it succeeds; a position never goes back.

    Raises: Fenced when another session has taken over, or the consumer is gone; InvalidRequest for
    a position that is not complete yet.
    """
    found = moved_by(state, name, session)
    position = max(found.position, position)
    _check_position(state, name, position)
    return _moved(state, now_ms, name, session, position, keep_ms)


def moved_by(state: State, name: str, session: str) -> Consumer:
    """Return a consumer that a session may move on.

    Raises: Fenced when another session has taken over, or the consumer is gone: it was removed, or
    its shard was dropped, and perhaps created again.
    """
    known = find_hold(state, CONSUMERS + name)
    if known is None:
        raise Fenced(
            "this consumer was removed, or its shard was dropped",
            consumer=name,
            shard=state.name,
            cure="begin anew with a new consumer and a new sink",
        )
    found = _consumer(known)
    if found.session != session:
        raise Fenced(
            "another session of this consumer has taken over",
            consumer=name,
            shard=state.name,
            cure="run one at a time; the newest goes on from the stored position",
        )
    return found


def detach(state: State, now_ms: int, *, name: str) -> tuple[State, bool]:
    """Remove a consumer with its position; False if there is none."""
    known = find_hold(state, CONSUMERS + name)
    if known is None:
        return state, False
    return step(state, now_ms, holds=tuple(h for h in state.holds if h != known)), True


def _moved(
    state: State, now_ms: int, name: str, session: str, position: int, keep_ms: int
) -> tuple[State, Consumer]:
    if keep_ms <= 0:
        raise InvalidRequest("a lease must last", keep_ms=keep_ms)
    # Nothing before the beginning has to be told apart, so it keeps only the last moment.
    needed = state.upper if position == MIN_TIME else position
    since = max(state.since, needed - 1) if needed > MIN_TIME else state.since
    new = Hold(CONSUMERS + name, since, now_ms + keep_ms, f"{position}:{session}")
    others = (h for h in state.holds if h.name != new.name)
    holds = tuple(sorted((*others, new), key=lambda h: h.name))
    return step(state, now_ms, holds=holds), _consumer(new)


def _check_position(state: State, name: str, position: int) -> None:
    if position > state.upper:
        raise InvalidRequest(
            "these changes are not complete yet",
            consumer=name,
            position=position,
            upper=state.upper,
            cure=f"a time up to {state.upper} ({format_time(state.upper)})",
        )
    if MIN_TIME < position <= state.since:
        since = f"{state.since} ({format_time(state.since)})"
        raise InvalidRequest(
            "compaction has passed this consumer: changes would come twice, or not at all",
            consumer=name,
            position=position,
            since=state.since,
            cure=f"read a snapshot, then begin behind since {since} under a new name; "
            "a longer lease keeps more history",
        )


def _consumer(hold: Hold) -> Consumer:
    position, _, session = hold.opaque.partition(":")
    try:
        return Consumer(
            hold.name.removeprefix(CONSUMERS), int(position), session, hold.expires_ms or 0
        )
    except ValueError as error:
        raise Corrupt("a consumer's hold has no position", hold=hold.name) from error
