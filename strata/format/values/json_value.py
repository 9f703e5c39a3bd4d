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

import pyarrow as pa

from strata.format.encodings import seen_json
from strata.format.values.canonical import canonical
from strata.format.values.view import from_view, view_type
from strata.model.types import ColumnType


def stored_value(value: object, column_type: ColumnType) -> pa.Array:
    """Return a JSON value in stored form, in an array of length one.

    Raises: InvalidRequest, ValueError, TypeError, ArithmeticError or ArrowException for what is
    no value of the type.
    """
    seen = pa.array([seen_json(value, column_type)], view_type(column_type))
    return canonical(from_view(seen, column_type), column_type)
