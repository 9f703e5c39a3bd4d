"""CSV whose records end with a delimiter, as TPC-H's `.tbl` do: the last declared name is empty.

    source.header: [id, name, ""]        1|a|
                                         2|b|

Nothing may stand behind the last delimiter. A record that has something there is rejected.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.land.files import SourceFile
from strata.ingest.readers.csv_lines import ends_of_records

BEHIND: Final = "something stands behind the last delimiter, where the header has no name"
ONE_MORE: Final = (
    "give each field a name: R's write.table leaves out that of the first column, unless "
    "col.names = NA; a delimiter at the end of each row makes one field more: end source.header, "
    'the names of files without a header, with an empty one (id, name, "")'
)


def field_names(header: Sequence[str]) -> list[str]:
    """Return the names of fields.

    >>> field_names(["id", "name", ""])
    ['id', 'name']
    """
    return list(header[:-1] if header[-1:] == [""] else header)


def without_end(
    source: SourceFile, data: bytes, table: pa.Table, reasons: dict[int, str]
) -> pa.Table:
    """Return the rows without the field behind the last delimiter, and those that are empty there.

    `reasons`: why a record, counted from 0 behind the header, is no row of `table`; others are
    added.
    """
    if table.column_names[-1:] != [""]:
        return table
    records = np.delete(np.arange(table.num_rows + len(reasons)), list(reasons))
    wrong = _filled(source, data, table.column(table.num_columns - 1), records)
    reasons.update(dict.fromkeys(records[wrong].tolist(), BEHIND))
    rows = table.filter(pa.array(~wrong)) if wrong.any() else table
    return rows.select(range(table.num_columns - 1))


def _filled(
    source: SourceFile, data: bytes, last: pa.ChunkedArray, records: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return whether the last field has text; one that is null may be a word, such as NA."""
    has_text = pc.fill_null(pc.greater(pc.binary_length(last), 0), False)
    filled: npt.NDArray[np.bool_] = np.array(has_text)
    ends = ends_of_records(source, data)
    if not len(records) or len(ends) <= records[-1]:  # where the parser found others
        return filled
    null = np.asarray(last.is_null())
    letters = np.frombuffer(data, np.uint8)[ends[records] - 1]
    filled |= null & (letters != ord(source.dialect.delimiter))
    return filled
