"""Days and times that Spark has counted by its old calendar, which only a mark of the file says.

Spark 2, and later ones in their mode LEGACY, count days before 1582-10-15 by the Julian calendar,
and moments before 1900 by the clocks of the writer's zone. Read as they are stored, they are other
days and moments. Spark moves them when it reads such a file; here they are refused.
Source: `DataSourceUtils` of Spark 4.3.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest

VERSION: Final = b"org.apache.spark.version"
LEGACY: Final = b"org.apache.spark.legacyDateTime"
LEGACY_INT96: Final = b"org.apache.spark.legacyINT96"
FIRST_DAY: Final = np.datetime64("1582-10-15")
FIRST_MOMENT: Final = np.datetime64("1900-01-01T00:00:00")


def check_calendar(
    file: str,
    marks: Mapping[bytes, bytes] | None,
    table: pa.Table,
    names: Collection[str],
    int96: Collection[str],
) -> None:
    """Refuse a file in which columns `names` have values that only Spark's old calendar explains.

    `marks`: the metadata of the file; `int96`: columns that are INT96, also inside.
    Raises: InvalidRequest, naming the least such value.
    Cost: nothing for files without these marks.
    """
    known = marks or {}
    if VERSION not in known:
        return
    version = _version(known[VERSION])
    old = version < (3, 0) or LEGACY in known
    old_int96 = version < (3, 1) or LEGACY_INT96 in known
    for name in table.column_names if old or old_int96 else ():
        far = name in int96
        flat = not table.schema.field(name).type.num_fields
        judged = (old_int96 if flat else old or old_int96) if far else old
        if not judged or name not in names:
            continue
        for chunk in table.column(name).chunks:
            for found in _before(chunk):
                raise InvalidRequest(
                    "a day or a time by the old calendar of Spark, which would be another one here",
                    file=file,
                    column=name,
                    value=str(found),
                    cure="let Spark 3 or later write the file anew, with"
                    " spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED",
                )


def _version(text: bytes) -> tuple[int, int]:
    """Return the first two numbers of a version; an unknown form is an old one."""
    numbers = text.split(b".")[:2]
    if len(numbers) < 2 or not all(number.isdigit() for number in numbers):
        return 0, 0
    return int(numbers[0]), int(numbers[1])


def _before(array: pa.Array) -> Iterator[np.datetime64]:
    """Yield the least day or moment of each leaf that the two calendars count differently."""
    kind: Any = array.type
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        day = pa.types.is_date32(kind)
        least = pc.min(array.view(pa.int32() if day else pa.int64())).as_py()
        if least is None:
            return
        found = np.datetime64(least, "D" if day else kind.unit)
        if found < (FIRST_DAY if day else FIRST_MOMENT):
            yield found
    elif pa.types.is_dictionary(kind):
        yield from _before(array.dictionary_decode())
    elif pa.types.is_map(kind):
        yield from _before(array.keys)
        yield from _before(array.items)
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _before(child)
    elif kind.num_fields:
        yield from _before(array.flatten())
