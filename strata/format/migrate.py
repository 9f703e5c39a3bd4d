"""Columns of an older relation version as columns of the wanted one.

A column is followed by its id. It may be missing in the older version (it was added later: its
default, or null), gone in the wanted one (dropped: not asked for), or narrower (widened: integers
and floats of more bits, more digits in front of a numeric's point, longer texts).
"""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from strata.errors import Corrupt, InvalidRequest
from strata.format.canonical import canonical_text
from strata.format.encodings import arrow_type
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
    """Return whether every value of `old` is a value of `new`, and means and sorts the same there.

    >>> from strata.model.types import parse_type
    >>> widens(parse_type("varchar(10)"), parse_type("varchar(20)"))
    True
    >>> widens(parse_type("numeric(10,2)"), parse_type("numeric(12,4)"))  # stored otherwise
    False
    """
    if old.kind is Kind.NUMERIC and new.kind is Kind.NUMERIC:
        return old.scale == new.scale and (old.precision or 0) <= (new.precision or 0)
    if old.kind in (Kind.CHAR, Kind.VARCHAR) and new.kind in (old.kind, Kind.VARCHAR):
        return new.length is None or (old.length is not None and old.length <= new.length)
    return old == new or new.kind in WIDER.get(old.kind, ())


def check_widens(old: Column, new: Column) -> None:
    """Refuse a column whose stored type cannot be read as the wanted one.

    Raises: Corrupt: the relations of a shard contradict each other.
    """
    if not widens(old.type, new.type):
        raise Corrupt(
            "a column changed to a type that cannot hold it",
            column=new.name, id=new.id, stored=str(old.type), wanted=str(new.type),
        )  # fmt: skip


def widen(array: pa.Array, column: Column) -> pa.Array:
    """Return stored values in the Arrow type of the wanted column."""
    wanted = arrow_type(column.type)
    return array if array.type == wanted else array.cast(wanted)


def default_array(column: Column, rows: int) -> pa.Array:
    """Return `rows` times the column's default, null if it has none."""
    return (
        pa.repeat(default_scalar(column), rows) if rows else pa.array([], arrow_type(column.type))
    )


def default_scalar(column: Column) -> pa.Scalar:
    """Return the value of a column in rows written before it was added.

    The default is a JSON value: numbers for numbers (texts, too, for numerics), ISO 8601 texts for
    dates and timestamps, base64 text for bytes, any value for jsonb.
    Raises: InvalidRequest for a default that is no value of the type.
    """
    wanted, value = arrow_type(column.type), column.default
    if value is None:
        return pa.scalar(None, wanted)
    try:
        if column.type.kind not in _PYTHON:
            raise TypeError("no default can be given for this type")
        if column.type.length is not None and len(value) > column.type.length:
            raise ValueError("too long")
        return pa.scalar(_PYTHON[column.type.kind](value), wanted)
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError) as error:
        raise InvalidRequest(
            "a default does not fit its column",
            column=column.name, type=str(column.type), value=value,
        ) from error  # fmt: skip


def _json_text(value: Any) -> str:
    text = canonical_text(json.dumps(value).encode())
    if text is None:
        raise ValueError("not JSON")
    return text.decode()


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value, validate=True)


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"not a {kind.__name__}")
        return value

    return check


def _float(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("a boolean is no number")
    return float(value) + 0.0  # no -0.0


_PYTHON: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.JSONB: _json_text,
    Kind.BYTES: _bytes,
    Kind.STRING: _exactly(str),
    Kind.VARCHAR: _exactly(str),
    Kind.BOOL: _exactly(bool),
    Kind.INT16: _exactly(int),
    Kind.INT32: _exactly(int),
    Kind.INT64: _exactly(int),
    Kind.UINT8: _exactly(int),
    Kind.UINT16: _exactly(int),
    Kind.UINT32: _exactly(int),
    Kind.UINT64: _exactly(int),
    Kind.OID: _exactly(int),
    Kind.FLOAT32: _float,
    Kind.FLOAT64: _float,
    Kind.TIMESTAMPTZ: _moment,
    Kind.TIMESTAMP: datetime.fromisoformat,
    Kind.DATE: date.fromisoformat,
    Kind.NUMERIC: lambda value: Decimal(str(value)),
}
