"""Read the rows of a shard on which a plain filter is true, without Java."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from strata.decide.read_plan import ReadPlan
from strata.expr.filter import Filter
from strata.model.settings import ReadSettings
from strata.plain.clock import settled
from strata.plain.rows import accepted_rows, filter_columns
from strata.read.scan import DEFAULTS, scan, scan_schema
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
    rows = scan(
        stores,
        state,
        plan,
        columns=wanted,
        consolidate=consolidate,
        timed=timed,
        settings=settings,
    )
    if filter is None:
        return rows
    names = scan_schema(state.relation, columns).names
    return accepted_rows(rows, settled(filter), names)
