"""The switch over all shards of a consensus: while it is thrown, no reader skips anything.

It lies beside the shards' states under a key of its own, so that it needs no file on any machine;
the setting `rollout.kill` does the same for the processes that read it. Either one is enough.
"""

import time
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from strata.errors import Conflict, InvalidRequest, StrataError
from strata.store.interface import Versioned
from strata.store.open import Stores
from strata.store.retry import Sleep, retry

KEY: Final = "rollout"
ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class KillSwitch:
    """How the switch stands, and who moved it last."""

    thrown: bool = False
    by: str = ""
    reason: str = ""
    at_ms: int = 0


def kill_switch(stores: Stores) -> KillSwitch:
    """Return how the switch stands.

    Errs: a value that cannot be understood counts as thrown. Raises: Unavailable.
    """
    head = retry(lambda: stores.consensus.head(KEY))
    return KillSwitch() if head is None else _decode(head)


def is_killed(stores: Stores) -> bool:
    """Tell a reader whether skipping is forbidden; what cannot be found out forbids it, too."""
    try:
        return kill_switch(stores).thrown
    except StrataError:
        return True


def throw(
    stores: Stores, *, thrown: bool, who: str, reason: str, sleep: Sleep = time.sleep
) -> KillSwitch:
    """Move the switch; one person is enough, both ways: shards keep their modes.

    Raises: InvalidRequest without a name or a reason; Conflict after many lost races.
    """
    if not who.strip() or not reason.strip():
        raise InvalidRequest("the kill switch needs a name and a reason")
    new = KillSwitch(thrown, who, reason, stores.clock())
    for attempt in range(ATTEMPTS):
        head = retry(lambda: stores.consensus.head(KEY), sleep=sleep)
        expected = None if head is None else head.seqno
        value = Versioned((expected or 0) + 1, orjson.dumps(asdict(new)))
        if stores.consensus.compare_and_set(KEY, expected, value):
            return new
        sleep(0.01 * (attempt + 1))
    raise Conflict("the kill switch could not be moved", attempts=ATTEMPTS)


def _decode(head: Versioned) -> KillSwitch:
    try:
        found = KillSwitch(**orjson.loads(head.data))
    except (ValueError, TypeError):
        return KillSwitch(True, "", "the switch could not be read")
    return found if isinstance(found.thrown, bool) else KillSwitch(True)
