"""What counts without being read: parts on all of whose rows a filter is true.

The question is put to the complement of the filter, `NOT (filter <=> true)`: where it is proven
neither to be true nor to fail, every row is accepted. So skips and counts rest on the same
statistics, rules and quarantine, and the log of filters, which gets the complement as well, hands
it to soft evaluation. The number itself is the sum of diffs that manifests, their pages and states
record of every part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from strata.decide.question import Question, suspects_of
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Literal
from strata.kernels.arrays import Bools, Ints
from strata.model.sums import wrapped
from strata.model.time import MIN_TIME
from strata.state.state import Batch, State

_UNITS: Final = {"hour": "h", "day": "D", "month": "M", "year": "Y"}
BUCKETS: Final = tuple(_UNITS)
COLUMNS: Final = ("t_low", "t_high", "diffs_sum")  # of manifests and of their pages


def complement(filter: Filter) -> Filter:
    """Return the filter that is true on exactly the rows which `filter` does not accept.

    It fails on the rows on which `filter` fails, and is never null. Spark may make another tree of
    its text, where an order of evaluation that Spark chooses could fail as well: for a filter that
    needs Spark, the text is analysed again.
    """
    same = Call("equal_null_safe", (filter.expr, Literal(True, "boolean")), "boolean")
    end = "\n" if "--" in filter.sql else ""  # a comment may end the text
    sql = f"NOT (({filter.sql}{end}) <=> true)" if filter.sql else ""
    return replace(filter, expr=Call("not", (same,), "boolean"), sql=sql)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Times cut into hours, days, months or years of UTC, or not at all.

    Times before `since` count as `since`, because compaction moves them there sooner or later.
    """

    since: int
    by: str | None = None  # None: one bucket

    def __post_init__(self) -> None:
        if self.by is not None and self.by not in _UNITS:
            raise InvalidRequest("unknown bucket", by=self.by, cure=f"one of {', '.join(_UNITS)}")

    def starts(self, times: Ints) -> Ints:
        """Return where the bucket of each time begins; `MIN_TIME` if there is but one."""
        if self.by is None:
            return np.full(len(times), MIN_TIME)
        moved = np.maximum(times, self.since).astype("datetime64[ms]")
        cut = moved.astype(f"datetime64[{_UNITS[self.by]}]").astype("datetime64[ms]")
        found: Ints = cut.astype(np.int64)
        return found


@dataclass(frozen=True, slots=True)
class Whole:
    """Asks what need not be read to count the rows that a filter accepts; picklable."""

    at: int
    buckets: Buckets
    question: Question | None  # about the complement; None: every row is accepted
    quarantine: tuple[str, ...] = ()

    @classmethod
    def about(cls, state: State, other: Filter | None, at: int, by: str | None) -> "Whole":
        """Return the question for the rows of a state; `other`: the complement, None for all."""
        question = None if other is None else Question.about(state, other)
        return cls(at, Buckets(state.since, by), question, tuple(state.rollout.quarantine))

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns of a manifest that parts are judged by."""
        asked = frozenset() if self.question is None else self.question.columns
        return asked | {*COLUMNS, *(("key",) if self._names_parts else ())}

    @property
    def _names_parts(self) -> bool:
        return any("/" in word for word in self.quarantine)

    def of_batch(self, batch: Batch, union: pa.Table | None) -> bool:
        """Return whether all rows of a batch count, in one bucket; `union` as in `Question`."""
        ends = np.array([[batch.lower], [batch.upper - 1]])
        if self._names_parts or not self._timely(*ends)[0]:
            return False
        if self.question is None:
            return True
        decision = self.question.of_batch(batch, union)
        return decision is not None and not decision.keep[0]

    def of_pages(self, index: pa.Table) -> Bools:
        """Return whether all rows of each page count, in one bucket. Shape: one element a page."""
        if self._names_parts:
            return np.zeros(index.num_rows, np.bool_)
        timely = self._timely_rows(index)
        if self.question is not None and timely.any():
            verdict = self.question.of_pages(index.filter(pa.array(timely)))
            timely[timely] = False if verdict is None else ~verdict.keep
        return timely

    def of_parts(self, manifest: pa.Table, asked: Bools) -> Bools:
        """Return which of the `asked` parts count whole. Shape: one element a part."""
        found = asked & self._timely_rows(manifest)
        if self._names_parts:
            found &= ~suspects_of(manifest, self.quarantine)
        if self.question is not None and found.any():
            some = manifest.filter(pa.array(found))
            found[found] = ~self.question.of_parts(some).keep
        return found

    def _timely_rows(self, table: pa.Table) -> Bools:
        return self._timely(table["t_low"].to_numpy(), table["t_high"].to_numpy())

    def _timely(self, low: Ints, high: Ints) -> Bools:
        """Return where all updates are at or before the time of the read, in one bucket."""
        same: Bools = self.buckets.starts(low) == self.buckets.starts(high)
        return same & (high <= self.at)


class Tally:
    """Sums of diffs by bucket, and how much was counted without being read.

    Sums are kept modulo 2^64, as everywhere (`strata.model.sums`).
    """

    def __init__(self, buckets: Buckets) -> None:
        """Begin with nothing."""
        self.buckets = buckets
        self.parts = self.size_bytes = 0  # that counted whole
        self._sums: dict[int, int] = {}

    def batch(self, batch: Batch) -> None:
        """Add a batch that counts whole."""
        self.parts += batch.parts
        self.size_bytes += batch.size_bytes
        self.add(np.array([batch.lower]), np.array([wrapped(batch.diffs_sum)]))

    def table(self, table: pa.Table, parts: int) -> None:
        """Add parts, or pages of `parts` parts, that count whole. Shape: a row each in `table`."""
        self.parts += parts
        self.size_bytes += int(table["size_bytes"].to_numpy().sum())
        self.add(table["t_low"].to_numpy(), table["diffs_sum"].to_numpy())

    def add(self, times: Ints, diffs: Ints) -> None:
        """Add updates that are accepted. Shape: one element an update."""
        starts, owner = np.unique(self.buckets.starts(times), return_inverse=True)
        sums = np.zeros(len(starts), np.int64)
        np.add.at(sums, owner, diffs)  # wraps
        for start, total in zip(starts.tolist(), sums.tolist(), strict=True):
            self._sums[start] = self._sums.get(start, 0) + total

    def sums(self) -> Sequence[tuple[int, int]]:
        """Return where each bucket begins and its sum, oldest first; those of sum 0 left out."""
        found = ((start, wrapped(total)) for start, total in sorted(self._sums.items()))
        return [(start, total) for start, total in found if total]
