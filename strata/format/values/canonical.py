"""One spelling for each value, so that equal rows have equal bytes.

Floats: -0.0 becomes 0.0, every NaN the quiet NaN 0x7ff8000000000000. JSON as in `json_text`. Char
loses its trailing blanks. Numbers without a precision as in `packed`; maps, arrays and ranges as in
`canonical_nested`. Nothing lies under a null. The row of a type in `strata.format.encodings` states
its rules.

Ingest calls `canonical` once for each incoming row. It also finds invalid values: texts that are
too long, times after midnight, repeated keys of a map.
"""

import pyarrow as pa

from strata.format.encodings import encoding
from strata.format.values.canonical_nested import sorted_entries
from strata.format.values.nested import items, listed, structured
from strata.model.types import ColumnType


def canonical(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return values in canonical form; nulls stay null, with no values under them.

    Shape: `arrow_type(column_type)` in and out.
    Raises: InvalidRequest naming a value that is not of the type, and the cure.
    """
    row = encoding(column_type)
    if row.stats == "nested":
        array = _inside(array, column_type)
    return row.spelling(array, column_type) if row.spelling else array


def _inside(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return nested values with the values inside them in canonical form."""
    kind = array.type
    if pa.types.is_struct(kind):
        parts = encoding(column_type).parts(column_type)
        if not parts:
            return structured(kind, [pa.nulls(len(array), pa.bool_())], array)
        pairs = zip(array.flatten(), parts, strict=True)
        return structured(kind, [canonical(child, part.type) for child, part in pairs], array)
    lengths, inner = items(array)
    if pa.types.is_list(kind):
        return listed(kind, lengths, canonical(inner, column_type.inner), array)
    keys, values = sorted_entries(lengths, inner, column_type).flatten()
    held = [keys, canonical(values, column_type.inner)]
    return listed(kind, lengths, pa.StructArray.from_arrays(held, ["key", "value"]), array)
