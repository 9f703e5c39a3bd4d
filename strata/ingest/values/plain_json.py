"""Values of nested Arrow columns as JSON text, for jsonb columns.

A struct and a map become objects, a list an array, a decimal a number with all its digits, a date
or a time its ISO text. Values that JSON cannot express are bad: NaN, infinities, bytes, durations,
times beyond the year 9999, a map with a repeated key.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from strata.ingest.values.column import Cast
from strata.ingest.values.nested_arrow import LISTS


class Unsayable(ValueError):
    """A value that JSON cannot express."""


def json_texts(values: pa.Array) -> Cast:
    """Return a column of any type as JSON texts, value by value; a null stays null.

    Shape: strings. Cost: each value as Python objects.
    """
    texts: list[bytes | None] = []
    bad: list[int] = []
    kind = _counted(values.type)
    for row, scalar in enumerate(values if kind == values.type else values.cast(kind)):
        try:
            value = scalar.as_py()
            texts.append(None if value is None else orjson.dumps(_plain(value, values.type)))
        except (ValueError, TypeError, OverflowError, pa.ArrowException):
            texts.append(None)
            bad.append(row)
    return Cast(pa.array(texts, pa.binary()).cast(pa.string()), np.array(bad, np.int64))


def _counted(kind: pa.DataType) -> pa.DataType:
    """Return a type whose times of nanoseconds are integers: Python's own times have no such."""
    if kind == pa.time64("ns"):
        return pa.int64()
    if pa.types.is_dictionary(kind) and kind.value_type == pa.time64("ns"):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_counted(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(_counted(kind.item_type)))
    if _is_list(kind) and _counted(kind.value_type) != kind.value_type:
        return pa.large_list(kind.value_field.with_type(_counted(kind.value_type)))
    return kind


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return an object that orjson writes exactly. Raises: Unsayable."""
    if value is None:
        return None
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    for is_kind, convert in _BY_KIND:
        if is_kind(kind):
            return convert(value, kind)
    raise Unsayable(str(kind))


def _number(value: Any, _: pa.DataType) -> Any:
    if not math.isfinite(value):
        raise Unsayable("JSON has finite numbers only")
    return value


def _list(value: Any, kind: pa.DataType) -> list[Any]:
    return [_plain(item, kind.value_type) for item in value]


def _struct(value: Any, kind: pa.DataType) -> dict[str, Any]:
    return {field.name: _plain(value[field.name], field.type) for field in kind}


def _map(value: Any, kind: pa.DataType) -> dict[str, Any]:
    found = {key: _plain(item, kind.item_type) for key, item in value}
    if len(found) != len(value) or not all(type(key) is str for key in found):
        raise Unsayable("a key that is no text, or stands twice")
    return found


def _as_it_is(value: Any, _: pa.DataType) -> Any:
    return value


def _iso(value: Any, _: pa.DataType) -> str:
    found: str = value.isoformat()
    return found


def _clock(value: Any, _: pa.DataType) -> str:
    """Return the text of a time of day, which may be a number of nanoseconds."""
    if not isinstance(value, int):
        return _iso(value, _)
    seconds, nanos = divmod(value, 10**9)
    minutes, second = divmod(seconds, 60)
    whole = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    places = f"{nanos:09}" if nanos % 1000 else f"{nanos // 1000:06}"
    return f"{whole}.{places}" if nanos else whole


def _digits(value: Any, _: pa.DataType) -> orjson.Fragment:
    return orjson.Fragment(format(value, "f"))


def _is_list(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in LISTS)


def _is_text(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in kinds)


_BY_KIND: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[..., Any]], ...]] = (
    (pa.types.is_boolean, _as_it_is),
    (_is_text, _as_it_is),
    (pa.types.is_integer, _number),
    (pa.types.is_floating, _number),
    (pa.types.is_decimal, _digits),
    (pa.types.is_date, _iso),
    (pa.types.is_timestamp, _iso),
    (pa.types.is_time, _clock),
    (_is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
)
