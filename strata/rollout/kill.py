"""The kill switch for all shards of a consensus: while it is thrown, no reader skips anything.

It is stored beside the shards' states under a key of its own, so it needs no file on any machine.
The setting `rollout.kill` does the same for the processes that read it. Either is enough, and
`is_killed` checks both.
Throwing it takes one person. Releasing it takes one or two people, as the policy of the store
says. With two, the first requests the release, and the second names that request.
"""

import logging
import time
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any, Final

import orjson

from strata.errors import Conflict, InvalidRequest, StrataError
from strata.model.time import format_time
from strata.rollout.people import Person, check_said, identity_of
from strata.rollout.policy import DAY_MS, Policy
from strata.state.seal import is_sealed, sealed
from strata.store.interface import Versioned
from strata.store.open import Stores
from strata.store.retry import Sleep, retry

_log: Final = logging.getLogger(__name__)
KEY: Final = "rollout"
ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class Release:
    """A request to release the switch."""

    by: str
    user: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class KillSwitch:
    """The position of the switch, and who moved it last."""

    thrown: bool = False
    by: str = ""
    reason: str = ""
    at_ms: int = 0
    user: str = ""  # the database user that moved it as `by`; empty: the name is only claimed
    asked: Release | None = None
    asked_by: str = ""  # who asked for the release, and as which user
    asked_user: str = ""


def kill_switch(stores: Stores) -> KillSwitch:
    """Return the position of the switch.

    Errs: a value that cannot be parsed counts as thrown. Raises: Unavailable.
    """
    head = retry(lambda: stores.consensus.head(KEY))
    return KillSwitch() if head is None else _decode(head)


def is_killed(stores: Stores) -> bool:
    """Return whether skipping is forbidden, by the setting or by the switch.

    Errs: skipping is also forbidden if the answer cannot be found out; the log says why.
    Cost: one request to the consensus, unless the setting forbids skipping.
    """
    try:
        return stores.settings.kill or kill_switch(stores).thrown
    except StrataError as error:
        _log.warning("the kill switch cannot be read, so nothing is skipped: %s", error)
        return True


def throw(  # noqa: PLR0913  these are the fields of one move
    stores: Stores,
    *,
    thrown: bool,
    who: str,
    reason: str,
    user: str = "",
    policy: Policy | None = None,
    request: str | None = None,
    sleep: Sleep = time.sleep,
) -> KillSwitch:
    """Move the switch and return its position; shards keep their modes.

    If `policy` requires two people for a release, the first call requests it. A second call, by
    somebody else and with the id of that `request`, releases the switch. If `policy` is None, one
    person is enough.

    Raises: InvalidRequest without a name or a reason, if `request` is not the open one or has
    lapsed, or if the asker also answers; Conflict after many lost races.
    """
    check_said("the kill switch", who, reason)
    person = Person(who, user)
    for attempt in range(ATTEMPTS):
        head = retry(lambda: stores.consensus.head(KEY), sleep=sleep)
        expected = None if head is None else head.seqno
        old, now_ms = KillSwitch() if head is None else _decode(head), stores.clock()
        new = KillSwitch(thrown, who, reason, now_ms, user)
        if not thrown and old.thrown and policy is not None and policy.release_people > 1:
            new = _released(old, new, person, policy, request)
        value = Versioned((expected or 0) + 1, sealed(orjson.dumps(asdict(new))))
        if stores.consensus.compare_and_set(KEY, expected, value):
            return new
        sleep(0.01 * (attempt + 1))
    raise Conflict("the kill switch could not be moved", attempts=ATTEMPTS)


def release_id(asked: Release) -> str:
    """Return the id of a requested release."""
    return identity_of(astuple(asked))


def _released(
    old: KillSwitch, new: KillSwitch, who: Person, policy: Policy, request: str | None
) -> KillSwitch:
    """Return the switch after one of the two people asks for its release."""
    if request is None:
        return replace(old, asked=Release(who.name, who.user, new.reason, new.at_ms))
    if old.asked is None or request.strip() != release_id(old.asked):
        raise InvalidRequest(
            "another release of the kill switch is asked for than the one that was answered",
            request=request,
            open=None if old.asked is None else release_id(old.asked),
            cure="look at `strata rollout kill`, and answer what it shows",
        )
    days = policy.gates.request_days
    if new.at_ms >= old.asked.at_ms + days * DAY_MS:
        raise InvalidRequest(
            "this request has lapsed: nobody answered in time",
            request=request,
            asked=format_time(old.asked.at_ms),
            request_days=days,
            cure="ask for the release again: `--off` without `--request`",
        )
    asked = Person(old.asked.by, old.asked.user)
    policy.check_approver(who, asked, what="release of the kill switch")
    return replace(new, asked_by=asked.name, asked_user=asked.user)


def _decode(head: Versioned) -> KillSwitch:
    try:
        is_sealed(head.data, "kill switch")
        said: dict[str, Any] = orjson.loads(head.data)
        said.pop("digest", None)
        asked = said.pop("asked", None)
        found = KillSwitch(**said, asked=None if asked is None else Release(**asked))
    except (ValueError, TypeError, AttributeError, StrataError):
        return KillSwitch(True, "", "the switch could not be read")
    return found if isinstance(found.thrown, bool) else KillSwitch(True)
