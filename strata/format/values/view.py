"""Convert stored arrays to types that Spark and people know, and back.

Readers see most types in their stored form. The other types have a stored form that sorts, or that
no engine has a type for; readers see them as `encodings.spark_type`. Unsigned integers appear as
the next wider signed type; times, uuids and numbers without a precision as text; intervals and
access rights as structs. The same holds for each leaf of lists, maps, records and ranges.

    from_view(to_view(a, t), t) == a            for canonical a
    a <= b implies to_view(a) <= to_view(b)     for scalar types: bounds may be shown as views

`from_view` checks form, not spelling: `strata.format.values.canonical` follows it on the way in.
"""

from collections.abc import Callable

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.encodings import arrow_type, encoding
from strata.format.types.row import TypeView
from strata.format.values.nested import items, listed, structured
from strata.model.types import ColumnType

Leaf = Callable[[TypeView, pa.Array, ColumnType], pa.Array]


def has_view(column_type: ColumnType) -> bool:
    """Return whether readers see values in a form other than the stored one."""
    return bool(view_type(column_type) != arrow_type(column_type))


def view_type(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type of the values that readers see."""
    row = encoding(column_type)
    if row.view:
        return row.view.type
    if parts := row.parts(column_type):
        return pa.struct([(part.name, view_type(part.type)) for part in parts])
    stored = row.arrow(column_type)
    if pa.types.is_list(stored):
        return pa.list_(pa.field("item", view_type(column_type.inner)))
    if pa.types.is_map(stored):
        return pa.map_(pa.string(), view_type(column_type.inner))
    return stored


def to_view(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return stored values in the form that readers see.

    Shape: `arrow_type(column_type)` in, `view_type(column_type)` out.
    """
    return _each_leaf(array, column_type, _show, view_type)


def from_view(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return values that readers see in their stored form; nulls stay null.

    Shape: `view_type(column_type)` in, or what casts to it without loss; `arrow_type` out.
    Raises: InvalidRequest naming the value that is not of the type, and the cure.
    """
    wanted = view_type(column_type)
    if array.type != wanted:
        try:
            array = array.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(
                "values are not of the column's type",
                type=str(column_type),
                given=str(array.type),
                cause=str(error).splitlines()[0],
            ) from error
    return _each_leaf(array, column_type, _store, arrow_type)


def _show(view: TypeView, array: pa.Array, _: ColumnType) -> pa.Array:
    return view.show(array)


def _store(view: TypeView, array: pa.Array, column_type: ColumnType) -> pa.Array:
    return view.store(array, column_type)


def _each_leaf(
    array: pa.Array, column_type: ColumnType, leaf: Leaf, typed: Callable[[ColumnType], pa.DataType]
) -> pa.Array:
    """Return an array with `leaf` applied to leaves with a view, and its type from `typed`."""
    if not has_view(column_type):
        return array
    row, wanted = encoding(column_type), typed(column_type)
    if row.view:
        return leaf(row.view, array, column_type)
    if parts := row.parts(column_type):
        pairs = zip(array.flatten(), parts, strict=True)
        changed = [_each_leaf(child, part.type, leaf, typed) for child, part in pairs]
        return structured(wanted, changed, array)
    lengths, inner = items(array)
    if pa.types.is_list(array.type):
        values = _each_leaf(inner, column_type.inner, leaf, typed)
    else:
        keys, held = inner.flatten()
        seen = [keys, _each_leaf(held, column_type.inner, leaf, typed)]
        values = pa.StructArray.from_arrays(seen, ["key", "value"])
    return listed(wanted, lengths, values, array)
