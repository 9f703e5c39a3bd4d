"""Read every blob that a shard, or a point of a backup, needs, and compare it with its name.

History is read as well: rejected rows, verdicts, receipts, logged filters, certificates.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from strata.backup.documents import HISTORY, MISSING, Wrong, cure_of, lost_rejects
from strata.backup.point import Backup, Point, SavedShard, checked_blob
from strata.errors import Corrupt
from strata.machine.machine import Machine
from strata.machine.named import named_by, pointers
from strata.machine.reader_hold import reading
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.model.shown import json_of
from strata.state.state import State
from strata.store.interface import Blob
from strata.store.keys import blob_kind, shard_prefix
from strata.store.open import Stores
from strata.store.retry import retry

AGAIN: Final = "delete it there: the next `strata backup` copies it again, if the store has it"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was read of a shard, and what is wrong. Units: bytes."""

    shard: str
    seqno: int
    blobs: int
    size_bytes: int
    wrong: tuple[Wrong, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        return {
            "shard": self.shard,
            "seqno": self.seqno,
            "blobs": self.blobs,
            "bytes": self.size_bytes,
            "wrong": [json_of(one) for one in self.wrong],
        }


def verify_shard(
    stores: Stores, name: str, settings: Settings, runner: Runner = serial
) -> VerifyReport:
    """Return what is wrong with the blobs that the newest state of a shard names, and its history.

    What a missing or damaged manifest names is not known, and not looked at. History that goes
    meanwhile is passed over.
    Raises: InvalidRequest for an unknown shard; Corrupt when its state, or a node of the ledger
    below another one, is damaged.
    Cost: reads every blob, under a hold.
    """
    blob = stores.blob
    with reading(Machine(stores).stores, name, settings.read, "verify") as state:
        named = _named(blob, state)
        listed = retry(lambda: frozenset(info.key for info in blob.list(shard_prefix(name))))
        keys = named | {key for key in listed if blob_kind(key) in HISTORY}
        report = _verified(blob, state, dict.fromkeys(keys), listed, cure_of, runner)
    wrong = (
        one
        for one in report.wrong
        if one.key in named or one.key not in listed or one.what != MISSING
    )
    return replace(report, wrong=tuple(wrong))


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
    return _verified(backup.blob, state, sizes, sizes, lambda _: AGAIN, runner)


def _verified(
    blob: Blob,
    state: State,
    sizes: Mapping[str, int | None],
    listed: Collection[str],
    cure: Callable[[str], str],
    runner: Runner,
) -> VerifyReport:
    items = sorted(sizes.items())
    found = [*runner(partial(_looked_at, blob), items)]
    wrong = [(key, what) for (key, _), (_, what) in zip(items, found, strict=True) if what]
    wrong += [(key, MISSING) for key in lost_rejects(blob, pointers(state), listed)]
    return VerifyReport(
        state.name,
        state.seqno,
        len(items),
        sum(size for size, _ in found),
        tuple(Wrong(key, what, cure(key)) for key, what in wrong),
    )


def _looked_at(blob: Blob, one: tuple[str, int | None]) -> tuple[int, str]:
    data, wrong = checked_blob(blob, *one)
    return len(data or b""), wrong
