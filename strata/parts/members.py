"""Store the bloom filters of a part, and name them in its statistics."""

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from strata.stats.members import PlaceValues, member_columns
from strata.store import keys
from strata.store.interface import Blob
from strata.store.retry import retry


def with_members(
    blob: Blob, prefix: str, stats: pa.RecordBatch, found: Sequence[PlaceValues]
) -> pa.RecordBatch:
    """Return the statistics of a part with what is known of its values; stores bloom filters.

    `prefix` is that of the part's key: filters lie beside it, in the same generation.
    """
    named: dict[str, str] = {}
    for one in found:
        if one.bloom is not None:
            key = keys.bloom_key_of(prefix, keys.content_hash(one.bloom))
            retry(partial(blob.set, key, one.bloom))
            named[one.place.name] = key
    for name, column in member_columns(found, named).items():
        if name in stats.schema.names:
            stats = stats.drop_columns([name])
        stats = stats.append_column(name, column)
    return stats
