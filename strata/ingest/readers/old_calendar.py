"""Days and times that a writer has counted by an old calendar, which only a mark of the file says.

Spark 2, later ones in their mode LEGACY, and Hive count days before 1582-10-15 by the Julian
calendar, and Spark counts moments before 1900 by the clocks of the writer's zone. In ORC each of
them does so, also the newest. Read as they are stored, they are other days and moments. Spark moves
them when it reads such a file; here they are refused.
Source: `DataSourceUtils` and `OrcDeserializer` of Spark 4.3, `DataWritableWriteSupport` and
`AvroSerDe` of Hive 4.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.ingest.values.column import plainly

VERSION: Final = b"org.apache.spark.version"
LEGACY: Final = b"org.apache.spark.legacyDateTime"
LEGACY_INT96: Final = b"org.apache.spark.legacyINT96"
HIVE: Final = (b"writer.date.proleptic", b"writer.proleptic")  # of Parquet, and of Avro
ICEBERG: Final = b"iceberg.schema"  # counts by today's calendar in files of ORC, too
FIRST_DAY: Final = np.datetime64("1582-10-15")
FIRST_MOMENT: Final = np.datetime64("1900-01-01T00:00:00")
IN_PARQUET: Final = (
    "let Spark 3 or later write the file anew, with"
    " spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED"
)
IN_AVRO: Final = (
    "let Spark 3 or later write the file anew, with"
    " spark.sql.avro.datetimeRebaseModeInWrite=CORRECTED"
)
IN_ORC: Final = (
    "let Spark read the file, and write Parquet with"
    " spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED"
)


def check_calendar(
    file: str,
    marks: Mapping[bytes, bytes] | None,
    table: pa.Table,
    names: Collection[str],
    int96: Collection[str],
) -> None:
    """Refuse a file in which columns `names` have values that only an old calendar explains.

    `marks`: the metadata of the file; `int96`: columns that are INT96, also inside.
    Raises: InvalidRequest, naming the least such value.
    Cost: nothing for files without these marks.
    """
    old, old_int96 = by_old_calendar(marks or {})
    for name in table.column_names if old or old_int96 else ():
        far = name in int96
        flat = not table.schema.field(name).type.num_fields
        judged = (old_int96 if flat else old or old_int96) if far else old
        if judged and name in names:
            check_days(file, name, table.column(name).chunks, IN_PARQUET)


def by_old_calendar(marks: Mapping[bytes, bytes]) -> tuple[bool, bool]:
    """Return whether a file's days and times, and those in INT96, may be by an old calendar."""
    if any(marks.get(mark, b"").lower() == b"false" for mark in HIVE):
        return True, False
    if VERSION not in marks:
        return False, False
    version = _version(marks[VERSION])
    return version < (3, 0) or LEGACY in marks, version < (3, 1) or LEGACY_INT96 in marks


def check_days(
    file: str, column: str, arrays: Sequence[pa.Array | list[Any]], cure: str, *, days: bool = False
) -> None:
    """Refuse arrays, or objects, with values that the calendars count differently.

    `days`: whether only days do, and times are what they seem.
    Raises: InvalidRequest, naming the least such value of a leaf.
    """
    for values in arrays:
        found = _of_objects(values) if isinstance(values, list) else _before(values)
        for one in found:
            if days and one.dtype != FIRST_DAY.dtype:
                continue
            raise InvalidRequest(
                "a day or a time by the old calendar of Spark and Hive, which would be another one"
                " here",
                file=file,
                column=column,
                value=str(one),
                cure=cure,
            )


def has_old_days(arrays: Sequence[pa.Array], *, days: bool = False) -> bool:
    """Return whether some value is one that the two calendars count differently."""
    found = (one for values in arrays for one in _before(values))
    return any(not days or one.dtype == FIRST_DAY.dtype for one in found)


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
    elif isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
        yield from _before(plainly(array))
    elif pa.types.is_map(kind):
        yield from _before(array.keys)
        yield from _before(array.items)
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _before(child)
    elif kind.num_fields:
        yield from _before(array.flatten())


def _of_objects(values: list[Any]) -> Iterator[np.datetime64]:
    """Yield such days and moments in objects, at any depth."""
    waiting: list[Any] = [values]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, datetime):
            found = np.datetime64(one.replace(tzinfo=None), "us")
            if found < FIRST_MOMENT:
                yield found
        elif isinstance(one, date) and np.datetime64(one, "D") < FIRST_DAY:
            yield np.datetime64(one, "D")
