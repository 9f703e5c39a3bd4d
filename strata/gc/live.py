"""The keys that the newest state names: all of them, or numbers of those of parts and filters.

A shard of ten million parts has two gigabytes of them. From `NAMES_MAX` on, those of parts and of
their filters become numbers of 8 bytes (`strata.parts.numbered`). Equal keys have equal numbers, so
no live blob is ever taken for a dead one; a dead one is taken for a live one by one chance in 2^64,
and another sweep finds it. Keys of manifests and pages are always compared as they are, because
what they name is passed by if they are live.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from strata.kernels.arrays import Bools, Ints
from strata.parts.numbered import Numbered, name_numbers, numbers_in
from strata.store.keys import BlobKind

NAMES_MAX: Final = 262_144
AT_ONCE: Final = 8192  # keys
_PART, _BLOOM = f"/{BlobKind.PART}/", f"/{BlobKind.BLOOM}/"


@dataclass(frozen=True)
class LiveNumbers:
    """The keys that a state of very many parts names."""

    others: frozenset[str]  # of blobs that are neither parts nor filters
    numbers: Ints  # of parts and filters, in order

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and bool(self.are_live([key])[0])

    def are_live(self, blob_keys: Sequence[str]) -> Bools:
        """Return which keys are among them. Shape: one element a key."""
        found = numbers_in(name_numbers(blob_keys), self.numbers)
        for place, key in enumerate(blob_keys):
            if not _is_many(key):
                found[place] = key in self.others
        return found


Live: TypeAlias = frozenset[str] | LiveNumbers


def live_keys(named: Iterable[str]) -> Live:
    """Return keys, those of very many parts as numbers."""
    rest = iter(named)
    exact = set(islice(rest, NAMES_MAX))
    some = list(islice(rest, AT_ONCE))
    if not some:
        return frozenset(exact)
    numbered = Numbered()
    others = {key for key in exact if not _is_many(key)}
    numbered.add([key for key in exact if _is_many(key)])
    del exact
    while some:
        many = [key for key in some if _is_many(key)]
        numbered.add(many)
        if len(many) < len(some):
            others.update(key for key in some if not _is_many(key))
        some = list(islice(rest, AT_ONCE))
    return LiveNumbers(frozenset(others), numbered.sorted())


def which_live(live: Live, blob_keys: Sequence[str]) -> Sequence[bool]:
    """Return which keys are live. Shape: one element a key."""
    if isinstance(live, LiveNumbers):
        found: Sequence[bool] = live.are_live(blob_keys).tolist()
        return found
    return [key in live for key in blob_keys]


def _is_many(key: str) -> bool:
    return _PART in key or _BLOOM in key
