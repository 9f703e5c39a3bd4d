"""Names of parts as people type them: the first digits of the hash in a part's key."""

from collections.abc import Iterable, Sequence
from typing import Final

from strata.errors import InvalidRequest
from strata.maintain.exchange import manifest_of
from strata.model.near import one_of
from strata.state.state import State
from strata.store.open import Stores

DIGITS: Final = 8  # of a short name, more where they are not enough


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Return a short name of each key; no two keys have the same.

    >>> short_names(["shards/s/parts/00ff00ff00ff.parquet"])
    {'shards/s/parts/00ff00ff00ff.parquet': '00ff00ff'}
    """
    hashes = {key: _hash(key) for key in keys}
    digits = DIGITS
    while len({h[:digits] for h in hashes.values()}) < len(set(hashes.values())):
        digits += 1
    return {key: h[:digits] for key, h in hashes.items()}


def full_keys(stores: Stores, state: State, named: Iterable[str]) -> list[str]:
    """Return the keys of the parts of a shard that are named by key or by the first digits.

    Raises: InvalidRequest for a name that fits no part, or several.
    """
    wanted = list(named)
    if all("/" in name for name in wanted):
        return wanted
    keys = [
        key
        for batch in state.batches
        if (manifest := manifest_of(stores, state.name, batch)) is not None
        for key in manifest["key"].to_pylist()
    ]
    return [name if "/" in name else _found(state.name, name, keys) for name in wanted]


def _found(shard: str, name: str, keys: Sequence[str]) -> str:
    fitting = [key for key in keys if _hash(key).startswith(name.lower())]
    if len(fitting) == 1 and name:
        return fitting[0]
    short = list(short_names(keys).values())
    if fitting:
        raise InvalidRequest(
            "several parts have this name", shard=shard, part=name, cure="give more digits"
        )
    raise InvalidRequest("no such part", shard=shard, part=name, cure=one_of(name, short))


def _hash(key: str) -> str:
    """Return the hash in a key: its last segment without the suffix."""
    return key.rpartition("/")[2].partition(".")[0]
