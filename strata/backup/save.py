"""Add a point to a backup: copy the blobs that it lacks, and write down the states."""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from strata.backup.drop import check_no_drop
from strata.backup.point import (
    BEGUN,
    FOLDER,
    Backup,
    Point,
    SavedShard,
    checked_blob,
    put_whole,
)
from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.machine.reader_hold import reading
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.model.shown import json_of
from strata.state.codec import encode_state
from strata.state.state import State
from strata.store.draft import drop_abandoned
from strata.store.interface import Blob
from strata.store.keys import BlobKind, names_content, parse_key, shard_prefix
from strata.store.open import Stores
from strata.store.retry import retry

# Kinds that no state names, or not for ever, and that people want to keep: all of them are saved.
HISTORY: Final = frozenset(
    {BlobKind.QUARANTINE, BlobKind.VERDICT, BlobKind.USAGE, BlobKind.BACKFILL, BlobKind.ERASURE}
)


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A point that was added. Units: bytes."""

    point: Point
    copied: int  # blobs that the backup lacked
    copied_bytes: int
    left_out: tuple[str, ...] = ()  # shards that were dropped meanwhile

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        return {
            "point": self.point.name,
            "at_ms": self.point.at_ms,
            "shards": [json_of(one, name="shard") for one in self.point.shards],
            "copied": self.copied,
            "copied_bytes": self.copied_bytes,
            "left_out": list(self.left_out),
        }


def back_up(
    stores: Stores,
    target: Blob,
    settings: Settings,
    names: Sequence[str] | None = None,
    runner: Runner = serial,
) -> BackupReport:
    """Add a point with some shards, or all, and return it.

    Each shard is in the state that it has when its turn comes, and complete: a hold keeps its blobs
    until they are copied. A run that ends early leaves no point; the next one uses what it copied.
    Raises: InvalidRequest when the backup would lie in the store itself; Corrupt for a blob that is
    missing or damaged, which makes no point; Unavailable.
    Cost: reads and writes the blobs that the backup lacks; lists both stores by shard.
    """
    backup = Backup(target)
    check_no_drop(target, stores.clock())
    at_ms = stores.clock()
    began = datetime.fromtimestamp(at_ms / 1000, UTC)
    name = f"{began:%Y%m%dT%H%M%S}.{at_ms % 1000:03}-{secrets.token_hex(2)}"
    _check_apart(stores.blob, target, name)
    drop_abandoned(target)
    try:
        # Its own mark is there: a drop that begins now refuses, and one that began before is seen.
        check_no_drop(target, stores.clock())
        return _added(stores, backup, settings, name, at_ms, names, runner)
    finally:
        with suppress(StrataError):
            target.delete(f"{FOLDER}{name}/{BEGUN}")


def _added(  # noqa: PLR0913, PLR0917  what the point is of
    stores: Stores,
    backup: Backup,
    settings: Settings,
    name: str,
    at_ms: int,
    names: Sequence[str] | None,
    runner: Runner,
) -> BackupReport:
    machine, target = Machine(stores), backup.blob
    chosen = machine.names() if names is None else list(names)
    for shard in names or ():
        machine.load(shard)
    saved: list[SavedShard] = []
    left_out: list[str] = []
    copied = copied_bytes = 0
    for shard in chosen:
        try:
            with reading(stores, shard, settings.read, "backup") as state:
                sizes, sent, sent_bytes = _copy(stores.blob, target, state, runner)
                saved.append(backup.put_shard(name, state, encode_state(state), sizes))
        except InvalidRequest:
            if shard in machine.names():
                raise
            left_out.append(shard)  # somebody dropped it meanwhile
            continue
        copied, copied_bytes = copied + sent, copied_bytes + sent_bytes
    return BackupReport(backup.put_point(name, at_ms, saved), copied, copied_bytes, tuple(left_out))


def _check_apart(blob: Blob, target: Blob, point: str) -> None:
    """Refuse a target that is the store itself, under any address."""
    key = f"{FOLDER}{point}/{BEGUN}"
    retry(partial(target.set, key, b""))
    inside = retry(partial(blob.get, key)) is not None
    if inside:
        retry(partial(target.delete, key))
        raise InvalidRequest(
            "a backup cannot lie in the store that it is of",
            cure="another folder, or another bucket or prefix",
        )


def _copy(
    blob: Blob, target: Blob, state: State, runner: Runner
) -> tuple[dict[str, int], int, int]:
    """Copy what the backup lacks; return the size of each blob, and blobs and bytes copied."""
    prefix = shard_prefix(state.name)
    there = retry(lambda: {info.key: info.size_bytes for info in target.list(prefix)})
    here = retry(lambda: {info.key: info.size_bytes for info in blob.list(prefix)})
    lost: set[str] = set()
    wanted = {*named_by(blob, state, {}, lost)}
    wanted |= {key for key in here if _kind(key) in HISTORY}
    sizes = {key: there[key] for key in wanted if key in there and there[key] == here.get(key)}
    missing = sorted(wanted - sizes.keys())
    jobs = [(key, there.get(key)) for key in missing]
    done = dict(zip(missing, runner(partial(_copy_one, blob, target), jobs), strict=True))
    copied = [size for key, size in done.items() if size != there.get(key)]
    return sizes | done, len(copied), sum(copied)


def _kind(key: str) -> BlobKind | None:
    try:
        return parse_key(key).kind
    except InvalidRequest:
        return None


def _copy_one(blob: Blob, target: Blob, one: tuple[str, int | None]) -> int:
    """Copy a blob, and return its size in the backup, which may have it with another size."""
    key, there = one
    data, wrong = checked_blob(blob, key)
    if data is None or wrong:
        raise Corrupt(
            f"a blob cannot be saved: {wrong}",
            key=key,
            cure="no point was added; `strata verify` lists all such blobs",
        )
    if there is not None and not names_content(key, data):
        return there  # nobody knows that it is damaged: it stays as older points name it
    put_whole(target, key, data, damaged=there is not None)
    return len(data)
