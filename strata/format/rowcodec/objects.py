"""Arrays of the physical values that `scalar` reads, one Python object each."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.format.encodings import BOOL, DIMENSIONS, arrow_type
from strata.format.rowcodec.fields import layout_of
from strata.format.types.row import Form
from strata.format.values import packed
from strata.format.values.packed import NUMERIC_BYTES
from strata.format.values.physical import pack_mask
from strata.model.types import ColumnType

Values = Sequence[Any]


def from_objects(values: Values, column_type: ColumnType) -> pa.Array:
    """Return an array of a declared type; None is null, with only nulls or nothing under it."""
    array: pa.Array = _BUILDERS[layout_of(column_type).form](values, column_type)
    return array


def _mask(values: Values) -> pa.Buffer | None:
    return pack_mask(np.array([value is not None for value in values], np.bool_))


def _numbers(values: Values, column_type: ColumnType) -> pa.Array:
    dtype = layout_of(column_type).width
    if dtype.names:
        return _blocks(values, column_type)
    data = np.array([value or 0 for value in values], dtype)
    buffers = [_mask(values), pa.py_buffer(data)]
    return pa.Array.from_buffers(arrow_type(column_type), len(values), buffers)


def _bools(values: Values, _: ColumnType) -> pa.Array:
    return pa.array([None if value is None else bool(value) for value in values], pa.bool_())


def _texts(values: Values, column_type: ColumnType) -> pa.Array:
    array = pa.array(values, pa.binary())
    return array.cast(pa.string()) if layout_of(column_type).form is Form.TEXT else array


def _blocks(values: Values, column_type: ColumnType) -> pa.Array:
    return pa.array(values, arrow_type(column_type))


def _numeric(values: Values, _: ColumnType) -> pa.Array:
    return packed.numeric(pa.array(values, pa.binary(NUMERIC_BYTES)))


def _decimal(values: Values, column_type: ColumnType) -> pa.Array:
    raw = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
    buffers = [_mask(values), pa.py_buffer(raw)]
    return pa.Array.from_buffers(arrow_type(column_type), len(values), buffers)


def _lists(values: Values, kind: pa.DataType, child: Callable[[Values], pa.Array]) -> pa.Array:
    """Return lists or maps; `child` makes an array of all their elements."""
    ends = np.cumsum([0, *(len(value or ()) for value in values)]).astype(np.int32)
    elements = child([item for value in values if value is not None for item in value])
    buffers = [_mask(values), pa.py_buffer(ends)]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[elements])


def _list(values: Values, column_type: ColumnType) -> pa.Array:
    inner = column_type.inner
    return _lists(values, arrow_type(column_type), lambda items: from_objects(items, inner))


def _struct(values: Values, kind: pa.DataType, children: Sequence[pa.Array]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [_mask(values)], children=list(children))


def _column(values: Values, position: int) -> list[Any]:
    return [None if value is None else value[position] for value in values]


def _record(values: Values, column_type: ColumnType) -> pa.Array:
    children = [
        from_objects(_column(values, i), field.type) for i, field in enumerate(column_type.fields)
    ]
    nothing = [pa.nulls(len(values), pa.bool_())]
    return _struct(values, arrow_type(column_type), children or nothing)


def _map(values: Values, column_type: ColumnType) -> pa.Array:
    kind = arrow_type(column_type)

    def entries(pairs: Values) -> pa.Array:
        keys = pa.array([key for key, _ in pairs], pa.binary()).cast(pa.string())
        items = from_objects([item for _, item in pairs], column_type.inner)
        return _struct(pairs, pa.struct([kind.key_field, kind.item_field]), [keys, items])

    return _lists(values, kind, entries)


def _array(values: Values, column_type: ColumnType) -> pa.Array:
    kind, inner = arrow_type(column_type), column_type.inner

    def dims(pairs: Values) -> pa.Array:
        sides = [pa.array([pair[i] for pair in pairs], pa.int64()) for i in range(2)]
        return _struct(pairs, DIMENSIONS.value_type, sides)

    children = [
        _lists(_column(values, 0), DIMENSIONS, dims),
        _lists(
            _column(values, 1), kind.field("vals").type, lambda items: from_objects(items, inner)
        ),
    ]
    return _struct(values, kind, children)


def _range(values: Values, column_type: ColumnType) -> pa.Array:
    inner = column_type.inner
    children = [from_objects(_column(values, i), inner if i < 2 else BOOL) for i in range(5)]
    return _struct(values, arrow_type(column_type), children)


_BUILDERS: Final[dict[Form, Callable[[Values, ColumnType], pa.Array]]] = {
    Form.BOOL: _bools,
    Form.VARINT: _numbers,
    Form.FIXED: _numbers,
    Form.TEXT: _texts,
    Form.BYTES: _texts,
    Form.BLOCK: _blocks,
    Form.DATE: _numbers,
    Form.TIMESTAMP: _numbers,
    Form.NUMBERS: _numbers,
    Form.DECIMAL: _decimal,
    Form.NUMERIC: _numeric,
    Form.LIST: _list,
    Form.RECORD: _record,
    Form.MAP: _map,
    Form.ARRAY: _array,
    Form.RANGE: _range,
}
