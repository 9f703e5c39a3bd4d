"""Convert columns of an older relation version to the wanted version.

Columns are matched by id. A column that was added later takes its default, or null. A dropped
column is not read. A narrower column is widened: to integers and floats of more bits, more digits
in front of a numeric's point, or longer texts. The same holds inside lists, maps, arrays, ranges
and records; records may also gain fields.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from strata.errors import Corrupt, InvalidRequest
from strata.format.encodings import arrow_type
from strata.format.values.json_value import stored_value
from strata.model.schema import Column
from strata.model.types import ColumnType, Kind

WIDER: Final[Mapping[Kind, frozenset[Kind]]] = {
    Kind.INT16: frozenset({Kind.INT32, Kind.INT64}),
    Kind.INT32: frozenset({Kind.INT64}),
    Kind.UINT8: frozenset(
        {Kind.UINT16, Kind.UINT32, Kind.UINT64, Kind.INT16, Kind.INT32, Kind.INT64}
    ),
    Kind.UINT16: frozenset({Kind.UINT32, Kind.UINT64, Kind.INT32, Kind.INT64}),
    Kind.UINT32: frozenset({Kind.UINT64, Kind.INT64}),
    Kind.FLOAT32: frozenset({Kind.FLOAT64}),
    Kind.VARCHAR: frozenset({Kind.STRING}),
    Kind.CHAR: frozenset({Kind.STRING}),
}


def widens(old: ColumnType, new: ColumnType) -> bool:
    """Return whether every value of `old` is a value of `new` with equal meaning and order.

    >>> from strata.model.types import parse_type
    >>> widens(parse_type("varchar(10)"), parse_type("varchar(20)"))
    True
    >>> widens(parse_type("numeric(10,2)"), parse_type("numeric(12,4)"))  # stored otherwise
    False
    """
    return not_wider(old, new) is None


def not_wider(old: ColumnType, new: ColumnType) -> str | None:
    """Return why stored values of `old` cannot be read as `new`, or None if they can.

    Lists, maps, arrays, ranges and records widen with the values in them. Records may also gain
    fields at their end, which are null in older rows.

    >>> from strata.model.types import parse_type
    >>> not_wider(parse_type("list<int64>"), parse_type("list<int32>"))
    'the items: int32 does not hold every int64'
    """
    if old == new:
        return None
    if old.kind is Kind.RECORD and new.kind is Kind.RECORD:
        return _record_not_wider(old, new)
    if old.kind is new.kind and old.element is not None and new.element is not None:
        reason = not_wider(old.element, new.element)
        return None if reason is None else f"the items: {reason}"
    if old.kind is Kind.NUMERIC and new.kind is Kind.NUMERIC:
        return _numeric_not_wider(old, new)
    if old.kind in (Kind.CHAR, Kind.VARCHAR) and new.kind in (old.kind, Kind.VARCHAR):
        held = new.length is None or (old.length is not None and old.length <= new.length)
    elif new.kind is Kind.NUMERIC:
        return f"{new} is stored otherwise than {old}"
    else:
        held = new.kind in WIDER.get(old.kind, ())
    return None if held else f"{new} does not hold every {old}"


def _numeric_not_wider(old: ColumnType, new: ColumnType) -> str | None:
    if old.precision is None or new.precision is None:
        # Their bytes, and so the content digest and the order of equal approximations, differ.
        return "a numeric with a precision is stored otherwise than one without"
    if old.scale != new.scale:
        return f"a scale of {old.scale} is stored otherwise than one of {new.scale}"
    return None if old.precision <= new.precision else f"{new} does not hold every {old}"


def _record_not_wider(old: ColumnType, new: ColumnType) -> str | None:
    if not old.fields:
        return "a record without fields stays without"
    if [f.name for f in new.fields[: len(old.fields)]] != [f.name for f in old.fields]:
        return "a record keeps its fields, in their order; further ones come last"
    for before, after in zip(old.fields, new.fields, strict=False):
        if reason := not_wider(before.type, after.type):
            return f"field {before.name}: {reason}"
    return None


def reads_otherwise(old: ColumnType, new: ColumnType) -> str | None:
    """Return why one source text may give different values as `old` and `new`, or None.

    `new` is wider than `old`. Stored values keep their value when widened. But the same text may be
    read before and after the change, and it must give equal values if rows are retracted by value.

    >>> from strata.model.types import parse_type
    >>> reads_otherwise(parse_type("list<float32>"), parse_type("list<float64>"))
    'the items: 12.8 as float32 is 12.800000190734863, as float64 it is 12.8'
    >>> reads_otherwise(parse_type("int16"), parse_type("int64")) is None
    True
    """
    if old.kind is Kind.RECORD:
        if len(old.fields) != len(new.fields):
            return "a field that a source had before the record did was left out"
        pairs = [
            (f"field {a.name}", a.type, b.type) for a, b in zip(old.fields, new.fields, strict=True)
        ]
    elif old.element is not None and new.element is not None:
        pairs = [("the items", old.element, new.element)]
    else:
        return _text_reads_otherwise(old.kind, new.kind)
    found = ((where, reads_otherwise(before, after)) for where, before, after in pairs)
    return next((f"{where}: {reason}" for where, reason in found if reason), None)


def _text_reads_otherwise(old: Kind, new: Kind) -> str | None:
    if old is new:
        return None
    if old is Kind.FLOAT32:
        return "12.8 as float32 is 12.800000190734863, as float64 it is 12.8"
    if old is Kind.CHAR:
        return f"a char has no blanks at its end, a {new} keeps them"
    return None


def check_widens(old: Column, new: Column) -> None:
    """Refuse a column whose stored type cannot be read as the wanted type.

    Raises: Corrupt: the relations of a shard contradict each other.
    """
    if not widens(old.type, new.type):
        raise Corrupt(
            "a column changed to a type that cannot hold it",
            column=new.name,
            id=new.id,
            stored=str(old.type),
            wanted=str(new.type),
            reason=not_wider(old.type, new.type),
        )


def widen(array: pa.Array, column: Column) -> pa.Array:
    """Return stored values in the Arrow type of the wanted column."""
    wanted = arrow_type(column.type)
    return array if array.type == wanted else array.cast(wanted)


def default_array(column: Column, rows: int) -> pa.Array:
    """Return `rows` times the column's default, null if it has none."""
    if column.default is None:
        return pa.nulls(rows, arrow_type(column.type))
    return _default(column).take(pa.array(np.zeros(rows, np.int64)))


def default_scalar(column: Column) -> pa.Scalar:
    """Return the value of a column in rows written before it was added.

    The default is a JSON value, see `strata.format.values.json_value`.
    Raises: InvalidRequest for a default that is not a value of the type.
    """
    return _default(column)[0]


def _default(column: Column) -> pa.Array:
    """Return the default in an array of one."""
    try:
        return stored_value(column.default, column.type)
    except (
        InvalidRequest,
        pa.ArrowException,
        ArithmeticError,
        AttributeError,
        ValueError,
        TypeError,
    ) as error:
        raise InvalidRequest(
            "a default does not fit its column",
            column=column.name,
            type=str(column.type),
            value=column.default,
            reason=str(error),
        ) from error
