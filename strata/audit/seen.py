"""Remember the pairs of part and filter that were judged since a shard's evidence began.

They are one blob beside the verdicts, named by the state: a row for each pair, as digests. A
repeated pair is no new evidence: a hundred nights of one filter over eighteen parts are evidence of
eighteen pairs. So are a hundred filters that differ in their constants only: `a > 1` and `a > 2`
ask the same bound and the same rule, and readers write as many of them as they like.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from io import BytesIO
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import Corrupt
from strata.expr.nodes import Call, Expr, Literal
from strata.kernels.arrays import Bools, Words
from strata.rollout.evidence import Seen
from strata.store import keys
from strata.store.interface import Blob
from strata.store.retry import retry

SEEN_MAX: Final = 1_000_000  # pairs; further ones are not stored, and count as repeats
_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.uint64(), nullable=False) for name in ("shape", "part")]
)
# Their constants name a place
_PLACES: Final = ("get_json_object", "variant_get", "get_struct_field", "get_array_struct_fields")
Pairs = npt.NDArray[np.uint64]  # a row a pair: digest of the shape, digest of the part's key


def pairs_of(judged: Sequence[tuple[Expr, str]]) -> Pairs:
    """Return filters and part keys as digests, in the given order.

    A filter counts by the shape of its analysed form: see `filter_shape`.
    """
    filters: dict[int, int] = {}  # by identity, since a filter is judged on many parts
    for expr, _ in judged:
        if id(expr) not in filters:
            filters[id(expr)] = _digest(filter_shape(expr))
    found = [(filters[id(expr)], _digest(part)) for expr, part in judged]
    return np.array(found, np.uint64).reshape(-1, 2)


def filter_shape(expr: Expr) -> str:
    """Return what remains of a filter without the values of its constants.

    Conjuncts, alternatives and items of a list count once for each shape, in any order. A constant
    that names a place, such as a JSON path, stays: another place has other statistics.

    >>> one, two = (Call("in", (Literal(1, "long"),) * n, "boolean") for n in (2, 3))
    >>> filter_shape(one), filter_shape(Call("or", (one, two), "boolean"))
    ('in(a long, a long) boolean', 'in(a long, a long) boolean')
    """
    match expr:
        case Literal(value, kind):
            return f"{'no' if value is None else 'a'} {kind}"
        case Call("and" | "or" as function):
            shapes = sorted({filter_shape(one) for one in _sides(expr, function)})
            return shapes[0] if len(shapes) == 1 else f"{function}({', '.join(shapes)})"
        case Call(function, args, kind, options):
            shapes = [_argument(function, one) for one in args]
            if function == "in":
                shapes[1:] = sorted(set(shapes[1:]))
            return f"{function}({', '.join(shapes)}) {kind}{options or ''}"
        case _:
            return repr(expr)


def _sides(expr: Expr, function: str) -> Iterator[Expr]:
    """Yield the conjuncts or alternatives of an expression, also of those inside of them."""
    if isinstance(expr, Call) and expr.function == function:
        for one in expr.args:
            yield from _sides(one, function)
    else:
        yield expr


def _argument(function: str, arg: Expr) -> str:
    return repr(arg) if function in _PLACES and isinstance(arg, Literal) else filter_shape(arg)


def judged_parts(blob: Blob, before: str | None, expr: Expr) -> Words:
    """Return the parts that a blob of the evidence has with a filter; none if it is lost.

    Shape: their digests in order. Cost: reads the blob.
    """
    old = None if before is None else _load(blob, before)
    if old is None:
        return np.zeros(0, np.uint64)
    found: Words = np.unique(old[old[:, 0] == _digest(filter_shape(expr)), 1])
    return found


def are_judged(part_keys: Sequence[str], judged: Words) -> Bools:
    """Return which parts are among `judged_parts`. Shape: one element a key."""
    if not len(judged):
        return np.zeros(len(part_keys), np.bool_)
    asked = np.array([_digest(key) for key in part_keys], np.uint64)
    at = np.minimum(np.searchsorted(judged, asked), len(judged) - 1)
    found: Bools = judged[at] == asked
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
    """Return the pairs of a blob; None if it is gone, damaged, or of another version's filters."""
    data = retry(partial(blob.get, key))
    if data is None or not keys.names_content(key, data):
        return None
    try:
        table = pq.read_table(BytesIO(data))
    except (pa.ArrowException, OSError) as error:
        raise Corrupt("what was audited cannot be read", key=key, reason=str(error)) from error
    if table.column_names != _SCHEMA.names:
        return None
    return np.stack([table[name].to_numpy() for name in _SCHEMA.names], axis=1)


def _empty() -> Pairs:
    return np.zeros((0, 2), np.uint64)


def _digest(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
