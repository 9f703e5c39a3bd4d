"""Merge huge rows one by one without copying: a few of them fill the memory.

Arrow arranges rows by copying them into new arrays, once to join and once to order all rows of a
round. For rows of 50 MiB this takes most of a merge's memory. Here a row stays where it was read,
and the output is a sequence of slices.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa

from strata.format.columns import D
from strata.format.weigh import HUGE_ROW_BYTES
from strata.model.schema import Relation
from strata.updates.consolidate import sums_of
from strata.updates.order import sort_names
from strata.updates.row import Row, row_at


def are_huge(tables: Sequence[pa.Table]) -> bool:
    """Return whether the rows should be merged one by one."""
    rows = sum(int(table.num_rows) for table in tables)
    size = sum(int(table.nbytes) for table in tables)
    return size >= HUGE_ROW_BYTES * max(rows, 1)


def consolidate_rows(
    tables: Sequence[pa.Table], relation: Relation, floor: Row | None, cut: Row | None
) -> pa.Table | None:
    """Return the rows of sorted tables as one, sorted and consolidated, in chunks of a row each.

    None when a table is not sorted, or a row lies outside [floor, cut]; None is open.
    Twin: `strata.updates.merge.consolidate_sorted`, which joins and arranges.
    """
    names = sort_names(relation)
    found: list[tuple[Row, pa.Table]] = []
    for table in tables:
        rows = [row_at(table, i, names) for i in range(table.num_rows)]
        if any(following < row for row, following in pairwise(rows)):
            return None
        found += [(row, table.slice(i, 1)) for i, row in enumerate(rows)]
    found.sort(key=itemgetter(0))
    if (floor is not None and found[0][0] < floor) or (cut is not None and cut < found[-1][0]):
        return None
    new = [True, *(a.compare(b) != 0 for (a, _), (b, _) in pairwise(found))]
    diffs = np.array([one.column(D)[0].as_py() for _, one in found], np.int64)
    starts = np.flatnonzero(new)
    groups, sums = sums_of(diffs, starts)
    kept = [found[i][1] for i in starts[groups]]
    whole = pa.concat_tables([tables[0].schema.empty_table(), *kept])
    index = whole.schema.get_field_index(D)
    return whole.set_column(index, whole.schema.field(D), pa.array(sums, pa.int64()))
