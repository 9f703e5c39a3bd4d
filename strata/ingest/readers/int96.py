"""Times that Parquet stores as INT96, as Spark and Hive write them: days, and nanoseconds of a day.

Arrow reads them as 64 bits of nanoseconds. Those before 1677 and after 2262 overflow, without an
error: 9999-12-31, which often means "for ever", would be a day in 1816. So they are read a second
time as milliseconds, which cannot overflow, and both together say the microsecond.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.errors import InvalidRequest, Unavailable
from strata.ingest.values.column import valid

COARSE: Final = {"coerce_int96_timestamp_unit": "ms"}  # options of `ParquetFile`
LAST_MS: Final = 2**63 // 1000 - 1  # beyond it, no microsecond fits 64 bits
LAST_NS: Final = 2**63 // 10**6 - 1  # of milliseconds whose nanoseconds fit 64 bits


def int96_columns(schema: Any) -> list[str]:
    """Return the names of the columns of a `ParquetSchema` that are INT96, but nested ones."""
    columns = (schema.column(n) for n in range(len(schema)))
    return [c.name for c in columns if c.physical_type == "INT96" and c.path == c.name]


def with_far_times(file: str, exact: pa.Table, coarse: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table whose columns `names` have microseconds, from nanoseconds and milliseconds.

    A column with finer times keeps nanoseconds, which the cast to a column's type refuses.
    Raises: InvalidRequest for a column that has finer times and others that overflow; Unavailable.
    """
    if exact.num_rows != coarse.num_rows:
        raise Unavailable("a file changed while it was read", certain=True, file=file)
    for name in names:
        place = exact.schema.get_field_index(name)
        known = coarse.column(name).combine_chunks()
        nanos = _numbers(exact.column(place).combine_chunks())
        millis = _numbers(known)
        rest = nanos - millis * 10**6  # modulo 2**64, as both products are
        if (rest % 1000).any():
            if (np.abs(millis) > LAST_NS).any():
                raise InvalidRequest(
                    "a column of INT96 has times of nanoseconds, and others that are too far from"
                    " now for these",
                    file=file,
                    column=name,
                    cure="write the column as TIMESTAMP_MICROS",
                )
            continue
        micros = np.clip(millis, -LAST_MS, LAST_MS) * 1000 + rest // 1000
        values = pa.array(micros, pa.int64(), mask=~valid(known)).view(pa.timestamp("us"))
        exact = exact.set_column(place, name, values)
    return exact


def _numbers(times: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return times as numbers; null is 0."""
    found: np.ndarray[Any, np.dtype[np.int64]] = times.view(pa.int64()).fill_null(0).to_numpy()
    return found
