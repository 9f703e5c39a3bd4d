"""Values of nested Arrow columns as JSON text, for jsonb columns.

A struct and a map become objects, a list an array, a decimal a number with all its digits, a date
or a time its ISO text. Values that JSON cannot express are bad: NaN, infinities, bytes, durations,
times outside of a day or beyond the year 9999, days with a time, a map with a repeated key.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import methodcaller
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from strata.ingest.values.column import Cast
from strata.ingest.values.nested_arrow import LISTS

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  a naive time
DAY_SECONDS: Final = 86_400
DAY_MILLIS: Final = 86_400_000
TICKS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # nanoseconds


class Unsayable(ValueError):
    """A value that JSON cannot express."""


def json_texts(values: pa.Array) -> Cast:
    """Return a column of any type as JSON texts, value by value; a null stays null.

    Shape: strings. Cost: each value as Python objects.
    """
    texts: list[bytes | None] = []
    bad: list[int] = []
    as_object = _counted if _has_times(values.type) else methodcaller("as_py")
    for row, scalar in enumerate(values):
        try:
            value = as_object(scalar)
            texts.append(None if value is None else orjson.dumps(_plain(value, values.type)))
        except (ValueError, TypeError, OverflowError, pa.ArrowException):
            texts.append(None)
            bad.append(row)
    return Cast(pa.array(texts, pa.binary()).cast(pa.string()), np.array(bad, np.int64))


def _counted(scalar: pa.Scalar) -> Any:
    """Return a value as Python objects, and times as integers: Python's own wrap, or are short."""
    kind = scalar.type
    if isinstance(scalar, pa.DictionaryScalar):
        return _counted(scalar.value)
    if not scalar.is_valid:
        return None
    if _is_time(kind):
        return scalar.value
    if pa.types.is_map(kind):
        return [(_counted(pair["key"]), _counted(pair["value"])) for pair in scalar.values]
    if _is_list(kind):
        return [_counted(item) for item in scalar.values]
    if pa.types.is_struct(kind):
        return _fields(scalar)
    return scalar.as_py()


def _fields(scalar: pa.StructScalar) -> dict[str, Any]:
    names = [field.name for field in scalar.type]
    if len({*names}) < len(names):
        raise Unsayable("a field that stands twice")
    return {name: _counted(scalar[name]) for name in names}


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _has_times(kind.value_type)
    return _is_time(kind) or any(_has_times(kind.field(n).type) for n in range(kind.num_fields))


def _is_time(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_time, pa.types.is_timestamp, pa.types.is_date64)
    return any(is_kind(kind) for is_kind in kinds)


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


def _day(value: int, _: pa.DataType) -> str:
    """Return the text of a day that is stored as milliseconds."""
    days, rest = divmod(value, DAY_MILLIS)
    if rest:
        raise Unsayable("a day with a time")
    return (EPOCH + timedelta(days=days)).date().isoformat()


def _clock(value: int, kind: pa.DataType) -> str:
    seconds, nanos = divmod(value * TICKS[kind.unit], 10**9)
    if not 0 <= seconds < DAY_SECONDS:
        raise Unsayable("a time outside of a day")
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}{_places(nanos)}"


def _moment(value: int, kind: pa.DataType) -> str:
    """Return the text of a timestamp, as clocks of its zone show it, with their offset."""
    seconds, nanos = divmod(value * TICKS[kind.unit], 10**9)
    there = EPOCH + timedelta(seconds=seconds)
    if kind.tz is None:
        return f"{there.isoformat()}{_places(nanos)}"
    local = there.replace(tzinfo=UTC).astimezone(pa.lib.string_to_tzinfo(kind.tz))
    whole = local.replace(tzinfo=None).isoformat()
    return f"{whole}{_places(nanos)}{local.isoformat()[len(whole) :]}"


def _places(nanos: int) -> str:
    """Return a fraction of a second: six places, or nine where they are needed."""
    if not nanos:
        return ""
    return f".{nanos:09}" if nanos % 1000 else f".{nanos // 1000:06}"


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
    (pa.types.is_date64, _day),
    (pa.types.is_date, _iso),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_time, _clock),
    (_is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
)
