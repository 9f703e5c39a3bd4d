"""Booleans, integers, floats and numerics."""

import math
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.types import from_json
from strata.format.types.row import Encoding, Form, Layout, TypeView, scalar
from strata.format.types.shown import as_array, as_unsigned
from strata.format.values.nested import structured
from strata.format.values.packed import (
    UNBOUNDED_NUMERIC,
    from_text,
    numeric,
    pack,
    to_text,
    unpack,
)
from strata.format.values.physical import valid_mask
from strata.model.types import ColumnType, Field, Kind

UINT64: Final = pa.decimal128(20, 0)  # the view of unsigned 64-bit integers
NUMBER: Final = pa.struct([("approx", pa.float64()), ("text", pa.string())])
_ORDER: Final = "numeric"
_NUMERIC_ORDER: Final = (
    "numeric; without a precision by the nearest float64, NaN last, then by packed bytes"
)


def canonical_floats(array: pa.Array) -> pa.Array:
    """Return a float array with one zero and one NaN; nulls stay null."""
    values = pc.add(array, pa.scalar(0.0, array.type))
    nan = pa.scalar(math.nan, array.type)
    return pc.if_else(pc.is_nan(values), nan, values)


def _layout(form: Form, dtype: str) -> Layout:
    return Layout(form, np.dtype(dtype))


def _signed(kind: Kind, arrow: pa.DataType, spark: str, number: int) -> Encoding:
    layout = _layout(Form.VARINT, f"<i{arrow.bit_width // 8}")
    datum = str(kind), number
    return scalar(
        kind, arrow, spark, datum, layout=layout, order=_ORDER, json=from_json.integer, quoted=False
    )


def _unsigned(kind: Kind, seen: pa.DataType, spark: str, datum: tuple[str, int]) -> Encoding:
    """Return the row of an unsigned integer type: its view is the next wider signed type."""
    width = 64 if seen == UINT64 else seen.bit_width // 2
    layout = _layout(Form.VARINT, f"<u{width // 8}")
    arrow = pa.from_numpy_dtype(layout.width)

    def store(array: pa.Array, column_type: ColumnType) -> pa.Array:
        return as_array(as_unsigned(array, arrow, column_type), array)

    json = from_json.unsigned64 if width == 64 else from_json.integer
    view = TypeView(seen, lambda array: array.cast(seen), store)
    return scalar(
        kind, arrow, spark, datum, layout=layout, order=_ORDER, json=json, quoted=False, view=view
    )


def _float(kind: Kind, arrow: pa.DataType, spark: str, number: int) -> Encoding:
    return scalar(
        kind,
        arrow,
        spark,
        (str(kind), number),
        layout=_layout(Form.FIXED, f"<u{arrow.bit_width // 8}"),
        order="numeric, NaN last",
        json=from_json.floating,
        quoted=False,
        spelling=lambda array, _: canonical_floats(array),
    )


def _show_numeric(array: pa.StructArray) -> pa.StructArray:
    """Return packed numbers as their view, with texts."""
    approx, packed = array.flatten()
    return structured(NUMBER, [approx, to_text(packed)], array)


def _store_numeric(array: pa.StructArray, _: ColumnType) -> pa.StructArray:
    """Return packed numbers made from the texts; approximations are computed again."""
    text = array.flatten()[1]
    if text.null_count != array.null_count:
        raise InvalidRequest("a numeric has no text", cure='as in {"approx": 1.5, "text": "1.5"}')
    return numeric(from_text(text))


ROWS: Final = (
    scalar(
        Kind.BOOL,
        pa.bool_(),
        "boolean",
        ("other", 1),
        layout=Layout(Form.BOOL),
        order="false, true",
        json=from_json.boolean,
        quoted=False,
    ),
    _signed(Kind.INT16, pa.int16(), "smallint", 2),
    _signed(Kind.INT32, pa.int32(), "int", 3),
    _signed(Kind.INT64, pa.int64(), "bigint", 4),
    _unsigned(Kind.UINT8, pa.int16(), "smallint", ("uint8", 27)),
    _unsigned(Kind.UINT16, pa.int32(), "int", ("uint16", 28)),
    _unsigned(Kind.UINT32, pa.int64(), "bigint", ("uint32", 26)),
    _unsigned(Kind.UINT64, UINT64, "decimal(20,0)", ("uint64", 29)),
    _unsigned(Kind.OID, pa.int64(), "bigint", ("uint32", 26)),
    _unsigned(Kind.MZ_TIMESTAMP, UINT64, "decimal(20,0)", ("mz_timestamp", 30)),
    _float(Kind.FLOAT32, pa.float32(), "float", 5),
    _float(Kind.FLOAT64, pa.float64(), "double", 6),
    Encoding(
        kind=Kind.NUMERIC,
        arrow=lambda t: pa.decimal128(t.precision, t.scale),
        spark=lambda t: f"decimal({t.precision},{t.scale})",
        datum="numeric",
        number=24,
        layout=Layout(Form.DECIMAL, np.dtype("<u8, <u8")),
        order=_NUMERIC_ORDER,
        json=lambda value, _: from_json.decimal(value),
        examples=("numeric(10,2)", "numeric"),
    ),
)
UNBOUNDED: Final = scalar(  # a numeric without a precision
    Kind.NUMERIC,
    UNBOUNDED_NUMERIC,
    "struct<approx: double, text: string>",
    ("numeric", 24),
    layout=Layout(Form.NUMERIC),
    order=_NUMERIC_ORDER,
    json=lambda value: {"approx": None, "text": str(from_json.decimal(value))},
    view=TypeView(NUMBER, _show_numeric, _store_numeric),
    spelling=lambda array, _: numeric(pack(unpack(array.flatten()[1]), valid_mask(array))),
    parts=lambda _: (Field("approx", ColumnType(Kind.FLOAT64)),),  # packed bytes have no order
)
