"""Read the rows of a shard on which a plain filter is true, without Java."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from strata.decide.read_plan import ReadPlan
from strata.expr.filter import Filter
from strata.expr.nodes import Expr
from strata.format.columns import child
from strata.format.values.view import has_view, to_view
from strata.model.schema import Relation
from strata.model.settings import ReadSettings
from strata.parts.look import Look
from strata.plain.clock import settled
from strata.plain.rows import accepted_rows, accepts, filter_columns
from strata.read.scan import DEFAULTS, chosen_columns, scan, scan_schema
from strata.state.state import State
from strata.store.open import Stores


def filtered_scan(  # noqa: PLR0913 - as `scan`
    stores: Stores,
    state: State,
    plan: ReadPlan,
    filter: Filter | None,
    *,
    columns: Sequence[str] | None = None,
    consolidate: bool = False,
    timed: bool = False,
    settings: ReadSettings = DEFAULTS,
) -> Iterator[pa.RecordBatch]:
    """Yield the planned rows that a filter of `strata.plain.parse` accepts; all without a filter.

    Shape: as `strata.read.scan`; the columns that only the filter reads are left out.
    """
    wanted = columns
    if filter is not None and columns is not None:
        read = (column.name for column in filter_columns(filter.expr))
        wanted = list(dict.fromkeys([*columns, *read]))
    expr = None if filter is None else settled(filter)
    rows = scan(
        stores,
        state,
        plan,
        columns=wanted,
        consolidate=consolidate,
        timed=timed,
        settings=settings,
        look=None if expr is None else _look(state.relation, expr, wanted),
    )
    if expr is None:
        return rows
    return accepted_rows(rows, expr, scan_schema(state.relation, columns).names)


def _look(relation: Relation, expr: Expr, wanted: Sequence[str] | None) -> Look | None:
    """Return how to look at a filter's columns first; None if there are no others to be read."""
    names = list(dict.fromkeys(column.name for column in filter_columns(expr)))
    if not names or {c.name for c in chosen_columns(relation, wanted)} <= set(names):
        return None
    chosen = chosen_columns(relation, names)

    def accepted(batch: pa.RecordBatch) -> pa.BooleanArray:
        stored = [(batch.column(child(c.id)), c.type) for c in chosen]
        shown = [to_view(one, kind) if has_view(kind) else one for one, kind in stored]
        return accepts(pa.RecordBatch.from_arrays(shown, names), expr)

    return Look(frozenset(c.id for c in chosen), accepted)
