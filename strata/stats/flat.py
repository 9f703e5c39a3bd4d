"""Statistics of one sequence of values that are not JSON: nulls, NaNs, low and high, lengths.

Vectorised: one or two passes a column. Strings and bytes are cut at collection, so no statistic is
ever large. Bounds cover the values that are neither null nor NaN; a column without such values has
null bounds and counts that say so. Lists and maps get lengths here; `nested` looks inside.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.values.coded import is_coded, texts_of
from strata.format.values.physical import kernel_bytes, number_dtype, numbers, offsets, valid_mask
from strata.model.types import ColumnType
from strata.stats.bounds import S, cut_high, cut_low
from strata.stats.wire import scalar_type

COLLECT_BYTES: Final = 100  # longest bound of a string or bytes column at collection

Values: TypeAlias = pa.Array | pa.ChunkedArray


def collect_flat(
    values: Values, column_type: ColumnType, *, counted: bool = False
) -> pa.StructArray:
    """Return the statistics of one column, or of a place inside one.

    Shape: one row of `scalar_type(column_type, counted=counted)`.
    """
    shape = scalar_type(column_type, counted=counted)
    fields: dict[str, Any] = {"count": len(values), "nulls": int(values.null_count)}
    if shape.get_field_index("shortest") >= 0:
        fields["shortest"], fields["longest"] = _lengths(values)
    if shape.get_field_index("low") >= 0:
        if pa.types.is_floating(values.type):
            values, fields["nans"] = _without_nans(values)
        fields |= _bounds(*min_max(values, cut=True))
    return struct_row(shape, fields)


def as_entry_list(values: Values) -> Values:
    """Return maps as lists of entries, which Arrow can flatten; lists stay unchanged."""
    if not pa.types.is_map(values.type):
        return values
    entry = pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])
    return values.cast(pa.list_(entry))


def struct_row(shape: pa.StructType, fields: dict[str, Any]) -> pa.StructArray:
    """Return one row of `shape`; missing fields are null.

    A field is a plain value, or an Arrow scalar of exactly the field's type. Scalars carry dates
    and times that Python cannot express (years beyond 9999).
    """
    children = [_one(fields.get(field.name), field.type) for field in shape]
    return pa.StructArray.from_arrays(children, fields=list(shape))


def _one(value: Any, kind: pa.DataType) -> pa.Array:
    return pa.nulls(1, kind) if value is None else pa.array([value], kind)


def _without_nans(values: Values) -> tuple[Values, int]:
    plain = _plain(values)
    if plain is not None and not np.isnan(plain).any():
        return values, 0
    is_nan = pc.is_nan(values)
    nans = int(pc.sum(is_nan).as_py() or 0)
    return (values.filter(pc.invert(is_nan)) if nans else values), nans


def min_max(values: Values, *, cut: bool = False) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    """Return the least and the greatest value; None where there is none.

    `cut`: shorten long texts to as much as collection needs to cut them; this is no bound yet.
    """
    if is_coded(values.type):
        values = texts_of(values)
    kind = values.type
    if _is_cut(kind) and len(values):
        if isinstance(values, pa.Array):
            return _text_min_max(values, cut)
        if values.num_chunks == 1:
            return _text_min_max(values.chunk(0), cut)
    if (plain := _plain(values)) is not None:
        both = np.array([plain.min(), plain.max()])
        if both[0] == both[0]:  # a NaN is neither least nor greatest
            low, high = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(both)])
            return low, high
    if pa.types.is_duration(kind):  # Arrow orders these only as the numbers that store them
        values = values.cast(pa.int64())
    both = pc.min_max(values)
    low, high = both["min"], both["max"]
    if not (low.is_valid and high.is_valid):
        return None, None
    return (low, high) if low.type == kind else (low.cast(kind), high.cast(kind))


def _plain(values: Values) -> np.ndarray[Any, Any] | None:
    """Return numbers, dates or times without nulls as a NumPy array; None for anything else.

    NumPy finds minimum and maximum six times as fast as Arrow.
    """
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks != 1:
            return None
        values = values.chunk(0)
    dtype = number_dtype(values.type)
    if not len(values) or values.null_count or dtype is None:
        return None
    return numbers(values, dtype)


def _text_min_max(values: pa.Array, cut: bool) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    """Return the least and the greatest text, by UTF-8 byte, in a third of Arrow's time.

    Twin: `pc.min_max`.
    """
    from strata.kernels.text_bounds import extremes  # loads the compiler

    valid = valid_mask(values)
    data = kernel_bytes(values.buffers()[2])
    known = np.ones(0, np.bool_) if valid is None else valid
    low, high = extremes(offsets(values), data, known)
    if low < 0:
        return None, None
    at = _text_at if cut else pa.Array.__getitem__
    return at(values, int(low)), at(values, int(high))


def _text_at(values: pa.Array, row: int) -> pa.Scalar:
    """Return a text, or the beginning of a long one, enough to cut it; huge ones are not copied."""
    start, end = (int(at) for at in offsets(values.slice(row, 1)))
    if end - start <= 2 * COLLECT_BYTES:
        return values[row]
    first = values.buffers()[2].slice(start, 2 * COLLECT_BYTES).to_pybytes()
    text = pa.types.is_string(values.type)
    return pa.scalar(first.decode(errors="ignore") if text else first, values.type)


def warm() -> None:
    """Call the kernel once, so that it is compiled and cached."""
    min_max(pa.array(["a long text", None, "a long test"]))


def _lengths(values: Values) -> tuple[pa.Scalar, pa.Scalar]:
    both = pc.min_max(pc.list_value_length(as_entry_list(values)))
    return both["min"].cast(pa.int64()), both["max"].cast(pa.int64())


def _bounds(low: pa.Scalar | None, high: pa.Scalar | None) -> dict[str, Any]:
    if low is None or high is None:
        return {"low": None, "high": None, "low_exact": False, "high_exact": False}
    if pa.types.is_floating(low.type):
        low, high = low.as_py() + 0.0, high.as_py() + 0.0  # -0.0 becomes 0.0; they are equal
    elif _is_cut(low.type):
        return _cut(_beginning(low), _beginning(high))
    return {"low": low, "high": high, "low_exact": True, "high_exact": True}


def _beginning(end: pa.Scalar) -> Any:
    """Return a text, or the beginning of a long one, enough to cut it; huge ones are not copied."""
    raw = end.as_buffer()
    if raw.size <= 2 * COLLECT_BYTES:
        return end.as_py()
    first = raw.slice(0, 2 * COLLECT_BYTES).to_pybytes()
    return first.decode(errors="ignore") if pa.types.is_string(end.type) else first


def _is_cut(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _cut(low: S, high: S) -> dict[str, Any]:
    cut: dict[str, Any] = {
        "low": cut_low(low, COLLECT_BYTES),
        "high": cut_high(high, COLLECT_BYTES),
    }
    return cut | {"low_exact": cut["low"] == low, "high_exact": cut["high"] == high}
