"""Converts nested Arrow columns (Parquet, including Spark's own output) to typed columns.

It works like `strata.ingest.values.nested` for objects: the leaves are converted as separate
columns.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.encodings import DIMENSIONS, arrow_type
from strata.ingest.values.column import NONE_BAD, Cast, with_nulls
from strata.ingest.values.nested import FLAGS, RANGE, cut_into_lists, joined, mapped, structure
from strata.ingest.values.spelt import spelt_otherwise
from strata.model.types import ColumnType, Kind

Arrays = Callable[[pa.Array, ColumnType], Cast]
Counts = npt.NDArray[np.int64]
BOOL: Final = ColumnType(Kind.BOOL)
LISTS: Final = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def nested_arrow(values: pa.Array, target: ColumnType, convert: Arrays) -> Cast:
    """Return a nested Arrow column; `convert` makes columns of the leaves.

    A list is an array of one dimension. Missing fields of a struct are null, undeclared ones are
    ignored.
    Raises: TypeError when the column's family is not the type's, and when a struct has a missing
    field in other capital letters or a field twice.
    """
    builder = _BUILDERS[target.kind]
    cast = builder(values, target, convert)
    if len(cast.bad):  # once more without them: no trace of a bad value may stay in the leaves
        cast = Cast(builder(with_nulls(values, cast.bad), target, convert).values, cast.bad)
    return cast


def _items(values: pa.Array) -> tuple[pa.Array, Counts]:
    """Return the items of lists, and how many each has."""
    if not any(is_kind(values.type) for is_kind in LISTS):
        raise TypeError(values.type)
    return values.flatten(), _lengths(values)


def _lengths(values: pa.Array) -> Counts:
    found: Counts = pc.list_value_length(values).fill_null(0).cast(pa.int64()).to_numpy()
    return found


def _list(values: pa.Array, target: ColumnType, convert: Arrays) -> Cast:
    assert target.element is not None
    items, counts = _items(values)
    return cut_into_lists(convert(items, target.element), counts, values.is_null(), target)


def _map(values: pa.Array, target: ColumnType, convert: Arrays) -> Cast:
    assert target.element is not None
    if not pa.types.is_map(values.type):
        raise TypeError(values.type)
    edges, nulls = np.array(values.offsets, np.int64), values.is_null()
    counts = np.where(nulls.to_numpy(zero_copy_only=False), 0, np.diff(edges))
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    taken = pa.array(np.repeat(edges[:-1], counts) + within)
    keys = convert(values.keys.take(taken), ColumnType(Kind.STRING))
    items = convert(values.items.take(taken), target.element)
    return mapped(keys, items, counts, nulls, target)


def _array(values: pa.Array, target: ColumnType, convert: Arrays) -> Cast:
    """Return arrays from structs of dims and vals, or from lists, which have one dimension."""
    assert target.element is not None
    inner, nulls = ColumnType(Kind.LIST, element=target.element), values.is_null()
    wrong = NONE_BAD
    if pa.types.is_struct(values.type):
        dims = _child(values, "dims").cast(DIMENSIONS)
        cast = _list(_child(values, "vals"), inner, convert)
        pairs = zip(dims.to_pylist(), _lengths(cast.values).tolist(), strict=True)
        wrong = np.array([n for n, (d, length) in enumerate(pairs) if not _fits(d, length)], int)
    else:
        cast = _list(values, inner, convert)
        dims = _one_dimension(_lengths(cast.values), 0 if target.kind is Kind.INT2VECTOR else 1)
    whole = structure([_visible(dims, nulls), cast.values], nulls, arrow_type(target))
    return Cast(whole, cast.bad).also(wrong)


def _one_dimension(lengths: Counts, first: int) -> pa.Array:
    there = lengths[lengths > 0]
    shapes = pa.StructArray.from_arrays(
        [pa.array(np.full(len(there), first, np.int64)), pa.array(there)],
        fields=list(DIMENSIONS.value_type),
    )
    edges = np.r_[0, np.cumsum(lengths > 0)]
    return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), shapes, type=DIMENSIONS)


def _visible(children: pa.Array, nulls: pa.Array) -> pa.Array:
    """Return children; children of null parents become null."""
    return with_nulls(children, np.flatnonzero(nulls.to_numpy(zero_copy_only=False)))


def _fits(dims: Sequence[dict[str, int]] | None, length: int) -> bool:
    if not dims:
        return length == 0
    sizes = [d["length"] for d in dims]
    return all(sizes) and all(n > 0 for n in sizes) and math.prod(sizes) == length


def _child(values: pa.Array, name: str) -> pa.Array:
    """Return a field of structs, null where they are; nulls if there is none of that name."""
    if not pa.types.is_struct(values.type):
        raise TypeError(values.type)
    index = values.type.get_field_index(name)
    names = [field.name for field in values.type]
    if index < 0 and (name in names or spelt_otherwise(names, [name])):
        raise TypeError(values.type)
    return pa.nulls(len(values)) if index < 0 else values.flatten()[index]


def _record(values: pa.Array, target: ColumnType, convert: Arrays) -> Cast:
    kind = arrow_type(target)
    casts = [convert(_child(values, field.name), field.type) for field in target.fields]
    if not casts:
        _child(values, "")
        casts = [Cast(pa.nulls(len(values), kind.field(0).type), NONE_BAD)]
    return joined(casts, values.is_null(), kind)


def _range(values: pa.Array, target: ColumnType, convert: Arrays) -> Cast:
    assert target.element is not None
    if not pa.types.is_struct(values.type) or {f.name for f in values.type} - RANGE:
        raise TypeError(values.type)
    nulls = values.is_null()
    ends = [convert(_child(values, name), target.element) for name in ("lower", "upper")]
    flags = []
    for name in FLAGS:
        flag = convert(_child(values, name), BOOL)
        default = flag.values.fill_null(name == "lower_inclusive")
        flags.append(Cast(_visible(default, nulls), flag.bad))
    return joined([*ends, *flags], nulls, arrow_type(target))


_BUILDERS: Final[dict[Kind, Callable[[pa.Array, ColumnType, Arrays], Cast]]] = {
    Kind.LIST: _list,
    Kind.MAP: _map,
    Kind.ARRAY: _array,
    Kind.INT2VECTOR: _array,
    Kind.RECORD: _record,
    Kind.RANGE: _range,
}
