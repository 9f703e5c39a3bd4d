"""Values as readers see them: stored arrays as types that Spark and people know, and back.

Most types are seen as they are stored. Others are stored in a form that sorts or that no engine
has a type for, and are seen as the types of `encodings.spark_type`: unsigned integers as the next
wider signed type, times, uuids and numbers without a precision as text, intervals and access
rights as structs. Inside lists, maps, records and ranges the same holds for each leaf.

    from_view(to_view(a, t), t) == a            for canonical a
    a <= b implies to_view(a) <= to_view(b)     for scalar types: bounds may be shown as views

`from_view` checks form, not spelling: `strata.format.values.canonical` follows it on the way in.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.encodings import DIMENSIONS, EMPTY_FIELD, arrow_type
from strata.format.values import view_scalar as scalar
from strata.format.values.nested import items, listed, structured
from strata.model.types import ColumnType, Kind

INT2: Final = ColumnType(Kind.INT16)
Leaf = Callable[[pa.Array, ColumnType], pa.Array]


def has_view(column_type: ColumnType) -> bool:
    """Return whether values are seen in another form than the one stored."""
    return bool(view_type(column_type) != arrow_type(column_type))


def view_type(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type in which values are seen."""
    kind, element = column_type.kind, column_type.element
    if kind is Kind.NUMERIC and column_type.precision is None:
        return scalar.NUMBER
    if kind in scalar.VIEWS:
        return scalar.VIEWS[kind].type
    if element is None and kind is not Kind.RECORD:
        return arrow_type(column_type)
    if kind is Kind.LIST:
        return pa.list_(pa.field("item", view_type(_element(column_type))))
    if kind in (Kind.ARRAY, Kind.INT2VECTOR):
        inner = pa.list_(pa.field("item", view_type(_element(column_type))))
        return pa.struct([("dims", DIMENSIONS), ("vals", inner)])
    if kind is Kind.MAP:
        return pa.map_(pa.string(), view_type(_element(column_type)))
    stored = arrow_type(column_type)
    if kind is Kind.RANGE:
        end = view_type(_element(column_type))
        return pa.struct([("lower", end), ("upper", end), *list(stored)[2:]])
    fields = [(field.name, view_type(field.type)) for field in column_type.fields]
    return pa.struct(fields or [(EMPTY_FIELD, pa.bool_())])


def to_view(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return stored values as they are seen.

    Shape: `arrow_type(column_type)` in, `view_type(column_type)` out.
    """
    if not has_view(column_type):
        return array
    return _each_leaf(array, column_type, _leaf_to_view, view_type)


def from_view(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return values as seen in the form in which they are stored; nulls stay null.

    Shape: `view_type(column_type)` in, or what casts to it without loss; `arrow_type` out.
    Raises: InvalidRequest naming the value that is none of the type, and the cure.
    """
    wanted = view_type(column_type)
    if array.type != wanted:
        try:
            array = array.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(
                "values are not of the column's type",
                type=str(column_type), given=str(array.type), cause=str(error).splitlines()[0],
            ) from error  # fmt: skip
    if not has_view(column_type):
        return array
    return _each_leaf(array, column_type, _leaf_from_view, arrow_type)


def _leaf_to_view(array: pa.Array, column_type: ColumnType) -> pa.Array:
    if column_type.kind is Kind.NUMERIC:
        return scalar.number_to_view(array)
    return scalar.VIEWS[column_type.kind].show(array)


def _leaf_from_view(array: pa.Array, column_type: ColumnType) -> pa.Array:
    if column_type.kind is Kind.NUMERIC:
        return scalar.number_from_view(array)
    return scalar.VIEWS[column_type.kind].store(array, column_type)


def _each_leaf(
    array: pa.Array, column_type: ColumnType, leaf: Leaf, typed: Callable[[ColumnType], pa.DataType]
) -> pa.Array:
    """Return an array with its leaves of other views changed by `leaf`, its type by `typed`."""
    if not has_view(column_type):
        return array
    kind, wanted = column_type.kind, typed(column_type)
    if kind in (Kind.LIST, Kind.MAP):
        lengths, inner = items(array)
        element = _element(column_type)
        if kind is Kind.LIST:
            values = _each_leaf(inner, element, leaf, typed)
        else:
            keys, held = inner.flatten()
            values = pa.StructArray.from_arrays(
                [keys, _each_leaf(held, element, leaf, typed)], ["key", "value"]
            )
        return listed(wanted, lengths, values, array)
    children = array.flatten() if pa.types.is_struct(array.type) else []
    if kind in (Kind.ARRAY, Kind.INT2VECTOR):
        listing = ColumnType(Kind.LIST, element=_element(column_type))
        changed = [children[0], _each_leaf(children[1], listing, leaf, typed)]
    elif kind is Kind.RANGE:
        ends = [_each_leaf(end, _element(column_type), leaf, typed) for end in children[:2]]
        changed = [*ends, *children[2:]]
    elif kind is Kind.RECORD:
        pairs = zip(children, column_type.fields, strict=True)
        changed = [_each_leaf(child, field.type, leaf, typed) for child, field in pairs]
    else:
        return leaf(array, column_type)
    return structured(wanted, changed, array)


def _element(column_type: ColumnType) -> ColumnType:
    return INT2 if column_type.element is None else column_type.element
