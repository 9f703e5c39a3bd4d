"""Read what changed between two times: rows whose counts differ, each with the difference.

    count at the second time - count at the first = sum of the diffs of the updates between them

So only parts with updates later than the first time are read, as their manifests say. The first
time is since or later, and compaction moves no update beyond since: it stays on its side.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from strata.decide.descent import resolve_as_of
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.format.columns import D, T, child
from strata.format.manifest import PartRef
from strata.model.time import format_time
from strata.parts.fetch import source_of
from strata.plain.clock import settled
from strata.plain.rows import accepted_rows, filter_columns
from strata.read.merged import merged, overlapping
from strata.read.scan import (
    OUT_ROWS,
    chosen_columns,
    scan_schema,
    viewed_column,
)
from strata.state.state import State
from strata.store.open import Stores
from strata.updates.slices import WHOLE


@dataclass(frozen=True)
class ChangePlan:
    """What a reader of the difference between two times fetches."""

    after: int  # the first time; its own updates are in both
    plan: ReadPlan  # of a read at the second time, with the same filter
    runs: tuple[tuple[PartRef, ...], ...]  # the parts of it that may hold later updates

    @property
    def parts(self) -> int:
        """Return how many parts are read."""
        return sum(len(run) for run in self.runs)

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes of these parts."""
        return sum(ref.size_bytes for run in self.runs for ref in run)


def plan_changed(
    stores: Stores,
    state: State,
    first: int,
    second: int | None = None,
    *,
    filter: Filter | None = None,
    pushdown: str | None = None,
) -> ChangePlan:
    """Return which parts may hold rows that differ between two times; None: the newest.

    Raises: InvalidRequest for times that cannot be read, or in the wrong order.
    """
    resolve_as_of(state, first)
    plan = plan_read(stores, state, as_of=second, filter=filter, pushdown=pushdown)
    if first > plan.as_of:
        raise InvalidRequest(
            "the first time is after the second",
            shard=state.name,
            first=f"{first} ({format_time(first)})",
            second=f"{plan.as_of} ({format_time(plan.as_of)})",
            cure="exchange them: a difference says what came from the first to the second",
        )
    runs = (
        tuple(ref for ref in run if ref.t_high > first) for run in overlapping(state, plan, WHOLE)
    )
    return ChangePlan(first, plan, tuple(run for run in runs if run))


def changed_schema(state: State, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema of what `changed_rows` yields."""
    schema = scan_schema(state.relation, columns)
    return schema.remove(schema.get_field_index(T))


def changed_rows(
    stores: Stores,
    state: State,
    wanted: ChangePlan,
    *,
    filter: Filter | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield each row whose count differs between the times of a plan, in order, once.

    Shape: the chosen columns by name, then d, by how much the count grew: never 0, unless rows
    differ only in columns that are not chosen. `filter`: a plain one, that of the plan.
    Raises: InvalidRequest for an unknown column; Corrupt naming shard and part.
    """
    relation, shown = state.relation, columns
    if filter is not None and columns is not None:
        read = (column.name for column in filter_columns(filter.expr))
        shown = list(dict.fromkeys([*columns, *read]))
    chosen, schema = chosen_columns(relation, shown), changed_schema(state, shown)
    names = [field.name for field in changed_schema(state, columns)]
    source, plan = source_of(stores.blob, state), wanted.plan

    def seen() -> Iterator[pa.RecordBatch]:
        for rows in merged(source, wanted.runs, plan.as_of, WHOLE, plan.groups, wanted.after):
            views = [viewed_column(rows.column(child(c.id)), c.type) for c in chosen]
            table = pa.Table.from_arrays([*views, rows.column(D)], schema=schema)
            yield from table.to_batches(OUT_ROWS)

    return seen() if filter is None else accepted_rows(seen(), settled(filter), names)
