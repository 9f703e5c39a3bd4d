"""Estimate the cost of a backfill from its parts and from the speed of the last runs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import ceil
from typing import Final

import orjson

from strata.errors import StrataError
from strata.format.manifest import PartRef
from strata.parts.fetch import TAIL_BYTES
from strata.store import keys
from strata.store.open import Stores
from strata.store.retry import retry

RUNS_MAX: Final = 8  # runs with a recorded speed


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of reading: estimated before a run, measured after it where possible."""

    requests: int  # estimated reads: one for the end of each part, one for each row group before it
    seconds: float | None  # None: no measured run yet


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of one backfill."""

    parts: int
    bytes: int  # size of the parts read
    ms: int
    whole: bool  # whether all columns were read


def estimate(stores: Stores, shard: str, parts: Sequence[PartRef], *, whole: bool) -> Cost:
    """Return the cost of reading these parts; `whole`: all of their columns."""
    requests = sum(map(_requests, parts))
    rate = measured_rate(stores, shard, whole=whole)
    size = sum(part.size_bytes for part in parts)
    return Cost(requests, None if rate is None else round(size / rate, 3))


def _requests(part: PartRef) -> int:
    """Return one request for the end of a part, plus one for each row group before it."""
    before = max(part.size_bytes - TAIL_BYTES, 0) / max(part.size_bytes, 1)
    return 1 + ceil(before * len(part.splits))


def measured_rate(stores: Stores, shard: str, *, whole: bool) -> float | None:
    """Return the bytes of parts a second in the last runs of this kind; None: no such run.

    Cost: lists and reads a few small blobs.
    """
    size = took_ms = 0
    for key in _known(stores, shard):
        try:
            run = Speed(**orjson.loads(stores.blob.get(key) or b""))
            if run.whole == whole:
                size, took_ms = size + run.bytes, took_ms + run.ms
        except (ValueError, TypeError, StrataError):
            continue  # an estimate must not fail the run
    return size * 1000 / took_ms if size and took_ms else None


def record_speed(stores: Stores, shard: str, run: Speed) -> None:
    """Record the speed of a run, and forget all but the last few."""
    data = orjson.dumps(asdict(run))
    key = keys.backfill_key(shard, stores.clock(), keys.content_hash(data))
    retry(partial(stores.blob.set, key, data))
    for old in _known(stores, shard)[:-RUNS_MAX]:
        stores.blob.delete(old)


def _known(stores: Stores, shard: str) -> list[str]:
    """Return the keys of the records, oldest first."""
    return retry(lambda: [info.key for info in stores.blob.list(keys.backfill_prefix(shard))])
