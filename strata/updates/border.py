"""The last row of a merge round, since more updates of it may come in the next round.

It is carried over as one row with its sum so far. A sum beyond int64 is carried as a Python
integer, and becomes updates only when no more can follow.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from strata.format.columns import D
from strata.format.values.coded import decoded_bytes
from strata.model.sums import LEAST, MOST, fewest
from strata.updates.row import Row, row_at, rows_until

CHUNK_ROWS: Final = 65_536  # updates of one row made at a time
CHUNK_BYTES: Final = 1024 * 1024  # their total size, unless one alone is larger


@dataclass(slots=True)
class Beyond:
    """A row whose diffs add up to more than an int64 holds, now or in between."""

    table: pa.Table  # the row; its d is meaningless
    row: Row
    total: int
    names: Sequence[str]  # of the columns that updates are sorted by

    def taken_from(self, chunk: pa.Table) -> pa.Table:
        """Add the row's updates, which come first, and return the rows after them."""
        count = rows_until(chunk, self.row, self.names, chunk.num_rows)
        self.total += sum(chunk.column(D).slice(0, count).to_pylist())
        return chunk.slice(count)

    def updates(self) -> Iterator[pa.Table]:
        """Yield the fewest updates that express the sum, in chunks."""
        diffs = fewest(self.total)
        size = int(self.table.nbytes) + decoded_bytes(self.table)
        rows = min(CHUNK_ROWS, max(1, CHUNK_BYTES // max(size, 1)))
        at = self.table.schema.get_field_index(D)
        field = self.table.schema.field(at)
        for start in range(0, len(diffs), rows):
            some = pa.array(diffs[start : start + rows], pa.int64())
            copies = self.table
            if len(some) > 1:
                copies = copies.take(pa.array(np.zeros(len(some), np.int64)))
            yield copies.set_column(at, field, some)


def hold_back(
    chunk: pa.Table, names: Sequence[str], cut: Row | None
) -> tuple[pa.Table, pa.Table | None, Beyond | None]:
    """Split off the last row, as a row or as its sum, if more updates equal to it may follow.

    Shape: `chunk` is sorted and consolidated, no row sorts after `cut`; None: no more rows come.
    """
    last = chunk.num_rows - 1
    if cut is None or last < 0 or row_at(chunk, last, names) < cut:
        return chunk, None, None
    table = chunk.slice(last).combine_chunks()
    if not last or chunk.column(D)[last - 1].as_py() not in (LEAST, MOST):
        # One update expresses the sum: several would each be full
        return chunk.slice(0, last), table, None
    row = row_at(table, 0, names)
    first = bisect_left(range(last), row, key=lambda i: row_at(chunk, i, names))
    if first == last:
        return chunk.slice(0, last), table, None
    total = sum(chunk.column(D).slice(first).to_pylist())
    return chunk.slice(0, first), None, Beyond(table, row, total, names)
