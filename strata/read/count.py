"""Count the rows that a filter accepts, from manifests where that is proven, else from rows.

A count is the sum of diffs: how many rows a snapshot has, each as often as it is there. It needs no
consolidation, and retractions count against what they retract. `strata.decide.plan.plan_count` says
which parts have to be read; of these only t, d and the filter's columns are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from strata.decide.plan import plan_count
from strata.decide.read_plan import ReadPlan
from strata.decide.whole import Tally, complement
from strata.expr.filter import Filter
from strata.format.columns import D, T
from strata.model.settings import ReadSettings
from strata.model.sums import wrapped
from strata.model.time import format_time
from strata.read.filtered import filtered_scan
from strata.read.scan import DEFAULTS
from strata.state.state import State
from strata.store.open import Stores

# Yields the accepted rows of a plan: t as stored, and d. There may be other columns.
Rows: TypeAlias = Callable[[ReadPlan], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class FilterRun:
    """How a filter that is not plain is run, and what its complement means to what runs it."""

    rows: Rows
    other: Filter | None


@dataclass(frozen=True, slots=True)
class Counted:
    """The answer, and what it was made from. Units: times in milliseconds, sizes in bytes."""

    count: int  # modulo 2^64, see `strata.model.sums`
    by: str | None
    buckets: tuple[tuple[int, int], ...]  # where each begins, and its count, if it is not 0
    plan: ReadPlan  # of the parts that were read
    parts_counted: int  # that count whole, unread
    bytes_counted: int
    other: Filter | None = None  # the complement of the filter, by which they count

    def to_json(self) -> dict[str, Any]:
        """Return the answer as `strata count --json` prints it."""
        found: dict[str, Any] = {
            "count": self.count,
            "as_of": self.plan.as_of,
            "mode": self.plan.mode,
            "parts_counted": self.parts_counted,
            "parts_skipped": self.plan.parts_skipped,
            "parts_read": self.plan.parts_fetched,
            "bytes_counted": self.bytes_counted,
            "bytes_skipped": self.plan.bytes_skipped,
            "bytes_read": self.plan.bytes_read,
        }
        return found if self.by is None else found | {"by": self.by, "buckets": self.by_bucket}

    @property
    def by_bucket(self) -> Mapping[str, int]:
        """Return the count of each bucket by the ISO time at which it begins, oldest first."""
        return {format_time(start): count for start, count in self.buckets}


def count_rows(  # noqa: PLR0913 - options, by name
    stores: Stores,
    state: State,
    *,
    filter: Filter | None = None,
    as_of: int | None = None,
    by: str | None = None,
    pushdown: str | None = None,
    mode: str | None = None,
    run: FilterRun | None = None,
    settings: ReadSettings = DEFAULTS,
) -> Counted:
    """Return how many rows the snapshot at `as_of` has on which a filter is true.

    `by`: also for each hour, day, month or year of UTC in which they were written. Times before the
    shard's `since` count as `since`. `run` runs the filter on rows; None: it is plain, and
    needs no Spark. `mode` as of `plan_read`: no option of a reader may reach it.
    The caller logs the answer (`strata.history.usage.record_count`).
    Raises: InvalidRequest for an unreadable time or an unknown bucket; Corrupt.
    """
    other = None if filter is None else complement(filter)
    if run is not None:
        other = run.other
    plan, tally = plan_count(
        stores,
        state,
        as_of=as_of,
        filter=filter,
        other=other,
        by=by,
        pushdown=pushdown,
        mode=mode,
    )
    if run is None:
        rows = filtered_scan(stores, state, plan, filter, columns=[], timed=True, settings=settings)
    else:
        rows = run.rows(plan)
    for batch in rows:
        tally.add(batch.column(T).to_numpy(), batch.column(D).to_numpy())
    return replace(_answer(plan, tally, by), other=other)


def any_row(  # noqa: PLR0913 - options, by name
    stores: Stores,
    state: State,
    *,
    filter: Filter | None = None,
    as_of: int | None = None,
    pushdown: str | None = None,
    mode: str | None = None,
    run: FilterRun | None = None,
    settings: ReadSettings = DEFAULTS,
) -> tuple[bool, Counted]:
    """Return whether a row satisfies a filter: whether their count is above 0, and what was read.

    Reading ends with the first row that no retraction can take back. Options: as `count_rows`.
    """
    other = None if filter is None else complement(filter)
    if run is not None:
        other = run.other
    plan, tally = plan_count(
        stores, state, as_of=as_of, filter=filter, other=other, pushdown=pushdown, mode=mode
    )
    found, read = _total(tally), []
    for some in () if found > 0 and plan.monotonic else plan.steps():
        if run is None:
            rows = filtered_scan(
                stores, state, some, filter, columns=[], timed=True, settings=settings
            )
        else:
            rows = run.rows(some)
        for batch in rows:
            tally.add(batch.column(T).to_numpy(), batch.column(D).to_numpy())
        read.append(some)
        found = _total(tally)
        if found > 0 and plan.monotonic:
            break
    seen = replace(plan, runs=tuple(run for some in read for run in some.runs))
    return found > 0, replace(_answer(seen, tally, None), other=other)


def _total(tally: Tally) -> int:
    return wrapped(sum(count for _, count in tally.sums()))


def _answer(plan: ReadPlan, tally: Tally, by: str | None) -> Counted:
    found = tuple(tally.sums())
    total = wrapped(sum(count for _, count in found))
    return Counted(total, by, () if by is None else found, plan, tally.parts, tally.size_bytes)
