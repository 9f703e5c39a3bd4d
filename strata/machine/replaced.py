"""Separate damage from what another program has replaced meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from strata.errors import Corrupt, Fenced
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.state.state import State
from strata.store.retry import retry


@contextmanager
def noticed(machine: Machine, planned: State, done: str) -> Iterator[None]:
    """Separate a lost blob from one that went with a batch that the shard has no more.

    `done` says in errors what is done with the batches of the planned state: "merged".
    Raises: Fenced for the latter.
    """
    try:
        yield
    except Corrupt as error:
        key, blob = error.details.get("part", error.details.get("key")), machine.stores.blob
        if (
            not key
            or retry(partial(blob.get, str(key))) is not None
            or _names(machine, planned, key)
        ):
            raise
        raise Fenced(
            f"a batch was replaced while it was {done}, by an erasure or a merge",
            shard=planned.name,
            key=key,
            cure=f"run again; what is {done} stays {done}",
        ) from error


def _names(machine: Machine, planned: State, key: object) -> bool:
    """Return whether the newest state names a blob, or what it names cannot be known."""
    try:
        named = named_by(machine.stores.blob, machine.load(planned.name), {}, set())
        return any(one == key for one in named)
    except Corrupt:
        return True
