"""Take lists, maps and structs apart, and put them together again.

The results are the values inside them, without values under a null parent. All functions treat an
array as if it were laid out anew: slices, and values under a null list or struct, leave no trace.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.values.physical import offsets, valid_mask
from strata.kernels.arrays import Ints

MAX_ITEMS: Final = 2**31 - 1  # Arrow's list offsets end there


def is_listed(kind: pa.DataType) -> bool:
    """Return whether values of a type are sequences of others: lists and maps."""
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind))


def items(array: pa.Array) -> tuple[Ints, pa.Array]:
    """Return the length of each list or map, 0 if it is null, and their values in order.

    Shape: the entries of maps are structs of key and value.
    """
    ends = offsets(array)
    lengths = np.diff(ends)
    valid = valid_mask(array)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    total = int(lengths.sum())
    inner = array.values
    if pa.types.is_map(array.type):
        inner = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    if total == ends[-1] - ends[0]:
        return lengths, inner.slice(int(ends[0]), total)
    first = np.cumsum(lengths) - lengths
    at = np.arange(total) + np.repeat(ends[:-1] - first, lengths)
    return lengths, inner.take(pa.array(at))


def listed(kind: pa.DataType, lengths: Ints, inner: pa.Array, like: pa.Array) -> pa.Array:
    """Return the list or map array that `items` takes apart; null where `like` is null.

    Shape: as `items` gives them; a map's `inner` are structs of key and value.
    Raises: InvalidRequest for more values than one array can hold.
    """
    if len(inner) > MAX_ITEMS:
        raise InvalidRequest(
            "too many values inside one batch of lists", values=len(inner), cure="smaller batches"
        )
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    mask = nulls(like)
    if pa.types.is_map(kind):
        keys, values = inner.flatten()
        return pa.MapArray.from_arrays(ends, keys, values, type=kind, mask=mask)
    return pa.ListArray.from_arrays(ends, inner, type=kind, mask=mask)


def structured(kind: pa.DataType, children: Sequence[pa.Array], like: pa.Array) -> pa.Array:
    """Return the struct array of these children; null where `like` is null."""
    return pa.StructArray.from_arrays(list(children), fields=list(kind), mask=nulls(like))


def purged(array: pa.Array) -> pa.Array:
    """Return the same values with nothing hidden under nulls, only nulls and empty values.

    Builders leave zeros under a null struct, so that equal arrays differ in memory.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        return structured(kind, [purged(child) for child in array.flatten()], array)
    if is_listed(kind):
        lengths, inner = items(array)
        return listed(kind, lengths, purged(inner), array)
    return array


def nulls(array: pa.Array) -> pa.Array | None:
    """Return where an array is null, or None if it has no nulls."""
    return array.is_null() if array.null_count else None


def leaves(array: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    """Yield the path and the flat values of each Parquet column that an array becomes."""
    kind = array.type
    if pa.types.is_struct(kind):
        for i, child in enumerate(array.flatten()):
            yield from leaves(child, f"{path}.{kind.field(i).name}")
    elif pa.types.is_map(kind):
        for name, child in zip(("key", "value"), items(array)[1].flatten(), strict=True):
            yield from leaves(child, f"{path}.key_value.{name}")
    elif pa.types.is_list(kind):
        yield from leaves(items(array)[1], f"{path}.list.element")
    else:
        yield path, array
