"""Separate damage from what another program has replaced, or dropped, meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from strata.errors import Corrupt, Fenced
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.state.step import check_alive
from strata.store.retry import retry


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
def unless_dropped(machine: Machine, shard: str) -> Iterator[None]:
    """Separate a lost blob from one that went with its shard, which somebody dropped on purpose.

    Raises: InvalidRequest for the latter, as any later call does.
    """
    try:
        yield
    except Corrupt as error:
        if not _lost(machine, error):
            raise
        check_alive(machine.load(shard, dropped=True))
        raise


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
    try:
        named = named_by(machine.stores.blob, machine.load(shard), {}, set())
        return any(one == key for one in named)
    except Corrupt:
        return True
