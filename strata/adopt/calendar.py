"""Days by an old calendar in the data files of other tables: they are refused, as from any file.

A library that reads a table does not say which file a row is from. So the files are looked at when
a row has a day that the calendars count differently, and only then.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from strata.ingest.readers.int96 import int96_columns
from strata.ingest.readers.old_calendar import by_old_calendar, check_calendar, has_old_days

DataFiles = Iterable[tuple[str, Callable[[], Any]]]  # name, and how to open it


def by_this_calendar(
    batches: Iterable[pa.RecordBatch], files: Callable[[], DataFiles]
) -> Iterator[pa.RecordBatch]:
    """Yield rows, unless a file that they may be from counts days by an old calendar.

    Raises: InvalidRequest, naming file, column and value.
    Cost: the dates and times of the files, once, if a row has a day from before 1582 or a time from
    before 1900, and the file has a mark of a writer that may have counted otherwise.
    """
    looked = False
    for batch in batches:
        if not looked and has_old_days(batch.columns):
            looked = True
            for name, opened in files():
                _check_file(name, opened)
        yield batch


def _check_file(name: str, opened: Callable[[], Any]) -> None:
    with (
        opened() as stream,
        pq.ParquetFile(stream, coerce_int96_timestamp_unit="us") as file,
    ):
        marks = file.metadata.metadata
        if not any(by_old_calendar(marks or {})):
            return
        far = int96_columns(file.schema)
        timed = [field.name for field in file.schema_arrow if _has_times(field.type)]
        for batch in file.iter_batches(columns=timed):
            check_calendar(name, marks, pa.Table.from_batches([batch]), timed, far)


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return True
    return any(_has_times(kind.field(n).type) for n in range(kind.num_fields))
