"""Remember the pairs of part and filter that were judged since a shard's evidence began.

They are one blob beside the verdicts, named by the state: a row for each pair, as digests. A
repeated pair is no new evidence: a hundred nights of one filter over eighteen parts are evidence of
eighteen pairs.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from io import BytesIO
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import Corrupt
from strata.expr.nodes import Expr
from strata.rollout.evidence import Seen
from strata.store import keys
from strata.store.interface import Blob
from strata.store.retry import retry

SEEN_MAX: Final = 1_000_000  # pairs; further ones are not stored, and count as repeats
_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.uint64(), nullable=False) for name in ("filter", "part")]
)
Pairs = npt.NDArray[np.uint64]  # a row a pair: digest of the filter, digest of the part's key


def pairs_of(judged: Sequence[tuple[Expr, str]]) -> Pairs:
    """Return filters and part keys as digests, in the given order.

    A filter counts by its analysed form: its name and its spelling do not matter.
    """
    filters: dict[int, int] = {}  # by identity, since a filter is judged on many parts
    for expr, _ in judged:
        if id(expr) not in filters:
            filters[id(expr)] = _digest(repr(expr))
    found = [(filters[id(expr)], _digest(part)) for expr, part in judged]
    return np.array(found, np.uint64).reshape(-1, 2)


def known_pairs(blob: Blob, before: str | None, pairs: Pairs) -> npt.NDArray[np.bool_]:
    """Return which pairs a blob of the evidence has; none if it is lost or damaged.

    Cost: reads the blob.
    """
    old = None if before is None else _load(blob, before)
    if old is None or not len(old) or not len(pairs):
        return np.zeros(len(pairs), np.bool_)
    both = np.dtype([("filter", np.uint64), ("part", np.uint64)])
    there, asked = (np.ascontiguousarray(some).view(both).ravel() for some in (old, pairs))
    found: npt.NDArray[np.bool_] = np.isin(asked, there)
    return found


def with_pairs(
    blob: Blob, shard: str, before: str | None, pairs: Pairs, *, anew: bool
) -> tuple[Seen, npt.NDArray[np.bool_]]:
    """Store the known pairs together with these; return the blob, and which pairs are new.

    `before`: the current blob of the evidence. `anew`: discard it, because other code decided.
    Shape: the second result has one value a pair. A lost or damaged blob counts as empty.
    Cost: 16 bytes a pair, read and written once.
    """
    old = _empty() if before is None or anew else _load(blob, before)
    whole = old is not None
    old = _empty() if old is None else old
    both, first = np.unique(np.concatenate([old, pairs]), axis=0, return_index=True)
    fresh = np.zeros(len(pairs), np.bool_)
    fresh[first[first >= len(old)] - len(old)] = True
    if len(both) > SEEN_MAX:
        both, fresh = old, np.zeros(len(pairs), np.bool_)
    sink = BytesIO()
    table = pa.table([pa.array(both[:, 0]), pa.array(both[:, 1])], schema=_SCHEMA)
    pq.write_table(table, sink, compression="zstd")
    key = keys.seen_key(shard, keys.content_hash(sink.getvalue()))
    retry(partial(blob.set, key, sink.getvalue()))
    parts, filters = (len(np.unique(both[:, column])) for column in (1, 0))
    return Seen(key, parts, filters, before, whole), fresh


def _load(blob: Blob, key: str) -> Pairs | None:
    """Return the pairs of a blob; None if it is gone or damaged."""
    data = retry(partial(blob.get, key))
    if data is None or not keys.names_content(key, data):
        return None
    try:
        table = pq.read_table(BytesIO(data), schema=_SCHEMA)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt("what was audited cannot be read", key=key, reason=str(error)) from error
    return np.stack([table[name].to_numpy() for name in _SCHEMA.names], axis=1)


def _empty() -> Pairs:
    return np.zeros((0, 2), np.uint64)


def _digest(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
