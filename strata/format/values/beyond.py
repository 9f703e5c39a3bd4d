"""Values of Arrow as Python's; what Python's calendar does not reach is text.

A day is an int32 and a moment an int64, so they reach far beyond the years 1 to 9999.
"""

from datetime import time
from typing import Any, Final

import numpy as np
import pyarrow as pa

DAY_MICROS: Final = 86_400_000_000


def python_values(array: pa.Array, *, pairs: bool = False) -> list[Any]:
    """Return values in Python's types, maps as dicts; a day or moment beyond its calendar as text.

    `pairs`: maps are lists of pairs.

    >>> python_values(pa.array([0, 2**31 - 1, -719_163], pa.int32()).view(pa.date32()))
    [datetime.date(1970, 1, 1), '+5881580-07-11', '0000-12-31']
    """
    try:
        found: list[Any] = array.to_pylist(maps_as_pydicts=None if pairs else "strict")
    except OverflowError:
        return [python_value(scalar, pairs=pairs) for scalar in array]
    return found


def python_value(scalar: pa.Scalar, *, pairs: bool = False) -> Any:
    """Return one value as `python_values` does."""
    try:
        return scalar.as_py(maps_as_pydicts=None if pairs else "strict")
    except OverflowError:
        kind = scalar.type
    if pa.types.is_map(kind):
        keys, values = (scalar.values.field(side) for side in (0, 1))
        items = zip(keys.to_pylist(), python_values(values, pairs=pairs), strict=True)
        return list(items) if pairs else dict(items)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return {name: python_value(scalar[at], pairs=pairs) for at, name in enumerate(names)}
    if pa.types.is_list(kind):
        return python_values(scalar.values, pairs=pairs)
    return _day(scalar.value) if pa.types.is_date32(kind) else _moment(scalar.value, kind)


def _moment(micros: int, kind: pa.TimestampType) -> str:
    """Return a moment in ISO 8601.

    >>> _moment(2**63 - 1, pa.timestamp("us", "UTC"))
    '+294247-01-10T04:00:54.775807Z'
    """
    days, rest = divmod(micros, DAY_MICROS)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = time(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction)
    return f"{_day(days)}T{clock.isoformat()}{'' if kind.tz is None else 'Z'}"


def _day(days: int) -> str:
    """Return a day in ISO 8601; years beyond four digits have a sign.

    >>> [_day(days) for days in (-719_529, -719_163, 2_932_897)]
    ['-0001-12-31', '0000-12-31', '+10000-01-01']
    """
    year, month, day = str(np.datetime64(days, "D")).rsplit("-", 2)
    number = int(year)  # numpy counts the sign of a year among its four places
    if number < 0:
        return f"-{-number:04}-{month}-{day}"
    return f"{'+' * (number > 9999)}{number:04}-{month}-{day}"
