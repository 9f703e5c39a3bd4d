"""The blobs of the log of filters: an entry each, those of a day so far, and summaries.

A day begins with a blob for each entry. A job that reads many of them one by one puts them into one
blob, `rolled-{number}.json`, as they are, by their slots. So the next job reads this one and what
came since. The entries stay: a roll that is damaged or gone is no loss.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from strata.errors import InvalidRequest, StrataError
from strata.store import keys
from strata.store.open import Stores
from strata.store.retry import retry

SUMMARY: Final = "summary"
ROLLED: Final = "rolled-"  # with the number of entries, so that the last one has the most
ROLLED_AT: Final = 16  # entries that are read one by one before they are put into one blob


def entries_of_day(
    stores: Stores, shard: str, day: str, names: Sequence[str], *, roll: bool
) -> Iterator[bytes]:
    """Yield the entries of a day whose blobs have these names, or its summary.

    `roll`: if many entries are read one by one, they are put into one blob as well.
    Cost: one read for a summary; otherwise one for a roll, and one for each entry not in it.
    """
    if SUMMARY in names:
        data = _read(stores, shard, day, SUMMARY)
        yield from () if data is None else (data,)
        return
    rolled = sorted(name for name in names if name.startswith(ROLLED))
    entries = _unrolled(_read(stores, shard, day, rolled[-1])) if rolled else {}
    loose = [name for name in names if not name.startswith(ROLLED) and name not in entries]
    for name in loose:
        if (data := _read(stores, shard, day, name)) is not None:
            entries[name] = data
    if roll and len(loose) >= ROLLED_AT:
        _roll(stores, shard, day, entries, rolled)
    yield from (entries[name] for name in sorted(entries))


def set_once(stores: Stores, key: str, data: bytes) -> None:
    """Write a blob, unless another run was faster, perhaps with other entries."""
    with suppress(InvalidRequest):
        retry(partial(stores.blob.set, key, data))


def _read(stores: Stores, shard: str, day: str, name: str) -> bytes | None:
    return retry(partial(stores.blob.get, keys.usage_key(shard, day, name)))


def _unrolled(data: bytes | None) -> dict[str, bytes]:
    """Return the entries of a roll by their slots; none of one that is damaged."""
    try:
        found = json.loads(data or b"{}")
        return {name: entry.encode() for name, entry in found.items()}
    except (ValueError, AttributeError):
        return {}


def _roll(
    stores: Stores, shard: str, day: str, entries: Mapping[str, bytes], before: Sequence[str]
) -> None:
    """Put the entries of a day into one blob as well, in place of earlier ones."""
    name = f"{ROLLED}{len(entries):03}"
    with suppress(StrataError, UnicodeDecodeError):  # the entries stay as they are
        texts = {slot: data.decode() for slot, data in entries.items()}
        set_once(stores, keys.usage_key(shard, day, name), json.dumps(texts).encode())
        for old in before:
            if old != name:
                stores.blob.delete(keys.usage_key(shard, day, old))
