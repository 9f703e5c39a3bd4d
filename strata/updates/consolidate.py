"""Advance and consolidate: fewer updates that say the same from `since` on.

Laws: consolidation is idempotent and does not depend on the order or the split of its input;
a snapshot at or after `since` does not see whether times were advanced.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import Corrupt
from strata.format.columns import D, T
from strata.model.schema import Relation
from strata.updates.order import Ints, Mask, equal_adjacent, one_chunk, sort_names

INT64: Final = np.iinfo(np.int64)


def advance(table: pa.Table, since: int) -> pa.Table:
    """Return `table` with every t before `since` moved up to it; the order stays sorted."""
    times = one_chunk(table.column(T))
    if not len(times) or pc.min(times).as_py() >= since:
        return table
    moved = np.maximum(times.to_numpy(), since)
    index = table.schema.get_field_index(T)
    return table.set_column(index, table.schema.field(T), pa.array(moved, pa.int64()))


def consolidate(table: pa.Table, relation: Relation, equal: Mask | None = None) -> pa.Table:
    """Return sorted updates with the diffs of equal (key, value, t) added and zeros dropped.

    On rows in another order only neighbours are added up: less consolidated, never wrong.
    `equal`: for each row but the last, whether it equals the next one, where that is known.

    Shape: as the input, sorted, no two rows equal but for d, no d of 0.
    Raises: Corrupt when a sum of diffs leaves int64.
    """
    if not table.num_rows:
        return table
    diffs = one_chunk(table.column(D)).to_numpy()
    if equal is None:
        equal = equal_adjacent(table, sort_names(relation))
    starts = np.flatnonzero(np.r_[True, ~equal])
    if len(starts) == table.num_rows:
        return table if diffs.all() else table.filter(pa.array(diffs != 0))
    sums = sums_of(diffs, starts)
    keep = sums != 0
    rows = table.take(pa.array(starts[keep]))
    index = table.schema.get_field_index(D)
    return rows.set_column(index, table.schema.field(D), pa.array(sums[keep], pa.int64()))


def consolidate_arranged(table: pa.Table, order: Ints, equal: Mask) -> pa.Table:
    """Return the rows of `table` in `order`, the diffs of equal ones added and zeros dropped.

    `equal`: for each row in order, whether it equals the one before it.
    Raises: Corrupt when a sum of diffs leaves int64.
    """
    from strata.kernels.merge_words import add_up  # loads the compiler
    from strata.updates.gather import take

    diffs = one_chunk(table.column(D)).to_numpy()
    rows, sums = np.empty_like(order), np.empty_like(order)
    made = add_up(diffs, order, equal, rows, sums)
    if made < 0:  # some sum left int64, perhaps only on its way
        starts = np.flatnonzero(~equal)
        found = sums_of(diffs[order], starts)
        rows, sums = order[starts][found != 0], found[found != 0]
        made = len(rows)
    rows, sums = rows[:made], sums[:made]
    if made != table.num_rows or not np.array_equal(rows, np.arange(made)):
        table = take(table, rows)
    index = table.schema.get_field_index(D)
    return table.set_column(index, table.schema.field(D), pa.array(sums))


def sums_of(diffs: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the sum of each group that begins at `starts`, exactly."""
    longest = int(np.diff(starts, append=len(diffs)).max())
    largest = max(int(diffs.max()), -int(diffs.min()))
    if longest * largest <= INT64.max:
        return np.add.reduceat(diffs, starts)
    exact = np.add.reduceat(diffs.astype(object), starts)  # Python integers: slow, and rare
    if max(exact) > INT64.max or min(exact) < INT64.min:
        raise Corrupt(
            "the diffs of one row add up to more than an int64 holds",
            sum=max(exact, key=abs),
            cure="the source repeats or inflates its diffs: check its diff column",
        )
    return exact.astype(np.int64)
