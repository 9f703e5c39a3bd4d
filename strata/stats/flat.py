"""Statistics of the columns that are not JSON: nulls, NaNs, low and high.

Vectorised: one pass of Arrow's `min_max` a column. Strings and bytes are cut as they are
collected, so that no statistic is ever large. Bounds are those of the values that are neither
null nor NaN; a column without such values has null bounds and counts that say so.
"""

from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from strata.model.types import ColumnType
from strata.stats.bounds import S, cut_high, cut_low
from strata.stats.wire import COUNTED, scalar_type

COLLECT_BYTES: Final = 100  # longest bound of a string or bytes column at collection

Values: TypeAlias = pa.Array | pa.ChunkedArray


def collect_flat(values: Values, column_type: ColumnType) -> pa.StructArray:
    """Return the statistics of one column.

    Shape: one row of `scalar_type(column_type)`; a type that Arrow cannot order has null bounds.
    """
    shape = scalar_type(column_type)
    nulls = int(values.null_count)
    if shape == COUNTED:
        return struct_row(shape, {"nulls": nulls})
    counts: dict[str, Any] = {"nulls": nulls}
    if pa.types.is_floating(values.type):
        values, counts["nans"] = _without_nans(values)
    low, high = _min_max(values)
    return struct_row(shape, counts | _bounds(low, high))


def struct_row(shape: pa.StructType, fields: dict[str, Any]) -> pa.StructArray:
    """Return one row of `shape`; fields that are not given are null.

    A field is a plain value or an Arrow scalar of exactly the field's type: dates and times that
    Python cannot express (years beyond 9999) stay as they are.
    """
    children = [_one(fields.get(field.name), field.type) for field in shape]
    return pa.StructArray.from_arrays(children, fields=list(shape))


def _one(value: Any, kind: pa.DataType) -> pa.Array:
    return pa.nulls(1, kind) if value is None else pa.array([value], kind)


def _without_nans(values: Values) -> tuple[Values, int]:
    is_nan = pc.is_nan(values)
    nans = int(pc.sum(is_nan).as_py() or 0)
    return (values.filter(pc.invert(is_nan)) if nans else values), nans


def _min_max(values: Values) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    try:
        both = pc.min_max(values)
    except pa.ArrowNotImplementedError:  # no order in Arrow: no bounds, which keeps every part
        return None, None
    low, high = both["min"], both["max"]
    return (low, high) if low.is_valid and high.is_valid else (None, None)


def _bounds(low: pa.Scalar | None, high: pa.Scalar | None) -> dict[str, Any]:
    if low is None or high is None:
        return {"low": None, "high": None, "low_exact": False, "high_exact": False}
    if pa.types.is_floating(low.type):
        low, high = low.as_py() + 0.0, high.as_py() + 0.0  # -0.0 becomes 0.0; they are equal
    elif _is_cut(low.type):
        return _cut(low.as_py(), high.as_py())
    return {"low": low, "high": high, "low_exact": True, "high_exact": True}


def _is_cut(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _cut(low: S, high: S) -> dict[str, Any]:
    cut: dict[str, Any] = {
        "low": cut_low(low, COLLECT_BYTES),
        "high": cut_high(high, COLLECT_BYTES),
    }
    return cut | {"low_exact": cut["low"] == low, "high_exact": cut["high"] == high}
