"""What a drop would delete, counted from the shard's state and one listing; and the drop."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.journals import check_not_journal
from strata.model.settings import Settings
from strata.state import erasing, tombstone
from strata.state.state import State, Tombstone
from strata.state.tombstone import in_use_by
from strata.store.keys import parse_key, shard_prefix
from strata.store.open import Stores
from strata.store.retry import relisted


@dataclass(frozen=True)
class Loss:
    """Everything a shard has: its blobs by kind, and who still reads or writes it."""

    state: State
    blobs: Counter[str]
    bytes: Counter[str]
    held_by: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON. Units: times in milliseconds since 1970, sizes in bytes."""
        batches = self.state.batches
        return {
            "shard": self.state.name,
            "since": self.state.since,
            "upper": self.state.upper,
            "updates": sum(batch.updates for batch in batches),
            "parts": sum(batch.parts for batch in batches),
            "blobs": self.blobs.total(),
            "bytes": self.bytes.total(),
            "kinds": [
                {"kind": kind, "blobs": blobs, "bytes": self.bytes[kind]}
                for kind, blobs in sorted(self.blobs.items())
            ],
            "held_by": list(self.held_by),
        }


def loss(stores: Stores, state: State) -> Loss:
    """Return what a drop of this shard would delete; change nothing. Cost: one listing."""
    blobs: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for info in relisted(stores.blob, shard_prefix(state.name)):
        kind = _kind(info.key)
        blobs[kind] += 1
        sizes[kind] += info.size_bytes
    now_ms = stores.clock()
    return Loss(state, blobs, sizes, in_use_by(state, now_ms))


def drop_shard(machine: Machine, name: str, *, by: str, reason: str, force: bool) -> Tombstone:
    """Drop a shard as `Machine.drop` does, and return its tombstone.

    An erasure of the shard that is under way ends in the shards about it: nobody could go on with
    it, and no other erasure could begin there.
    """
    check_not_journal(name)
    found = machine.load(name, dropped=True)
    if found.erasing is not None:
        tombstone.drop(found, machine.stores.clock(), by=by, reason=reason, force=force)
        for other in {*machine.names()} - {name}:
            machine.apply(other, partial(erasing.finish, id=found.erasing.id))
    return machine.drop(name, by=by, reason=reason, force=force)


def deleted_from(state: State, settings: Settings) -> int | None:
    """Return when sweeps may start to delete a dropped shard's blobs; None for a live shard."""
    return None if state.dropped is None else state.dropped.at_ms + settings.gc.grace_ms


def _kind(key: str) -> str:
    try:
        return parse_key(key).kind.value
    except InvalidRequest:
        return "foreign"  # sweeps leave it alone
