"""Values of columns as exact Python values that have an order, and back.

Numbers are whole, in units of the last digit. Dates and times are whole numbers, too: Python has no
years beyond 9999. A float is (whether it is NaN, the number), so that NaN is greatest and equal to
itself, and -0.0 equals 0.0. Texts compare as their bytes do.
"""

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.model.types import ColumnType, Kind

DIGITS: Final = 38
EXACT: Final = Context(prec=2 * DIGITS)
_FLOATS: Final = frozenset({Kind.FLOAT32, Kind.FLOAT64})
_ALIKE: Final = frozenset({Kind.BOOL, Kind.STRING, Kind.VARCHAR, Kind.CHAR, Kind.BYTES})
_SCALARS: Final = "int16 int32 int64 uint8 uint16 uint32 uint64 date timestamp timestamptz"
ORDERED_KINDS: Final = frozenset(map(Kind, _SCALARS.split())) | _FLOATS | _ALIKE - {Kind.BYTES}


def has_order(kind: ColumnType) -> bool:
    """Return whether values of a type have a least and a greatest one here."""
    if kind.kind == Kind.NUMERIC:
        return kind.precision is not None
    return kind.kind in ORDERED_KINDS


def ordered_values(array: pa.Array, kind: ColumnType) -> list[Any]:
    """Return values, as readers see them, in a form that has their order; null is None."""
    if pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    elif pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    found: list[Any] = array.to_pylist()
    if kind.kind in _ALIKE:
        return found
    if kind.kind in _FLOATS:
        return [None if v is None else (True, 0.0) if math.isnan(v) else (False, v) for v in found]
    return units(array, kind)


def unordered(values: Sequence[Any], kind: ColumnType, wanted: pa.DataType) -> pa.Array:
    """Return what `ordered_values` has made, as an array of a stored or seen type."""
    if kind.kind in _FLOATS:
        # 0.0 + -0.0 is 0.0
        plain = [None if v is None else math.nan if v[0] else v[1] + 0.0 for v in values]
        return pa.array(plain, wanted)
    if pa.types.is_timestamp(wanted):
        return pa.array(values, pa.int64()).view(wanted)
    if pa.types.is_date32(wanted):
        return pa.array(values, pa.int32()).view(wanted)
    if kind.kind == Kind.NUMERIC:
        scale = kind.scale or 0
        whole = [None if v is None else Decimal(v).scaleb(-scale, EXACT) for v in values]
        return pa.array(whole, wanted)
    return pa.array(values, wanted)


def units(array: pa.Array, kind: ColumnType) -> list[int | None]:
    """Return numbers in units of their last digit."""
    values = array.to_pylist()
    if kind.kind != Kind.NUMERIC:
        return [None if v is None else int(v) for v in values]
    scale = kind.scale or 0
    return [None if v is None else int(v.scaleb(scale, EXACT)) for v in values]


def fitting_numbers(
    values: Sequence[int | None], name: str, kind: ColumnType, wanted: pa.DataType
) -> pa.Array:
    """Return numbers as a column. Raises: InvalidRequest for one that does not fit."""
    most = 10**DIGITS - 1 if kind.kind == Kind.NUMERIC else 2**63 - 1
    for value in values:
        if value is not None and abs(value) > most:
            raise InvalidRequest(
                "a sum exceeds its column; nothing was written",
                column=name,
                type=str(kind),
                value=value,
                cure="sums in a new shard: of more groups, or with a filter (--where) that leaves"
                " the outlier out",
            )
    return unordered(values, kind, wanted)
