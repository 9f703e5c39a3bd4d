"""The switch over all shards of a consensus: while it is thrown, no reader skips anything.

It lies beside the shards' states under a key of its own, so that it needs no file on any machine;
the setting `rollout.kill` does the same for the processes that read it. Either one is enough, and
`is_killed` asks for both.
Throwing it takes one person. Releasing it takes as many as the policy of the store says, one or
two: then the first asks, and the second names what was asked.
"""

import time
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any, Final

import orjson

from strata.errors import Conflict, InvalidRequest, StrataError
from strata.rollout.people import Person, check_said, identity_of
from strata.rollout.policy import Policy
from strata.state.seal import is_sealed, sealed
from strata.store.interface import Versioned
from strata.store.open import Stores
from strata.store.retry import Sleep, retry

KEY: Final = "rollout"
ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class Release:
    """That somebody asked for the release of the switch."""

    by: str
    user: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class KillSwitch:
    """How the switch stands, and who moved it last."""

    thrown: bool = False
    by: str = ""
    reason: str = ""
    at_ms: int = 0
    user: str = ""  # of the database, who moved it as `by`; empty: the name is claimed
    asked: Release | None = None
    asked_by: str = ""  # who had asked for the release, and as which user
    asked_user: str = ""


def kill_switch(stores: Stores) -> KillSwitch:
    """Return how the switch stands.

    Errs: a value that cannot be understood counts as thrown. Raises: Unavailable.
    """
    head = retry(lambda: stores.consensus.head(KEY))
    return KillSwitch() if head is None else _decode(head)


def is_killed(stores: Stores) -> bool:
    """Return whether skipping is forbidden, by the setting or by the switch.

    Errs: what cannot be found out forbids it, too.
    Cost: one question to the consensus, unless the setting forbids it.
    """
    try:
        return stores.settings.kill or kill_switch(stores).thrown
    except StrataError:
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
    """Move the switch and return how it stands; shards keep their modes.

    Where `policy` wants two people for the release, the first call asks, and one by somebody else
    with the identity of that `request` releases it. `policy` None: one person is enough.

    Raises: InvalidRequest without a name or a reason, for another request than the open one, or by
    who asked; Conflict after many lost races.
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
    """Return the identity of what was asked for."""
    return identity_of(astuple(asked))


def _released(
    old: KillSwitch, new: KillSwitch, who: Person, policy: Policy, request: str | None
) -> KillSwitch:
    """Return the switch after one of two people wants it released."""
    if request is None:
        return replace(old, asked=Release(who.name, who.user, new.reason, new.at_ms))
    if old.asked is None or request.strip() != release_id(old.asked):
        raise InvalidRequest(
            "another release of the kill switch is asked for than the one that was answered",
            request=request, open=None if old.asked is None else release_id(old.asked),
            cure="look at `strata rollout kill`, and answer what it shows",
        )  # fmt: skip
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
