"""Drop points of a backup, and the blobs that no other point needs.

Points share blobs, so nobody may add a point meanwhile. Each side first leaves a mark and then
looks for the other's: at most one of them goes on. The mark of a dead process counts for a day.
"""

import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from strata.backup.point import BEGUN, FOLDER, Backup, shards_among
from strata.errors import Corrupt, InvalidRequest, StrataError, Unavailable
from strata.store.draft import ABANDONED_MS
from strata.store.interface import Blob, Expunging
from strata.store.keys import shard_prefix
from strata.store.retry import although_ended, retry

DROPPING: Final = f"{FOLDER}dropping-"


@dataclass(frozen=True, slots=True)
class DropReport:
    """What was removed. Units: bytes."""

    points: tuple[str, ...]
    blobs: int
    size_bytes: int


def check_no_drop(target: Blob, now_ms: int) -> None:
    """Refuse while points are dropped. Raises: Unavailable."""
    _refuse(target, now_ms, lambda key: key.startswith(DROPPING), "points of it are dropped")


def _refuse(target: Blob, now_ms: int, marks: Callable[[str], bool], what: str) -> None:
    found = retry(lambda: [info for info in target.list(FOLDER) if marks(info.key)])
    young = [info.key for info in found if now_ms - info.modified_ms < ABANDONED_MS]
    if young:
        raise Unavailable(
            f"this backup is in use: {what}",
            certain=True,
            mark=young[0],
            cure="try again when that has ended; if its process died, delete the mark",
        )


def drop_points(backup: Backup, names: Sequence[str], now_ms: int) -> DropReport:
    """Remove points and everything that only they need, for good.

    The point goes first, then blobs, and last the documents that name its shards. So a drop that
    dies leaves blobs too many, never too few, and the next one, of the same point or of another,
    removes what it left, and what a backup left that died. A damaged point is dropped, too.
    Raises: InvalidRequest for an unknown point; Unavailable while a point is added; Corrupt when
    another point cannot be read, because then nobody knows what it needs.
    """
    blob, mark = backup.blob, f"{DROPPING}{secrets.token_hex(4)}"
    for name in names:
        _shards(backup, name)
    try:
        retry(partial(blob.set, mark, b""))
        _refuse(blob, now_ms, lambda key: key.endswith(f"/{BEGUN}"), "a point of it is added")
        gone = [*names, *(left for left in _left(backup) if left not in names)]
        shards = sorted(set[str]().union(*(_shards(backup, name) for name in gone)))
        others = [backup.point(name) for name in backup.names() if name not in names]
        needed = {
            key
            for point in others
            for saved in point.shards
            if saved.name in shards
            for key in backup.sizes(point, saved)
        }
        for name in gone:
            expunge_blob(blob, f"{FOLDER}{name}/point.json")
        count = size = 0
        for shard in shards:
            for info in retry(lambda s=shard: [*blob.list(shard_prefix(s))]):  # type: ignore[misc]
                if info.key not in needed:
                    expunge_blob(blob, info.key)
                    count, size = count + 1, size + info.size_bytes
            _expunge_set_aside(blob, shard, needed)
        for name in gone:
            for key in _documents(blob, name):
                expunge_blob(blob, key)
        return DropReport(tuple(names), count, size)
    finally:
        although_ended(partial(drop_mark, blob, mark))


def _expunge_set_aside(blob: Blob, shard: str, needed: Collection[str]) -> None:
    """Remove what a drop that died had deleted, and not yet removed for good."""
    if isinstance(blob, Expunging):
        for info in retry(lambda: [*blob.set_aside(shard_prefix(shard))]):
            if info.key not in needed:
                retry(partial(blob.expunge, info.key))


def _left(backup: Backup) -> list[str]:
    """Return the points that do not exist, but left documents."""
    listed = retry(lambda: [info.key.removeprefix(FOLDER) for info in backup.blob.list(FOLDER)])
    found = {point for point, _, document in (key.partition("/") for key in listed) if document}
    return sorted(found.difference(backup.names()))


def _shards(backup: Backup, point: str) -> set[str]:
    """Return the names of a point's shards; if it is not whole, those that left states.

    Raises: InvalidRequest for a point that left nothing.
    """
    documents = _documents(backup.blob, point)
    try:
        return {saved.name for saved in backup.point(point).shards}
    except (Corrupt, InvalidRequest):
        if not documents:
            raise
        return shards_among(documents)


def _documents(blob: Blob, point: str) -> list[str]:
    return retry(lambda: [info.key for info in blob.list(f"{FOLDER}{point}/")])


def drop_mark(blob: Blob, mark: str) -> None:
    """Remove the mark of a backup, or of a drop, as far as the store lets us."""
    with suppress(StrataError):
        expunge_blob(blob, mark)


def expunge_blob(blob: Blob, key: str) -> None:
    """Remove a blob for good, where nothing that was deleted is ever purged."""
    retry(partial(blob.delete, key))
    if isinstance(blob, Expunging):
        retry(partial(blob.expunge, key))
