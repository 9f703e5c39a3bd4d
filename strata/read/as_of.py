"""Show the rows of a part as of one time: drop later updates, move earlier times up to it."""

import pyarrow as pa
import pyarrow.compute as pc

from strata.format.columns import T
from strata.format.manifest import PartRef
from strata.updates.consolidate import advance


def as_of_view(
    rows: pa.Table, as_of: int, t_high: int | None = None, after: int | None = None
) -> pa.Table:
    """Return the rows that exist at `as_of`, with that time; none is later than `t_high`.

    `after`: only updates later than that.
    """
    if after is not None:
        rows = rows.filter(pc.greater(rows.column(T), after))
    return advance(until(rows, as_of, t_high), as_of)


def until(rows: pa.Table, as_of: int, t_high: int | None) -> pa.Table:
    """Return the rows that exist at `as_of`, with their own times."""
    times = rows.column(T)
    last = pc.max(times).as_py() if rows.num_rows and t_high is None else t_high
    if last is not None and last > as_of:
        return rows.filter(pc.less_equal(times, as_of))
    return rows


def may_add_up(ref: PartRef, as_of: int) -> bool:
    """Return whether it pays to look for equal neighbours in a part, as of one time.

    It pays where times become equal and the part holds a retraction. Otherwise equal rows are
    rare, and comparing all neighbours costs about as much as decoding them.
    """
    return ref.retractions and ref.t_low < min(ref.t_high, as_of)
