"""Advance and consolidate: fewer updates with the same meaning from `since` on.

Laws: consolidation is idempotent and does not depend on the order or the split of its input;
a snapshot at or after `since` does not see whether times were advanced.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.columns import D, T
from strata.kernels.arrays import Bools, Ints
from strata.model.schema import Relation
from strata.model.sums import MOST, fewest
from strata.updates.order import equal_adjacent, one_chunk, sort_names

FAR: Final = 2.0**62  # smaller float sums stay within int64 for any rounding


def advance(table: pa.Table, since: int) -> pa.Table:
    """Return `table` with every t before `since` moved up to it; the order stays sorted."""
    times = one_chunk(table.column(T))
    if not len(times) or pc.min(times).as_py() >= since:
        return table
    moved = np.maximum(times.to_numpy(), since)
    index = table.schema.get_field_index(T)
    return table.set_column(index, table.schema.field(T), pa.array(moved, pa.int64()))


def consolidate(table: pa.Table, relation: Relation, equal: Bools | None = None) -> pa.Table:
    """Return sorted updates with the diffs of equal (key, value, t) added and zeros dropped.

    In rows of another order only neighbours are added up: less consolidated, never wrong.
    `equal`: for each row but the last, whether it equals the next one, if that is known.

    Shape: as the input, sorted, no d of 0, no two rows equal but for d. Only a sum beyond int64
    takes several updates, the fewest that express it (`strata.model.sums.fewest`).
    """
    if not table.num_rows:
        return table
    diffs = one_chunk(table.column(D)).to_numpy()
    if equal is None:
        equal = equal_adjacent(table, sort_names(relation))
    starts = np.flatnonzero(np.r_[True, ~equal])
    if len(starts) == table.num_rows:
        return table if diffs.all() else table.filter(pa.array(diffs != 0))
    groups, sums = sums_of(diffs, starts)
    rows = table.take(pa.array(starts[groups]))
    index = table.schema.get_field_index(D)
    return rows.set_column(index, table.schema.field(D), pa.array(sums, pa.int64()))


def consolidate_arranged(table: pa.Table, order: Ints, equal: Bools) -> pa.Table:
    """Return the rows of `table` in `order`, with equal ones added up and zeros dropped.

    `equal`: for each row in order, whether it equals the one before it.
    Shape: as of `consolidate`.
    """
    from strata.kernels.merge_words import add_up  # loads the compiler
    from strata.updates.gather import take

    diffs = one_chunk(table.column(D)).to_numpy()
    rows, sums = np.empty_like(order), np.empty_like(order)
    made = add_up(diffs, order, equal, rows, sums)
    if made < 0:  # some sum left int64, perhaps only in between
        starts = np.flatnonzero(~equal)
        groups, sums = sums_of(diffs[order], starts)
        rows, made = order[starts[groups]], len(groups)
    rows, sums = rows[:made], sums[:made]
    if made != table.num_rows or not np.array_equal(rows, np.arange(made)):
        table = take(table, rows)
    index = table.schema.get_field_index(D)
    return table.set_column(index, table.schema.field(D), pa.array(sums))


def sums_of(diffs: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Return the sums of the groups that begin at `starts`, as group numbers and diffs.

    Shape: both of one length, the numbers ascending. A group with sum 0 is left out; a group whose
    sum exceeds int64 is repeated as often as needed.
    """
    sums = np.add.reduceat(diffs, starts)  # modulo 2^64
    longest = int(np.diff(starts, append=len(diffs)).max())
    if longest * max(int(diffs.max()), -int(diffs.min())) <= MOST:
        groups = np.flatnonzero(sums)
        return groups, sums[groups]
    sizes = np.add.reduceat(np.abs(diffs.astype(np.float64)), starts)
    counts = (sums != 0).astype(np.int64)
    ends = np.append(starts[1:], len(diffs))
    exact = {  # by Python's integers: slow, but rare
        group: fewest(sum(diffs[starts[group] : ends[group]].tolist()))
        for group in np.flatnonzero(sizes >= FAR).tolist()
    }
    for group, split in exact.items():
        counts[group] = len(split)
    groups = np.repeat(np.arange(len(starts)), counts)
    found = sums[groups]
    firsts = np.cumsum(counts) - counts
    for group, split in exact.items():
        found[firsts[group] : firsts[group] + len(split)] = split
    return groups, found
