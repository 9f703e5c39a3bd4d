"""A writer's lease: taken for a job, renewed while it works, given back when it ends.

While the lease lives, the garbage fence does not pass the blobs of the job, for as long as it
works. Once the lease has expired (the process was stopped, the machine slept, the network was
away), every commit that names it is refused. So a zombie that wakes up is fenced, even while its
successor is at work. Each run has a lease of its own. A killed run leaves its lease behind; it
expires, and the next `register` or sweep drops it.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, Self

from strata.errors import StrataError
from strata.machine.heartbeat import beating
from strata.machine.machine import Machine
from strata.state.generations import finish, heartbeat, register
from strata.store.retry import ENDS, although_ended

LEASE_MS: Final = 15 * 60_000  # renewed at each third of it


class Lease:
    """The lease of one run on one shard; a context manager, taken once."""

    def __init__(
        self, machine: Machine, shard: str, purpose: str, lease_ms: int = LEASE_MS
    ) -> None:
        """Prepare a lease; the context takes it on entry."""
        self.name = f"{purpose}-{secrets.token_hex(6)}"
        self._machine, self._shard = machine, shard
        self._purpose, self._lease_ms = purpose, lease_ms
        self._beat = beating(self.name, lease_ms, self.renew)

    def __enter__(self) -> Self:
        """Take the lease, and begin to renew it. Cost: one commit.

        The job must write in the generation of a state that is loaded after this.
        """
        take = partial(register, name=self.name, lease_ms=self._lease_ms, purpose=self._purpose)
        try:
            self._machine.apply(self._shard, take)
            self._beat.__enter__()
        except ENDS:  # it may be taken
            self._give_back()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Give the lease back; where that fails it expires. Cost: one commit."""
        try:
            self._beat.__exit__(None, None, None)
        finally:
            although_ended(self._give_back)

    def _give_back(self) -> None:
        with suppress(StrataError):  # the work is done, or its own error says more
            self._machine.apply(self._shard, partial(finish, name=self.name))

    def renew(self) -> None:
        """Prolong the lease from now.

        Raises: Fenced when it has expired.
        """
        prolong = partial(heartbeat, name=self.name, lease_ms=self._lease_ms)
        self._machine.apply(self._shard, prolong)


@contextmanager
def held(lease: Lease | None, *, needed: bool = True) -> Iterator[str | None]:
    """Hold the lease if there is one and it is needed; yield the name for commits."""
    if lease is None or not needed:
        yield None
        return
    with lease:
        yield lease.name
