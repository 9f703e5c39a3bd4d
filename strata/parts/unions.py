"""Read the union of a batch's statistics: one row, in a blob of its own that the state names.

Planning a filter reads it in order to rule out a batch without opening its manifest. It is cached,
since its key is the hash of its content. Older states hold unions themselves. `strata.machine.lean`
writes the blobs.
"""

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final

import pyarrow as pa

from strata.errors import Corrupt
from strata.format.pack import unpack
from strata.state.state import Batch
from strata.store.interface import Blob
from strata.store.named import get_named
from strata.store.open import Stores, is_near

AT_ONCE: Final = 16  # requests at once, for a remote store

_KNOWN_MAX: Final = 512  # unions, each some KiB
_KNOWN: Final[OrderedDict[str, pa.Table]] = OrderedDict()
_LOCK: Final = Lock()


def batch_stats(blob: Blob, shard: str, batch: Batch) -> pa.Table | None:
    """Return the union of a batch's statistics, one row; None when it is unknown.

    Errs: a union inside the state that cannot be decoded counts as unknown.
    Raises: Corrupt when its blob is missing or damaged.
    """
    if batch.stats_union is not None:
        return _row(batch.stats_union)
    if batch.union is None:
        return None
    with _LOCK:
        if (known := _KNOWN.get(batch.union)) is not None:
            _KNOWN.move_to_end(batch.union)
            return known
    data = get_named(blob, batch.union, "the union of a batch's statistics", shard=shard)
    found = _row(unpack(data))
    if found is None:
        raise Corrupt("the union of a batch's statistics is no row", shard=shard, key=batch.union)
    with _LOCK:
        _KNOWN[batch.union] = found
        while len(_KNOWN) > _KNOWN_MAX:
            _KNOWN.popitem(last=False)
    return found


def stats_of(stores: Stores, shard: str, batches: Sequence[Batch]) -> list[pa.Table | None]:
    """Return the unions of batches for a caller that can do without: None also for a damaged one.

    Cost: one request for each union that is not cached; in parallel for a remote store.
    """
    load = partial(_if_whole, stores.blob, shard)
    with _LOCK:
        missing = [b for b in batches if b.union is not None and b.union not in _KNOWN]
    if len(missing) > 1 and not is_near(stores.settings):
        with ThreadPoolExecutor(min(AT_ONCE, len(missing))) as pool:
            list(pool.map(load, missing))
    return [load(batch) for batch in batches]


def _if_whole(blob: Blob, shard: str, batch: Batch) -> pa.Table | None:
    try:
        return batch_stats(blob, shard, batch)
    except Corrupt:
        return None


def _row(stream: bytes) -> pa.Table | None:
    try:
        table = pa.ipc.open_stream(stream).read_all()
    except (pa.ArrowException, OSError, ValueError):
        return None
    return table if table.num_rows == 1 else None
