"""Bring sums up to their sources after work on these."""

from contextlib import suppress
from typing import Any

from strata.errors import Conflict, Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import ReadSettings
from strata.state.consumers import consumers_of
from strata.store.open import Stores
from strata.sums.run import maintain_sums
from strata.sums.target import CONSUMER
from strata.sums.wish import SumsWish, declared_wish


def declared_sums(stores: Stores) -> dict[str, list[SumsWish]]:
    """Return the sums that shards are declared to hold, by source.

    A shard that cannot be loaded is left out: work on that shard itself says why.
    Cost: loads each shard.
    """
    machine = Machine(stores)
    found: dict[str, list[SumsWish]] = {}
    for name in machine.names():
        wish = None
        with suppress(Conflict, Corrupt, InvalidRequest):
            wish = declared_wish(machine.load(name).spec)
        if wish is not None:
            found.setdefault(wish.source, []).append(wish)
    return found


def known_sums(stores: Stores, source: str) -> list[SumsWish]:
    """Return the sums of one shard, by the consumers that it keeps for them.

    Sums whose consumer was removed are not found; `declared_sums` finds them.
    Cost: loads the shard and those that hold its sums.
    """
    machine = Machine(stores)
    kept = [c.name for c in consumers_of(machine.load(source)) if c.name.startswith(CONSUMER)]
    found = []
    for name in kept:
        wish = None
        with suppress(Conflict, Corrupt, InvalidRequest):
            wish = declared_wish(machine.load(name.removeprefix(CONSUMER)).spec)
        if wish is not None and wish.source == source:
            found.append(wish)
    return found


def follow_sums(
    stores: Stores, wishes: list[SumsWish], settings: ReadSettings
) -> list[dict[str, Any]]:
    """Bring sums up to their source; return what each run did.

    Raises: as `maintain_sums`.
    """
    return [maintain_sums(stores, wish, settings).to_json() for wish in wishes]
