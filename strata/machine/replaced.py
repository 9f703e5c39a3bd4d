"""Separate damage from what another program has replaced, or dropped, meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from strata.errors import Corrupt, Fenced, StrataError
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.state.state import State
from strata.state.step import check_alive
from strata.store.keys import BlobKind, blob_kind, generation_of, parse_key
from strata.store.retry import retry

READ: Final = frozenset(
    {BlobKind.PART, BlobKind.MANIFEST, BlobKind.PAGE, BlobKind.UNION, BlobKind.CATALOG}
)


@contextmanager
def noticed(machine: Machine, shard: str, done: str = "") -> Iterator[None]:
    """Separate a lost blob from one that went with what the shard has no more.

    `done` says in errors what is done with the batches of the shard: "merged"; "": they are read.
    Raises: Fenced for the latter; InvalidRequest when the shard was dropped.
    """
    try:
        yield
    except Corrupt as error:
        key = _lost(machine, error)
        if not key or _names(machine, shard, key):
            raise
        raise Fenced(
            f"a batch was replaced while it was {done}, by an erasure or a merge"
            if done
            else "what this run reads was replaced by another one, and is gone",
            shard=shard,
            key=key,
            cure=f"run again; what is {done or 'committed'} stays {done or 'committed'}",
        ) from error


@contextmanager
def unless_dropped(machine: Machine, shard: str = "") -> Iterator[None]:
    """Separate a lost blob from one that went with what its readers were not kept from.

    `shard`: whose blobs are read; "": that of the lost blob.
    Raises: InvalidRequest when the shard was dropped, as any later call does; Fenced when it does
    not name the blob any more: it was dropped and created anew, or others replaced what is read.
    """
    try:
        yield
    except Corrupt as error:
        key = _lost(machine, error)
        shard = shard or _shard_of(key or "")
        state = _newest(machine, shard) if key and shard else None
        if not key or not state:
            raise
        check_alive(state)
        if not _may_be_swept(state, key) or _names(machine, shard, key):
            raise
        raise Fenced(
            "what is read was replaced meanwhile, and is gone: the shard was created anew, or a "
            "merge or an erasure came and nothing held its batches",
            shard=shard,
            key=key,
            cure="read again; [read] hold_ms keeps for so long what a reader reads",
        ) from error


def _newest(machine: Machine, shard: str) -> State | None:
    """Return the newest state; None if it cannot be known here, as where a task sees blobs only."""
    try:
        return machine.load(shard, dropped=True)
    except StrataError:
        return None


def _may_be_swept(state: State, key: str) -> bool:
    """Return whether reads need this blob, and a sweep may take."""
    mine = _shard_of(key) == state.name and blob_kind(key) in READ
    return mine and generation_of(key) < state.fence


def _shard_of(key: str) -> str:
    """Return whose blob a key is; empty: that of no shard."""
    return "" if blob_kind(key) is None else parse_key(key).shard


def _lost(machine: Machine, error: Corrupt) -> str | None:
    """Return the key of the blob that an error is about, if the blob is gone."""
    key = error.details.get("part", error.details.get("key"))
    if not key:
        return None
    try:
        found = retry(partial(machine.stores.blob.get, str(key)))
    except Corrupt:  # it is there, and what it refers to is not what it was
        return None
    return str(key) if found is None else None


def _names(machine: Machine, shard: str, key: object) -> bool:
    """Return whether the newest state names a blob, or what it names cannot be known."""
    lost: set[str] = set()  # what these name is not known
    try:
        named = named_by(machine.stores.blob, machine.load(shard), {}, lost)
        return any(one == key for one in named) or bool(lost)
    except Corrupt:
        return True
