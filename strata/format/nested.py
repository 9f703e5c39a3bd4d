"""Lists, maps and structs taken apart: the values inside them, without what a null parent hides.

Everything here sees an array as if it were laid out anew: slices, and values that lie under a null
list or struct, leave no trace.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from strata.format.physical import offsets, valid_mask
from strata.format.words import Ints


def is_listed(kind: pa.DataType) -> bool:
    """Return whether values of a type are sequences of others: lists and maps."""
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind))


def items(array: pa.Array) -> tuple[Ints, pa.Array]:
    """Return how many values each list or map holds, 0 if it is null, and those values in order.

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


def leaves(array: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    """Yield the Parquet columns that an array becomes: path, and values without nested ones."""
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
