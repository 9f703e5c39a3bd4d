"""Files of others that parts refer to: which they are, and how the store takes them in.

Parts keep their names when their bytes come into the store, so no state changes, and readers of any
time find the same rows. It may be repeated, and ended at any moment.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from strata.errors import Corrupt
from strata.store import keys
from strata.store.interface import Blob, Overwriting, Referring
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


def take_in(blob: Blob, shard: str, needed: Collection[str] = ()) -> list[ReferredFile]:
    """Copy files that parts refer to into the store, but for those at the `needed` addresses.

    Returns those that came in.
    Raises: Corrupt when a file is gone or has changed; those before it are in. Unavailable.
    """
    assert isinstance(blob, Overwriting)
    done = []
    for one in referred_files(blob, shard):
        if one.file in needed:
            continue
        data = retry(partial(blob.get, one.part))
        if data is None:
            continue  # swept meanwhile
        if not keys.names_content(one.part, data):
            raise Corrupt(
                "a file that a part refers to has other bytes than it had",
                file=one.file,
                part=one.part,
                cure=GONE,
            )
        retry(partial(blob.overwrite, one.part, data))
        done.append(one)
    return done
