"""Converts short columns of texts as one, type by type: a call costs as much as a thousand values.

Whether and as what a value is readable depends on it alone, so it may have any neighbours. Twin:
column by column (`tests/laws/test_side_by_side.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from strata.ingest.values.column import Cast
from strata.model.types import ColumnType, Kind

SHORT: Final = 8_192  # rows; longer columns gain nothing
FEW: Final = 3  # columns of one type; fewer gain nothing
TOGETHER_BYTES: Final = 8 << 20  # of the columns of one type, so that they are not copied for long
KINDS: Final = frozenset(
    {
        Kind.BOOL,
        Kind.DATE,
        Kind.FLOAT32,
        Kind.FLOAT64,
        Kind.INT16,
        Kind.INT32,
        Kind.INT64,
        Kind.NUMERIC,
        Kind.STRING,
        Kind.TIMESTAMP,
        Kind.TIMESTAMPTZ,
        Kind.UINT8,
        Kind.UINT16,
        Kind.UINT32,
        Kind.UINT64,
    }
)
Convert = Callable[[pa.Array, ColumnType], Cast]


def read_alike(
    columns: Mapping[str, Any], types: Mapping[str, ColumnType], convert: Convert
) -> dict[str, Cast]:
    """Return, by name, those of the columns that are converted as one; the rest are left out."""
    alike: dict[tuple[ColumnType, pa.DataType], list[str]] = defaultdict(list)
    for name, kind in types.items():
        if kind.kind in KINDS and _is_short_text(columns.get(name)):
            alike[kind, columns[name].type].append(name)
    found: dict[str, Cast] = {}
    for (kind, _), names in alike.items():
        arrays = [columns[name] for name in names]
        if len(names) > FEW and sum(array.nbytes for array in arrays) <= TOGETHER_BYTES:
            found |= _as_one(names, arrays, kind, convert)
    return found


def _is_short_text(values: Any) -> bool:
    if not isinstance(values, pa.Array) or len(values) > SHORT:
        return False
    return bool(pa.types.is_string(values.type) or pa.types.is_binary(values.type))


def _as_one(
    names: list[str], arrays: list[pa.Array], kind: ColumnType, convert: Convert
) -> dict[str, Cast]:
    whole, start, found = convert(pa.concat_arrays(arrays), kind), 0, {}
    for name, array in zip(names, arrays, strict=True):
        end = start + len(array)
        bad = whole.bad[(whole.bad >= start) & (whole.bad < end)] - start
        found[name] = Cast(whole.values.slice(start, len(array)), bad)
        start = end
    return found
