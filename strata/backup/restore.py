"""Bring shards back from a point of a backup: first the blobs, then, in one commit, the state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from strata.backup.documents import HISTORY
from strata.backup.point import Backup, Point, checked_blob, put_whole
from strata.errors import Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.journals import REJECTED, is_journal
from strata.model.runner import Runner, serial
from strata.model.shown import json_of
from strata.state.state import State
from strata.store.interface import Blob
from strata.store.keys import blob_kind, erasure_prefix, generation_of, shard_prefix
from strata.store.open import Stores
from strata.store.retry import retry


@dataclass(frozen=True, slots=True)
class RestoredShard:
    """A shard that was brought back. Units: bytes."""

    shard: str
    seqno: int  # of its new state
    upper: int
    mode: str
    blobs: int
    copied: int  # of these, blobs that the store lacked
    copied_bytes: int
    erased_since: tuple[str, ...] = ()  # erasures that the point does not know the end of


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What was brought back, from which point."""

    point: Point
    shards: tuple[RestoredShard, ...]
    left_alone: tuple[str, ...] = ()  # shards that exist

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        return {
            "point": self.point.name,
            "at_ms": self.point.at_ms,
            "shards": [json_of(one) for one in self.shards],
            "left_alone": list(self.left_alone),
        }


def restore(  # noqa: PLR0913  options, by name
    stores: Stores,
    backup: Backup,
    *,
    point: str = "",
    names: Sequence[str] | None = None,
    missing: bool = False,
    by: str,
    reason: str,
    runner: Runner = serial,
) -> RestoreReport:
    """Bring shards of a point back, by default all of the newest point.

    A shard comes back as it was, but for three things: no hold or lease of then is alive, no writer
    of another life can commit, and skipping has to be earned again, from `soft` at most.
    What the store still has of a shard is read, and copied again where it is damaged. Rows that
    were erased since the point come back; the report names each such erasure that store or backup
    know.
    Raises: InvalidRequest, before anything is copied, for a shard that exists; Corrupt, before any
    shard is back, for what is missing or damaged in the backup; Unavailable. `missing` leaves
    shards that exist alone: with it a run that ended early is repeated. Of all shards, those are
    always left alone in which Strata keeps its own history, because any command makes them.
    """
    machine, found = Machine(stores), backup.point(point)
    chosen = found.names if names is None else list(dict.fromkeys(names))
    there = {*machine.names()} & {*chosen}
    left_alone = {n for n in there if missing or (names is None and is_journal(n))}
    saved = [found.shard(name) for name in chosen if name not in left_alone]
    alive = sorted(there - left_alone)
    if alive:
        raise InvalidRequest(
            "a shard that exists is not replaced",
            shards=", ".join(alive),
            cure="drop it first with `strata drop`, restore into an empty store, or use --missing",
        )
    ready = [(one, backup.state(found, one), backup.sizes(found, one)) for one in saved]
    since = [_erased_since(stores, backup, found, state) for _, state, _ in ready]
    copied = [_copy(stores.blob, backup.blob, one.name, sizes, runner) for one, _, sizes in ready]
    shards = []
    for (one, state, sizes), sent, undone in zip(ready, copied, since, strict=True):
        listed = _stored(stores.blob, one.name)
        newest = max(map(generation_of, listed), default=0)
        new = machine.bring_back(state, generation=newest + 1, by=by, reason=reason)
        # What a sweep of the dropped shard has taken since: now a state names it, and it stays.
        here = _stored(stores.blob, one.name)
        gone = {key: size for key, size in sizes.items() if key not in here}
        again = sent | _copy(stores.blob, backup.blob, one.name, gone, runner)
        shards.append(
            RestoredShard(
                one.name,
                new.seqno,
                new.upper,
                new.rollout.mode,
                len(sizes),
                len(again),
                sum(again.values()),
                undone,
            )
        )
    return RestoreReport(found, tuple(shards), tuple(sorted(left_alone)))


def _erased_since(stores: Stores, backup: Backup, point: Point, state: State) -> tuple[str, ...]:
    """Return the erasures that ended after a point, or were under way in it, oldest first.

    Those of rejected rows are certified with the shard that rejected them.
    Errs: knows none whose certificates are gone from the store and from all points.
    """
    name = state.name.removesuffix(REJECTED)
    prefix = erasure_prefix(name)
    listed = (retry(lambda b=blob: [*b.list(prefix)]) for blob in (stores.blob, backup.blob))  # type: ignore[misc]
    ended = _certified(prefix, (info.key for infos in listed for info in infos))
    under_way = set() if state.erasing is None else {state.erasing.id}
    known = (backup.sizes(point, one) for one in point.shards if one.name == name)
    return tuple(sorted((ended | under_way) - _certified(prefix, chain.from_iterable(known))))


def _certified(prefix: str, keys: Iterable[str]) -> set[str]:
    """Return the ids of the certificates among some keys; notes of steps lie in folders."""
    names = (key.removeprefix(prefix) for key in keys if key.startswith(prefix))
    return {name.removesuffix(".json") for name in names if "/" not in name}


def _stored(blob: Blob, shard: str) -> frozenset[str]:
    return retry(lambda: frozenset(info.key for info in blob.list(shard_prefix(shard))))


def _copy(
    blob: Blob, source: Blob, shard: str, sizes: Mapping[str, int], runner: Runner
) -> dict[str, int]:
    """Copy the blobs that the store lacks, or has damaged; return their sizes."""
    here = _stored(blob, shard) if sizes else frozenset()
    wanted = [
        (key, size, key in here)
        for key, size in sorted(sizes.items())
        if not (key in here and blob_kind(key) in HISTORY)
    ]
    done = runner(partial(_copy_one, blob, source), wanted)
    return {key: size for (key, size, _), copied in zip(wanted, done, strict=True) if copied}


def _copy_one(blob: Blob, source: Blob, one: tuple[str, int, bool]) -> bool:
    """Return whether the blob had to be copied. History comes back even if it is damaged."""
    key, size, here = one
    if here and not checked_blob(blob, key, size)[1]:
        return False
    data, wrong = checked_blob(source, key, size)
    if data is None or (wrong and blob_kind(key) not in HISTORY):
        raise Corrupt(
            f"a blob of the backup cannot be used: {wrong}",
            key=key,
            cure="use another point; what was copied is used again",
        )
    put_whole(blob, key, data, damaged=here)
    return True
