"""Files of others that parts refer to: which they are, and how the store takes them in.

Parts keep their names when their bytes come into the store, so no batch changes, and readers of any
time find the same rows. It may be repeated, and ended at any moment.

An erasure removes such parts for good, and bytes that were read before would come back after it. So
they are taken in under a lease, for which an erasure waits, and not while one is under way.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from strata.errors import Corrupt, Unavailable
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.store import keys
from strata.store.interface import Blob, Overwriting, Referring
from strata.store.open import Stores
from strata.store.reference import GONE
from strata.store.retry import retry


@dataclass(frozen=True, slots=True)
class ReferredFile:
    """A file that a part refers to."""

    file: str  # address
    size_bytes: int
    part: str  # blob key

    def to_json(self) -> dict[str, Any]:
        """Return the document of the command line."""
        return asdict(self)


def referred_files(blob: Blob, shard: str) -> list[ReferredFile]:
    """Return the files that parts of a shard refer to, of any time that can be read.

    Errs: names those of parts that the next sweeps remove, too. Cost: a listing, and a small read
    for each such part.
    """
    if not isinstance(blob, Referring):
        return []
    found = []
    for info in retry(lambda: [*blob.list(keys.reference_prefix(shard))]):
        reference = retry(partial(blob.referred, info.key))
        if reference is not None:
            file = reference.file
            found.append(ReferredFile(file.address, file.size_bytes, info.key))
    return found


def take_in(stores: Stores, shard: str, needed: Collection[str] = ()) -> list[ReferredFile]:
    """Copy files that parts refer to into the store, but for those at the `needed` addresses.

    Returns those that came in.
    Raises: Corrupt when a file is gone or has changed; those before it are in. Unavailable, also
    while an erasure is under way; Fenced when the lease has expired.
    Cost: copies the files; a commit for each, and two, where there are any.
    """
    if not _wanted(stores.blob, shard, needed):
        return []
    machine = Machine(stores)
    with Lease(machine, shard, "own") as lease:
        _check_no_erasure(machine, shard)
        found = _wanted(stores.blob, shard, needed)  # one that has ended since took some away
        return [one for one in found if _copied(stores.blob, one, lease)]


def _wanted(blob: Blob, shard: str, needed: Collection[str]) -> list[ReferredFile]:
    return [one for one in referred_files(blob, shard) if one.file not in needed]


def _check_no_erasure(machine: Machine, shard: str) -> None:
    """Refuse to go on beside an erasure; one that begins later waits for the lease."""
    erasing = machine.load(shard).erasing
    if erasing is not None:
        raise Unavailable(
            "no file is taken in while rows are erased, which may be among its rows",
            certain=True,
            shard=shard,
            id=erasing.id,
            by=erasing.by,
            cure="run that erasure again until it is done, then this",
        )


def _copied(blob: Blob, one: ReferredFile, lease: Lease) -> bool:
    """Copy a file into the part that refers to it; False if the part has gone, or has its bytes."""
    assert isinstance(blob, Overwriting)
    assert isinstance(blob, Referring)
    data = retry(partial(blob.get, one.part))
    if data is None:
        return False
    if not keys.names_content(one.part, data):
        raise Corrupt(
            "a file that a part refers to has other bytes than it had",
            file=one.file,
            part=one.part,
            cure=GONE,
        )
    lease.renew()  # to read it may have taken long
    if retry(partial(blob.referred, one.part)) is None:
        return False
    retry(partial(blob.overwrite, one.part, data))
    return True
