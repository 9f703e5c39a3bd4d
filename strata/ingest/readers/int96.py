"""Times that Parquet stores as INT96, as Spark and Hive write them: days, and nanoseconds of a day.

Arrow reads them as 64 bits of nanoseconds. Those before 1677 and after 2262 overflow, without an
error: 9999-12-31, which often means "for ever", would be a day in 1816. So they are read a second
time as milliseconds, which cannot overflow, and both together say the microsecond.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.errors import InvalidRequest, Unavailable
from strata.ingest.values.column import valid

COARSE: Final = {"coerce_int96_timestamp_unit": "ms"}  # options of `ParquetFile`
LAST_MS: Final = 2**63 // 1000 - 1  # beyond it, no microsecond fits 64 bits
LAST_NS: Final = 2**63 // 10**6 - 1  # of milliseconds whose nanoseconds fit 64 bits


def int96_columns(schema: Any) -> list[str]:
    """Return the names of the columns of a `ParquetSchema` that may be INT96, also inside."""
    if all(schema.column(n).physical_type != "INT96" for n in range(len(schema))):
        return []
    return [field.name for field in schema.to_arrow_schema() if _has_nanoseconds(field.type)]


def _has_nanoseconds(kind: Any) -> bool:
    if kind == pa.timestamp("ns"):
        return True
    return any(_has_nanoseconds(kind.field(n).type) for n in range(kind.num_fields))


def with_far_times(file: str, exact: pa.Table, coarse: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table whose columns `names` have microseconds, from nanoseconds and milliseconds.

    A column with finer times keeps nanoseconds, which the cast to a column's type refuses.
    Raises: InvalidRequest for a column that has finer times and others that overflow; Unavailable.
    """
    if exact.num_rows != coarse.num_rows:
        raise Unavailable("a file changed while it was read", certain=True, file=file)
    for name in names:
        place = exact.schema.get_field_index(name)
        one, other = (table.column(name).combine_chunks() for table in (exact, coarse))
        refusal = partial(
            InvalidRequest,
            "a column of INT96 has times of nanoseconds, and others that are too far from now for"
            " these",
            file=file,
            column=name,
            cure="write the column as TIMESTAMP_MICROS",
        )
        exact = exact.set_column(place, name, _joined(one, other, refusal))
    return exact


def _joined(exact: pa.Array, coarse: pa.Array, refusal: partial[InvalidRequest]) -> pa.Array:
    """Return an array whose times are microseconds, at any depth."""
    kind = exact.type
    if coarse.type == kind:
        return exact  # nothing in it is INT96
    if pa.types.is_timestamp(kind):
        return _moments(exact, coarse, refusal)
    if pa.types.is_struct(kind):
        pairs = [(exact.field(n), coarse.field(n)) for n in range(kind.num_fields)]
        fields = [_joined(mine, theirs, refusal) for mine, theirs in pairs]
        named = [f.with_type(values.type) for f, values in zip(kind, fields, strict=True)]
        return pa.StructArray.from_arrays(fields, fields=named, mask=exact.is_null())
    if pa.types.is_map(kind):
        both = [*zip(_entries(exact), _entries(coarse), strict=True)]
        inner = [_joined(mine, theirs, refusal) for mine, theirs in both]
        return pa.MapArray.from_arrays(_offsets(exact), *inner, mask=exact.is_null())
    one, other = (array.cast(pa.list_(array.type.value_field)) for array in (exact, coarse))
    values = _joined(_held(one, one.values), _held(other, other.values), refusal)
    return pa.ListArray.from_arrays(_offsets(one), values, mask=one.is_null())


def _offsets(lists: Any) -> pa.Array:
    """Return the offsets of lists or maps, from 0."""
    found = lists.offsets.to_numpy()
    return pa.array(found - found[0])


def _held(lists: Any, inner: pa.Array) -> pa.Array:
    """Return what lists or maps hold, of an array that may hold more; null ones hold nothing."""
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return inner.slice(first, last - first)


def _entries(maps: Any) -> tuple[pa.Array, pa.Array]:
    return _held(maps, maps.keys), _held(maps, maps.items)


def _moments(exact: pa.Array, coarse: pa.Array, refusal: partial[InvalidRequest]) -> pa.Array:
    nanos, millis = _numbers(exact), _numbers(coarse)
    rest = nanos - millis * 10**6  # modulo 2**64, as both products are
    if (rest % 1000).any():
        if (np.abs(millis) > LAST_NS).any():
            raise refusal()
        return exact
    micros = np.clip(millis, -LAST_MS, LAST_MS) * 1000 + rest // 1000
    return pa.array(micros, pa.int64(), mask=~valid(coarse)).view(pa.timestamp("us"))


def _numbers(times: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return times as numbers; null is 0."""
    found: np.ndarray[Any, np.dtype[np.int64]] = times.view(pa.int64()).fill_null(0).to_numpy()
    return found
