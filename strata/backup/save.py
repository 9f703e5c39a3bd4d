"""Add a point to a backup: copy the blobs that it lacks, and write down the states."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from strata.backup.documents import HISTORY, Wrong, cure_of
from strata.backup.drop import check_no_drop, drop_mark
from strata.backup.point import (
    BEGUN,
    FOLDER,
    Backup,
    Point,
    SavedShard,
    checked_blob,
    put_whole,
)
from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.machine.reader_hold import reading
from strata.model.journals import is_journal
from strata.model.runner import Runner, serial
from strata.model.settings import Settings, without_password
from strata.model.shown import json_of
from strata.state.codec import encode_state
from strata.state.state import State
from strata.store.draft import ABANDONED_MS, drop_abandoned
from strata.store.interface import Blob
from strata.store.keys import blob_kind, is_reference, names_content, parse_key, shard_prefix
from strata.store.open import Stores
from strata.store.retry import although_ended, retry

LOOKS: Final = 16  # at what a shard has, while history goes that is being copied
_MOMENT: Final = "%Y%m%dT%H%M%S"
LATE: Final = f"late/{BEGUN}"  # a second mark, of a backup whose first one is too old to count


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A point that was added. Units: bytes."""

    point: Point
    copied: int  # blobs that the backup lacked
    copied_bytes: int
    left_out: tuple[str, ...] = ()  # shards that were dropped meanwhile
    damaged: tuple[Wrong, ...] = ()  # history that is damaged in the store, and was saved so

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        return {
            "point": self.point.name,
            "at_ms": self.point.at_ms,
            "shards": [json_of(one, name="shard") for one in self.point.shards],
            "copied": self.copied,
            "copied_bytes": self.copied_bytes,
            "left_out": list(self.left_out),
            "damaged": [json_of(one) for one in self.damaged],
        }


@dataclass(frozen=True, slots=True)
class _Copied:
    sizes: dict[str, int]  # of all blobs of a shard in the backup
    blobs: int  # of these, blobs that the backup lacked
    size_bytes: int  # of the latter
    damaged: tuple[Wrong, ...]


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
    Raises: InvalidRequest when the backup would lie in the store itself, or there is no shard;
    Corrupt for a blob that is missing or damaged, which makes no point, unless it is history;
    Unavailable.
    Cost: reads and writes the blobs that the backup lacks; lists both stores by shard.
    """
    backup = Backup(target)
    check_no_drop(target, stores.clock())
    at_ms = stores.clock()
    name = _name_after(backup.names(), at_ms)
    try:
        _check_apart(stores.blob, target, name)
        drop_abandoned(target)
        # Its own mark is there: a drop that begins now refuses, and one that began before is seen.
        check_no_drop(target, stores.clock())
        return _added(stores, backup, settings, name, at_ms, names, runner)
    finally:
        long = stores.clock() - at_ms >= ABANDONED_MS
        although_ended(partial(_drop_marks, target, name, (BEGUN, LATE) if long else (BEGUN,)))


def _drop_marks(target: Blob, point: str, marks: Sequence[str]) -> None:
    for mark in marks:
        drop_mark(target, f"{FOLDER}{point}/{mark}")


def _name_after(known: Sequence[str], now_ms: int) -> str:
    """Return a name for a new point, behind all names in order, also where the clock went back.

    >>> _name_after([], 0)[:20], _name_after(["20260101T000000.999-ab12"], 0)[:20]
    ('19700101T000000.000-', '20260101T000001.000-')
    """
    for last in known[-1:]:
        with suppress(ValueError):  # somebody renamed it
            taken = datetime.strptime(f"{last.partition('-')[0]}000+0000", f"{_MOMENT}.%f%z")
            now_ms = max(now_ms, round(taken.timestamp() * 1000) + 1)
    began = datetime.fromtimestamp(now_ms / 1000, UTC)
    return f"{began:{_MOMENT}}.{now_ms % 1000:03}-{secrets.token_hex(2)}"


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
    chosen = machine.names() if names is None else list(dict.fromkeys(names))
    if all(map(is_journal, chosen)) and names is None:
        raise InvalidRequest(
            "there is no shard to save, and a point without any would be the newest",
            consensus=without_password(stores.settings.consensus),
            cure="name the database that was meant; journals alone are saved when they are named",
        )
    for shard in names or ():
        machine.load(shard)
    saved: list[SavedShard] = []
    left_out: list[str] = []
    copied: list[_Copied] = []
    for shard in chosen:
        try:
            with reading(stores, shard, settings.read, "backup") as state:
                done = _copy(stores.blob, target, state, runner)
                saved.append(backup.put_shard(name, state, encode_state(state), done.sizes))
        except InvalidRequest:
            if shard in machine.names():
                raise
            left_out.append(shard)  # somebody dropped it meanwhile
        else:
            copied.append(done)
    if stores.clock() - at_ms >= ABANDONED_MS:
        _check_kept(stores, target, name, {k: n for one in copied for k, n in one.sizes.items()})
    return BackupReport(
        backup.put_point(name, at_ms, saved),
        sum(one.blobs for one in copied),
        sum(one.size_bytes for one in copied),
        tuple(left_out),
        tuple(wrong for one in copied for wrong in one.damaged),
    )


def _check_kept(stores: Stores, target: Blob, point: str, sizes: Mapping[str, int]) -> None:
    """Refuse a point whose blobs were dropped: its mark is so old that it no longer counts."""
    retry(partial(target.set, f"{FOLDER}{point}/{LATE}", b""))
    check_no_drop(target, stores.clock())
    prefixes = sorted({shard_prefix(parse_key(key).shard) for key in sizes})
    there = {i.key for prefix in prefixes for i in retry(lambda p=prefix: [*target.list(p)])}  # type: ignore[misc]
    gone = sorted(sizes.keys() - there)
    if gone:
        raise Unavailable(
            "points were dropped while this one was added, and blobs went that it needs",
            certain=True,
            key=gone[0],
            blobs=len(gone),
            cure="run again: what is copied is used; drop points while no backup is under way",
        )


def _check_apart(blob: Blob, target: Blob, point: str) -> None:
    """Refuse a target that is the store itself, under any address."""
    key = f"{FOLDER}{point}/{BEGUN}"
    retry(partial(target.set, key, b""))
    if retry(partial(blob.get, key)) is not None:
        raise InvalidRequest(
            "a backup cannot lie in the store that it is of",
            cure="another folder, or another bucket or prefix",
        )


def _copy(blob: Blob, target: Blob, state: State, runner: Runner) -> _Copied:
    """Copy what the backup lacks. What no state names may go meanwhile, and is left out.

    Then the store is listed once more: an erasure writes what stays, and a note, before it removes
    rejected rows, and a point that had neither would call them lost.
    """
    named = frozenset(named_by(blob, state, {}, set()))
    before: dict[str, int] = {}
    saved: dict[str, _Saved] = {}
    for _ in range(LOOKS):
        sizes, jobs = _lacking(blob, target, state.name, named)
        found = [*runner(partial(_copy_one, blob, target), jobs)]
        for (key, there, _), one in zip(jobs, found, strict=True):
            before.setdefault(key, -1 if there is None else there)
            if one is not None:
                saved[key] = one
        if all(found):
            break
    else:
        raise Unavailable(
            "history goes faster than it is saved",
            certain=True,
            shard=state.name,
            cure="run again when the erasure or the sweep beside it has ended",
        )
    wanted = sizes.keys() | {key for key, _, _ in jobs}
    done = [one for key, one in saved.items() if key in wanted]
    new = [one.size_bytes for one in saved.values() if one.size_bytes != before[one.key]]
    return _Copied(
        sizes | {one.key: one.size_bytes for one in done},
        len(new),
        sum(new),
        tuple(Wrong(one.key, one.wrong, cure_of(one.key)) for one in done if one.wrong),
    )


def _lacking(
    blob: Blob, target: Blob, shard: str, named: Collection[str]
) -> tuple[dict[str, int], list[tuple[str, int | None, bool]]]:
    """Return the sizes of what a backup has of a shard, and what is to be copied.

    Shape: key, size in the backup, and whether a state names it.
    """
    prefix = shard_prefix(shard)
    there = retry(lambda: {info.key: info.size_bytes for info in target.list(prefix)})
    here = retry(lambda: {info.key: info.size_bytes for info in blob.list(prefix)})
    wanted = {*named, *(key for key in here if blob_kind(key) in HISTORY)}
    # What refers to a file here has its bytes there, and so another size.
    sizes = {
        key: there[key]
        for key in wanted
        if key in there and (there[key] == here.get(key) or is_reference(key))
    }
    return sizes, [(key, there.get(key), key in named) for key in sorted(wanted - sizes.keys())]


@dataclass(frozen=True, slots=True)
class _Saved:
    key: str
    size_bytes: int  # in the backup, which may have it with another size
    wrong: str  # with its bytes in the store; "": nothing


def _copy_one(blob: Blob, target: Blob, one: tuple[str, int | None, bool]) -> _Saved | None:
    """Copy a blob; None: it is gone, and no state names it.

    History is saved even if it is damaged: the rest of it may be of use.
    """
    key, there, named = one
    data, wrong = checked_blob(blob, key)
    if data is None and not named:
        return None
    if data is None or (wrong and blob_kind(key) not in HISTORY):
        raise Corrupt(
            f"a blob cannot be saved: {wrong}",
            key=key,
            cure="no point was added; `strata verify` lists all such blobs",
        )
    if there is not None and not names_content(key, data):
        return _Saved(key, there, wrong)  # nobody knows more: it stays as older points name it
    put_whole(target, key, data, damaged=there is not None)
    return _Saved(key, len(data), wrong)
