"""Find the least, the greatest or the distinct values of a column, reading few parts.

A value is there if the diffs of the rows that have it add up to more than 0; null is no value.
Values compare as in Spark: texts by their bytes, NaN above every number, -0.0 as 0.0.

Statistics decide through ordinary filters only. Once a value is found, the next plan asks for rows
with a smaller one (or a greater, or another); when it fetches no part that is not read yet, there
is none. Such a plan obeys the shard's rollout and quarantine like that of any filter, and the
caller logs the last one, on which the answer rests, for soft evaluation. The bounds of whole
batches only say where to look first.

Where a retraction may take back what was found, sums for each value decide, over all parts that
may hold it.

Errs: towards reading more. Law: `tests/laws/test_values.py`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.descent import readable_batches, resolve_as_of
from strata.decide.plan import plan_read
from strata.decide.read_plan import GROWTH, PlannedRun, ReadPlan
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.format.columns import D
from strata.format.values.beyond import python_value
from strata.kernels.arrays import Bools
from strata.model.schema import Column
from strata.model.settings import ReadSettings
from strata.model.time import MIN_TIME
from strata.parts.unions import stats_of
from strata.plain.conditions import (
    Among,
    And,
    Compare,
    Condition,
    IsNan,
    IsNull,
    Not,
    Value,
)
from strata.plain.parse import plain_filter
from strata.plain.types import comparable_type
from strata.plain.weaker import LISTED_MAX, weaker
from strata.read.filtered import filtered_scan
from strata.read.scan import DEFAULTS
from strata.read.value_order import (
    ValueOrder,
    ValueSums,
    condition_constant,
    joined_values,
    one_form,
)
from strata.rollout.obey import SKIPPING
from strata.state.state import State
from strata.stats.wire import column_name
from strata.store.open import Stores

# The rows of a plan that a filter accepts: the column, and d. There may be other columns.
ValueRows = Callable[[ReadPlan, Filter | None], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class ValueSource:
    """How rows are chosen and read."""

    # Of the reader's filter, if there is one, and a plain one
    joined: Callable[[Filter | None], Filter | None]
    rows: ValueRows
    first_parts: int = 1  # that the first step reads


@dataclass(frozen=True, slots=True)
class ValuesFound:
    """Values that are there, what their proof reads, and what was read. Sizes in bytes."""

    values: pa.Array  # as readers see the column; of an extreme at most one
    complete: bool  # False: there are more values than were asked for
    plan: ReadPlan  # of the last filter: no other part holds what would change the answer
    filter: Filter | None
    parts_read: int
    bytes_read: int

    @property
    def value(self) -> Any:
        """Return the least or greatest value, as `python_values` has it; None if there is none."""
        return python_value(self.values[0]) if len(self.values) else None

    def to_json(self) -> dict[str, Any]:
        """Return what the answer was made from, as commands print it with `--json`."""
        return {
            "as_of": self.plan.as_of,
            "mode": self.plan.mode,
            "complete": self.complete,
            "parts_read": self.parts_read,
            "parts_total": self.plan.parts_total,
            "bytes_read": self.bytes_read,
        }


def extreme_value(  # noqa: PLR0913 - options, by name
    stores: Stores,
    state: State,
    column: str,
    *,
    greatest: bool,
    filter: Filter | None = None,
    as_of: int | None = None,
    pushdown: str | None = None,
    mode: str | None = None,
    source: ValueSource | None = None,
    settings: ReadSettings = DEFAULTS,
) -> ValuesFound:
    """Return the least, or greatest, value of a column among the rows that satisfy a filter.

    `source` runs a filter that is not plain; None: it is plain, and needs no Spark. `pushdown` and
    `mode`: as of `plan_read`.
    Raises: InvalidRequest for an unknown column or one whose values have no order, and for an
    unreadable time; Corrupt.
    """
    search = _search(stores, state, column, filter, as_of, pushdown, mode, source, settings)
    return search.extreme(greatest)


def distinct_values(  # noqa: PLR0913 - options, by name
    stores: Stores,
    state: State,
    column: str,
    *,
    limit: int,
    filter: Filter | None = None,
    as_of: int | None = None,
    pushdown: str | None = None,
    mode: str | None = None,
    source: ValueSource | None = None,
    settings: ReadSettings = DEFAULTS,
) -> ValuesFound:
    """Return the different values of a column, in their order; not all, if more than `limit`.

    Otherwise as `extreme_value`. Memory: the values, possibly more than `limit` where rows are
    retracted.
    """
    if limit < 1:
        raise InvalidRequest("no value is asked for", limit=limit, cure="at least 1")
    search = _search(stores, state, column, filter, as_of, pushdown, mode, source, settings)
    return search.distinct(limit)


def joined_filter(state: State, filter: Filter | None, plain: Filter | None) -> Filter | None:
    """Return the plain filter that is true where both are; the first if both are too long."""
    if filter is None or plain is None:
        return plain if filter is None else filter
    try:
        return plain_filter(state.relation, both_texts(filter, plain), filter.now_low)
    except InvalidRequest:
        return filter


def both_texts(filter: Filter, plain: Filter) -> str:
    """Return the text of a filter that is true where both are."""
    end = "\n" if "--" in filter.sql else ""  # a comment may end the text
    return f"({filter.sql}{end}) AND ({plain.sql})"


def _search(  # noqa: PLR0913, PLR0917 - in the order in which its callers have them
    stores: Stores,
    state: State,
    name: str,
    filter: Filter | None,
    as_of: int | None,
    pushdown: str | None,
    mode: str | None,
    source: ValueSource | None,
    settings: ReadSettings,
) -> "_Search":
    column = state.relation.column(name)
    if comparable_type(column.type) is None:
        raise InvalidRequest(
            "values of this column have no order",
            column=name,
            type=str(column.type),
            cure="a column of numbers, texts, dates, times or booleans",
        )

    def rows(plan: ReadPlan, wanted: Filter | None) -> Iterator[pa.RecordBatch]:
        return filtered_scan(
            stores, state, plan, wanted, columns=[name], timed=True, settings=settings
        )

    plain = ValueSource(lambda other: joined_filter(state, filter, other), rows)
    at = resolve_as_of(state, as_of)
    return _Search(stores, state, column, at, pushdown, mode, source or plain)


@dataclass
class _Search:
    """What has been read so far."""

    stores: Stores
    state: State
    column: Column
    at: int | None
    pushdown: str | None
    mode: str | None
    source: ValueSource
    parts: int = 0
    size_bytes: int = 0

    def __post_init__(self) -> None:
        self._seen: set[str] = set()
        self._step = self.source.first_parts
        self._some: Condition = Not(IsNull(self.column.name))
        self._type: pa.DataType = pa.null()  # of the column, once a row is read

    def extreme(self, greatest: bool) -> ValuesFound:
        """Return the least or greatest value."""
        order = ValueOrder(greatest)
        plan, filter = self._plan(self._some)
        if plan.mode not in SKIPPING or not plan.parts_fetched:
            return self._of_all(plan, filter, order)
        best, plan, filter = self._best(order)
        if best is None:
            return self._found([], plan, filter)
        plan, filter = self._plan(self._compared(order.up_to, best))
        if plan.monotonic:
            return self._found([best], plan, filter)
        kept = ValueSums()
        for values, diffs in self._read(plan, filter):
            inside = order.not_beyond(values, best)
            kept.add(values.filter(inside), diffs.filter(inside))
        there = kept.positive()
        if len(there):
            return self._found([order.best(there)], plan, filter)
        return self._of_all(*self._plan(self._some), order)

    def _best(self, order: ValueOrder) -> tuple[pa.Scalar | None, ReadPlan, Filter | None]:
        """Return the first value in order that some update adds, and the plan that proves it."""
        best: pa.Scalar | None = None
        end = self._end(order)
        while True:
            if best is not None:
                wanted = self._compared(order.before, best)
            else:
                wanted = self._some if end is None else Compare(self.column.name, order.up_to, end)
            plan, filter = self._plan(wanted)
            some = self._unread(plan, last=order.greatest)
            if some is None and (best is not None or end is None):
                return best, plan, filter
            if some is None:
                end = None  # the bound of a batch that no accepted row has
                self._seen.clear()  # only for that bound
                continue
            for values, diffs in self._read(some, filter):
                added = values.filter(pc.greater(diffs, 0))
                if len(added):
                    best = order.best(added if best is None else joined_values(added, best))

    def distinct(self, limit: int) -> ValuesFound:
        """Return the different values."""
        plan, filter = self._plan(self._some)
        if not plan.monotonic:
            kept = ValueSums()
            for values, diffs in self._read(plan, filter):
                kept.add(values, diffs)
            return self._distinct(kept.positive(), limit, plan, filter)
        known = pa.array([], self._type)
        while True:
            some = self._unread(plan, last=False)
            if some is None:
                return self._distinct(known, limit, plan, filter)
            for values, _ in self._read(some, filter):
                known = pc.unique(pa.concat_arrays([known, values]) if len(known) else values)
                if len(known) > limit:
                    return self._distinct(known, limit, plan, filter)
            if plan.mode in SKIPPING and 0 < len(known) <= LISTED_MAX:
                plan, filter = self._plan(self._none_of(known))

    def _distinct(
        self, values: pa.Array, limit: int, plan: ReadPlan, filter: Filter | None
    ) -> ValuesFound:
        ordered = values.take(pc.array_sort_indices(values))  # NaN comes last
        complete = len(ordered) <= limit
        return self._found(ordered[:limit], plan, filter, complete=complete)

    def _none_of(self, known: pa.Array) -> Condition:
        constants = [condition_constant(value) for value in known]
        listed = [constant for constant in constants if constant is not None]
        if len(listed) < len(constants):
            return self._some
        return And((Not(Among(self.column.name, listed, null=False)), self._some))

    def _of_all(self, plan: ReadPlan, filter: Filter | None, order: ValueOrder) -> ValuesFound:
        """Return the extreme of all rows of a plan."""
        best: list[pa.Scalar] = []
        kept, certain = ValueSums(), plan.monotonic
        for values, diffs in self._read(plan, filter):
            if certain:
                best = [order.best(joined_values(values, *best))]
            else:
                kept.add(values, diffs)
        there = kept.positive()
        return self._found([order.best(there)] if len(there) else best, plan, filter)

    def _found(
        self,
        values: Sequence[pa.Scalar] | pa.Array,
        plan: ReadPlan,
        filter: Filter | None,
        *,
        complete: bool = True,
    ) -> ValuesFound:
        if not isinstance(values, pa.Array):
            values = pa.repeat(values[0], 1) if values else pa.array([], self._type)
        return ValuesFound(values, complete, plan, filter, self.parts, self.size_bytes)

    def _plan(self, condition: Condition) -> tuple[ReadPlan, Filter | None]:
        """Return a plan for a condition, as far as a plain filter can say it, and its filter."""
        if self.at is None:
            return ReadPlan(self.state.name, MIN_TIME, "off"), None
        plain = weaker(self.state.relation, condition)
        if plain is None:
            plain = weaker(self.state.relation, self._some)
        filter = self.source.joined(plain)
        plan = plan_read(
            self.stores,
            self.state,
            as_of=self.at,
            filter=filter,
            pushdown=self.pushdown,
            mode=self.mode,
        )
        return plan, filter

    def _unread(self, plan: ReadPlan, *, last: bool) -> ReadPlan | None:
        """Return the plan of the next parts that are not read yet, from one end; None: of none."""
        left = self._step
        runs: list[PlannedRun] = []
        for run in reversed(plan.runs) if last else plan.runs:
            rows = self._unread_rows(run)
            chosen = rows[-left:] if last else rows[:left]
            if len(chosen):
                wanted = np.zeros(len(run.parts), np.bool_)
                wanted[chosen] = True
                runs.append(replace(run, parts=run.parts.chosen(wanted.tolist())))
                left -= len(chosen)
            if not left:
                break
        if not runs:
            return None
        self._step *= GROWTH
        some = replace(plan, runs=tuple(runs))
        self._seen.update(ref.key for ref in some.each())
        return some

    def _unread_rows(self, run: PlannedRun) -> "np.ndarray[Any, Any]":
        """Return which parts of a run are not read yet, as numbers."""
        if not self._seen:
            return np.arange(len(run.parts))
        seen = pa.array(sorted(self._seen), pa.string())
        masks: list[Bools] = [
            pc.is_in(table["key"], value_set=seen).to_numpy() for table in run.parts.tables()
        ]
        return np.flatnonzero(~np.concatenate([np.zeros(0, np.bool_), *masks]))

    def _read(
        self, plan: ReadPlan, filter: Filter | None
    ) -> Iterator[tuple[pa.Array, pa.Int64Array]]:
        """Yield the values of accepted rows that are not null, and their diffs."""
        self.parts += plan.parts_fetched
        self.size_bytes += plan.bytes_fetched
        for batch in self.source.rows(plan, filter):
            values, diffs = batch.column(self.column.name), batch.column(D)
            self._type = values.type
            there = pc.is_valid(values)
            if batch.num_rows and pc.any(there).as_py():
                yield one_form(values.filter(there)), diffs.filter(there)

    def _compared(self, operator: str, best: pa.Scalar) -> Condition:
        """Return the condition that a value is in this relation to the best one so far."""
        if pa.types.is_floating(best.type) and math.isnan(best.as_py()):
            # Nothing is above NaN, and everything but NaN is below
            name = self.column.name
            return {
                "<": Not(IsNan(name)),
                "<=": self._some,
                ">": And((IsNan(name), Not(IsNan(name)))),
                ">=": IsNan(name),
            }[operator]
        constant = condition_constant(best)
        return self._some if constant is None else Compare(self.column.name, operator, constant)

    def _end(self, order: ValueOrder) -> Value | None:
        """Return the outermost bound of the batches; None where one has none."""
        batches = readable_batches(self.state, self.at)
        name, side = column_name(self.column.id), "high" if order.greatest else "low"
        ends = []
        for union in stats_of(self.stores, self.state.name, batches):
            if union is None or name not in union.column_names:
                return None
            bounds = union[name].combine_chunks()
            if side not in {field.name for field in bounds.type}:
                return None
            ends += pc.struct_field(bounds, side).drop_null().to_pylist()
        known = [end for end in ends if not (isinstance(end, float) and math.isnan(end))]
        if not known:
            return None
        found = (max if order.greatest else min)(known, key=_key)
        return condition_constant(pa.scalar(found, pc.struct_field(bounds, side).type))


def _key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
