"""Convert JSON values, such as the defaults in a declaration, to values of a column type.

| type | JSON |
|---|---|
| bool, jsonb | itself; any value |
| integers, intervals year to month (months) and day to second (microseconds) | number |
| floats | number, or text for NaN and Infinity |
| numeric | number or text |
| date, time, timestamp, timestamptz | ISO 8601 text; timestamptz in UTC where it says no offset |
| string, char, varchar, uuid | text |
| bytes | base64 text |
| interval, aclitem, mz_aclitem | object, as Spark shows them; parts of an interval default to 0 |
| list | list |
| map, record | object; a field that is not given is null |
| array, int2vector | list (of one dimension), or object of `dims` and `vals` |
| range | object of `lower`, `upper`, `lower_inclusive` (true), `upper_inclusive`, `empty` (false) |

Inside another value, null is null.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from strata.format.encodings import seen_json
from strata.format.values.canonical import canonical
from strata.format.values.view import from_view, view_type
from strata.model.types import ColumnType, Kind

_FINE: Final = re.compile(r"[.,]\d{6}0*[1-9]")  # behind the microsecond
_OFFSET: Final = re.compile(r"\d[T ]\S*[0-9](Z|[+-]\d\d(:?\d\d)*)$")
_TIMES: Final = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)


def stored_value(value: object, column_type: ColumnType) -> pa.Array:
    """Return a JSON value in stored form, in an array of length one.

    Raises: InvalidRequest, ValueError, TypeError, ArithmeticError or ArrowException for what is
    no value of the type.
    """
    seen = pa.array([seen_json(value, column_type)], view_type(column_type))
    return canonical(from_view(seen, column_type), column_type)


def why_cut(value: object, column_type: ColumnType) -> str | None:
    """Return what `stored_value` would leave out of a time in a value; None: nothing."""
    for text, kind in _leaves(value, column_type):
        if kind in _TIMES and _FINE.search(text):
            return f"{text} has more than six places of a second"
        if kind is Kind.TIMESTAMP and _OFFSET.search(text):
            return f"{text} has an offset, which a timestamp does not keep: timestamptz does"
    return None


def _leaves(value: Any, column_type: ColumnType) -> Iterator[tuple[str, Kind]]:
    """Yield the texts in a value, each with the kind of its type."""
    if isinstance(value, str):
        yield value, column_type.kind
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, column_type.element or column_type)
    elif isinstance(value, dict):
        known = {field.name: field.type for field in column_type.fields}
        for name, item in value.items():
            yield from _leaves(item, known.get(name, column_type.element or column_type))
