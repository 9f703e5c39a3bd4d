"""Read every blob that a shard, or a point of a backup, needs, and compare it with its name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from strata.backup.point import Backup, Point, SavedShard, checked_blob
from strata.errors import Corrupt
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.machine.reader_hold import reading
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.state.state import State
from strata.store.interface import Blob
from strata.store.open import Stores


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was read of a shard, and what is wrong. Units: bytes."""

    shard: str
    seqno: int
    blobs: int
    size_bytes: int
    wrong: tuple[tuple[str, str], ...] = ()  # key, and what is wrong with it

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        return {
            "shard": self.shard,
            "seqno": self.seqno,
            "blobs": self.blobs,
            "bytes": self.size_bytes,
            "wrong": [{"key": key, "what": what} for key, what in self.wrong],
        }


def verify_shard(
    stores: Stores, name: str, settings: Settings, runner: Runner = serial
) -> VerifyReport:
    """Return what is wrong with the blobs that the newest state of a shard names.

    What a missing or damaged manifest names is not known, and not looked at.
    Raises: InvalidRequest for an unknown shard; Corrupt when its state, or a node of the ledger
    below another one, is damaged.
    Cost: reads every blob, under a hold.
    """
    with reading(Machine(stores).stores, name, settings.read, "verify") as state:
        keys = _named(stores.blob, state)
        return _verified(stores.blob, name, state.seqno, dict.fromkeys(keys), runner)


def _named(blob: Blob, state: State) -> set[str]:
    """Return what a state names, without what only damaged blobs would lead to."""
    damaged: set[str] = set()
    parts: dict[str, tuple[str, ...]] = {}
    while True:
        try:
            return {*named_by(blob, state, parts, set(), damaged)}
        except Corrupt as error:
            key = error.details.get("manifest") or error.details.get("key")
            if not isinstance(key, str) or key in damaged:
                raise
            damaged.add(key)


def verify_point(
    backup: Backup, point: Point, saved: SavedShard, runner: Runner = serial
) -> VerifyReport:
    """Return what is wrong with the blobs of a shard in a backup.

    Raises: Corrupt when the state or the list of blobs is damaged.
    """
    state, sizes = backup.state(point, saved), backup.sizes(point, saved)
    return _verified(backup.blob, state.name, state.seqno, sizes, runner)


def _verified(
    blob: Blob, name: str, seqno: int, sizes: Mapping[str, int | None], runner: Runner
) -> VerifyReport:
    items = sorted(sizes.items())
    found = [*runner(partial(_looked_at, blob), items)]
    wrong = tuple((key, what) for (key, _), (_, what) in zip(items, found, strict=True) if what)
    return VerifyReport(name, seqno, len(items), sum(size for size, _ in found), wrong)


def _looked_at(blob: Blob, one: tuple[str, int | None]) -> tuple[int, str]:
    data, wrong = checked_blob(blob, *one)
    return len(data or b""), wrong
