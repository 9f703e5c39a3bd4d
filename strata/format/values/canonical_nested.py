"""One spelling for maps, arrays and ranges whose parts are already canonical.

Maps have their entries in order of their keys (UTF-8 bytes), each key once. Arrays have a value
for each cell of their dimensions; an array without cells has no dimensions. Ranges are spelt as
PostgreSQL spells them:

    an unbounded end is not in the range
    an empty range has no ends and contains neither
    ranges of integers and dates contain the lower end and not the upper: (1, 3] is [2, 4)
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.values.nested import items, structured
from strata.format.values.packed import NUMERIC_BYTES, order_bytes
from strata.format.values.physical import present, true
from strata.format.values.sortable import as_integers, sortable_bytes
from strata.kernels.arrays import Bools, Ints
from strata.model.types import ColumnType, Kind

DISCRETE: Final = frozenset(
    {Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64,
     Kind.OID, Kind.MZ_TIMESTAMP, Kind.DATE}
)  # fmt: skip


def sorted_entries(lengths: Ints, entries: pa.StructArray, column_type: ColumnType) -> pa.Array:
    """Return the entries of maps, sorted by key within each map.

    Raises: InvalidRequest for a repeated key, or a null key.
    """
    keys = entries.flatten()[0]
    if keys.null_count:
        raise InvalidRequest("a key of a map is null", type=str(column_type), cure="name it")
    owner = np.repeat(np.arange(len(lengths)), lengths)
    if (_disorder(owner, keys) >= 0).any():
        rows = pa.record_batch([pa.array(owner), keys], ["owner", "key"])
        order = [("owner", "ascending"), ("key", "ascending")]
        entries = entries.take(pc.sort_indices(rows, sort_keys=order))
        keys = entries.flatten()[0]
        repeated = _disorder(owner, keys) == 0
        if repeated.any():
            key = keys[int(np.argmax(repeated))].as_py()
            raise InvalidRequest(
                "a map has a key twice", type=str(column_type), key=key, cure="keep one of them"
            )
    return entries


def check_array(array: pa.StructArray, column_type: ColumnType) -> pa.Array:
    """Return arrays; those without cells lose their dimensions.

    Raises: InvalidRequest if dimensions and values do not match.
    """
    dims, vals = array.flatten()
    _refuse(array, present(array) & ~(present(dims) & present(vals)), column_type, "give both")
    depth, inner = items(dims)
    lower, length = inner.flatten()
    if lower.null_count or length.null_count:
        raise InvalidRequest("a dimension is null", type=str(column_type), cure="give both parts")
    sizes, first = length.to_numpy(), np.cumsum(depth) - depth
    cells = (depth > 0).astype(np.int64)
    for level in range(int(depth.max(initial=0))):
        deep = depth > level
        cells[deep] *= sizes[first[deep] + level]
    negative = np.zeros(len(array), np.bool_)
    negative[np.repeat(np.arange(len(array)), depth)[sizes < 0]] = True
    fits = (cells == items(vals)[0]) & ~negative
    _refuse(array, ~fits, column_type, "as many values as the dimensions have cells")
    flat = (depth > 0) & (cells == 0)
    if not flat.any():
        return array
    kept = pc.if_else(pa.array(flat), pa.scalar([], dims.type), dims)
    return structured(array.type, [kept, vals], array)


def canonical_range(array: pa.StructArray, column_type: ColumnType) -> pa.Array:
    """Return ranges in canonical form.

    Raises: InvalidRequest for a lower end above the upper one, or for an end that cannot move
    because it is the type's largest value.
    """
    assert column_type.element is not None
    lower, upper, *flags = array.flatten()
    low_in, high_in, empty = (true(flag) for flag in flags)
    bounded = present(lower) & present(upper) & ~empty
    above, same = _compare(lower, upper)
    _refuse(array, bounded & above, column_type, "the lower end first")
    empty |= bounded & same & ~(low_in & high_in)
    if column_type.element.kind in DISCRETE:
        lower = _next(lower, ~low_in & ~empty & present(lower), column_type)
        upper = _next(upper, high_in & ~empty & present(upper), column_type)
        low_in, high_in = np.ones_like(low_in), np.zeros_like(high_in)
        empty |= bounded & _compare(lower, upper)[1]
    gone = pa.array(empty)
    lower = pc.if_else(gone, pa.scalar(None, lower.type), lower)
    upper = pc.if_else(gone, pa.scalar(None, upper.type), upper)
    low_in, high_in = low_in & present(lower), high_in & present(upper)
    valid = array.is_valid() if array.null_count else None
    children = [pa.array(flag) for flag in (low_in, high_in, empty)]
    if valid is not None:
        children = [pc.if_else(valid, child, None) for child in children]
    return structured(array.type, [lower, upper, *children], array)


def _disorder(owner: Ints, keys: pa.Array) -> npt.NDArray[np.int8]:
    """Compare each key with the one before it in its map; the result is -1 for first keys."""
    if len(keys) < 2:
        return np.full(len(keys), -1, np.int8)
    here, before = keys.slice(1), keys.slice(0, len(keys) - 1)
    found = np.where(true(pc.equal(here, before)), 0, np.where(true(pc.less(here, before)), 1, -1))
    signs = np.full(len(keys), -1, np.int8)
    signs[1:] = np.where(owner[1:] == owner[:-1], found, -1)
    return signs


def _compare(lower: pa.Array, upper: pa.Array) -> tuple[Bools, Bools]:
    """Return where the first is greater and where both are equal; null is neither."""
    if pa.types.is_struct(lower.type):  # numbers without a precision, which are exact here
        packed = [end.flatten()[1] for end in (lower, upper)]
        assert packed[0].type == pa.binary(NUMERIC_BYTES)
        a, b = (order_bytes(end) for end in packed)
    else:
        a, b = sortable_bytes(lower), sortable_bytes(upper)
    both = present(lower) & present(upper)
    return true(pc.greater(a, b)) & both, true(pc.equal(a, b)) & both


def _next(ends: pa.Array, moved: Bools, column_type: ColumnType) -> pa.Array:
    """Return integers or days, those `moved` one higher."""
    if not moved.any():
        return ends
    whole = as_integers(ends)
    values = whole.fill_null(0).to_numpy()
    _refuse(ends, moved & (values == np.iinfo(values.dtype).max), column_type, "leave the end out")
    raised = pa.array(values + moved.astype(values.dtype), mask=~present(ends))
    return raised.view(ends.type)


def _refuse(array: pa.Array, wrong: Bools, column_type: ColumnType, cure: str) -> None:
    if wrong.any():
        value = array[int(np.argmax(wrong))]
        raise InvalidRequest(
            "not a value of the type", type=str(column_type), value=str(value), cure=cure
        )
