"""Read a shard: yield the rows of planned parts, as of one time, as record batches.

`scan` drops later updates and moves earlier times up to `as_of`. With `consolidate` all runs go
through the merge kernel, and each row comes once with its count. Without it, rows are at most
consolidated within a part, and a row may come several times with counts that add up.

Columns have the form of `strata.format.values.view`, the same that Spark sees: a uuid as text, an
unsigned integer as the next wider signed one. `stored=True` gives them as they are held.

`strata.decide.plan` decides which parts are read.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.format.columns import D, T, child, updates_schema
from strata.format.encodings import arrow_type
from strata.format.manifest import PartRef
from strata.format.values.view import has_view, to_view, view_type
from strata.model.schema import Column, Relation
from strata.model.settings import ReadSettings
from strata.model.types import ColumnType
from strata.parts.fetch import PartSource, part_batches, part_bytes, source_of
from strata.parts.look import Look
from strata.parts.prefetch import Wanted, parts_ahead
from strata.read.as_of import as_of_view, may_add_up, until
from strata.read.merged import merged_plan
from strata.state.state import State
from strata.store.open import Stores
from strata.updates.consolidate import consolidate as add_up
from strata.updates.cut import cut
from strata.updates.slices import WHOLE, Slice

DEFAULTS: Final = ReadSettings()
OUT_ROWS: Final = 65_536  # rows of a yielded record batch


def scan(  # noqa: PLR0913 - what to read, and how it is shown
    stores: Stores,
    state: State,
    plan: ReadPlan,
    *,
    columns: Sequence[str] | None = None,
    consolidate: bool = False,
    within: Slice = WHOLE,
    stored: bool = False,
    timed: bool = False,
    settings: ReadSettings = DEFAULTS,
    look: Look | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the planned rows as of the plan's time.

    Shape: the chosen columns by name, all if None, then t (the same in all rows) and d; in the
    order of the relation if consolidated. The schema is `scan_schema`; `stored` leaves values as
    they are held in memory, and `timed`, without `consolidate`, leaves t as it is stored. Reading
    only `within` a slice requires `consolidate`. `look` may leave out rows that a filter
    does not accept. The slices of `slices` cover the key space once.
    Raises: InvalidRequest for an unknown column; Corrupt naming shard and part.
    """
    relation = state.relation
    chosen = chosen_columns(relation, columns)
    source = source_of(stores.blob, state)
    ids = None if columns is None else frozenset(c.id for c in chosen)
    if consolidate:
        updates = merged_plan(
            source, state, plan, within, columns=ids, settings=settings, look=look
        )
    elif within != WHOLE:
        raise InvalidRequest("a slice can only be read consolidated", cure="consolidate=True")
    else:
        updates = _by_part(source, plan, Wanted(ids, plan.groups, look), settings, timed=timed)
    schema = scan_schema(relation, columns, stored=stored)
    viewed = [] if stored else [(i, c) for i, c in enumerate(chosen) if has_view(c.type)]
    for rows in updates:
        arrays = [rows.column(child(c.id)) for c in chosen]
        for number, column in viewed:
            arrays[number] = viewed_column(arrays[number], column.type)
        named = pa.Table.from_arrays([*arrays, rows.column(T), rows.column(D)], schema=schema)
        yield from named.to_batches(OUT_ROWS)


def slices(state: State, plan: ReadPlan, slice_bytes: int) -> list[Slice]:
    """Return slices of the key space with about `slice_bytes` of stored parts each.

    Readers that share a consolidated scan among tasks use them: no row is in two slices.
    Memory: all parts of the plan; `strata.read.stretches` cuts one of very many parts.
    """
    return cut(plan.fetched, state.relation, state.relations, slice_bytes, plan.groups)


def scan_schema(
    relation: Relation, columns: Sequence[str] | None = None, *, stored: bool = False
) -> pa.Schema:
    """Return the schema of what `scan` yields."""
    ids, shape = updates_schema(relation), arrow_type if stored else view_type
    fields = [pa.field(c.name, shape(c.type)) for c in chosen_columns(relation, columns)]
    return pa.schema([*fields, ids.field(T), ids.field(D)])


def viewed_column(column: pa.ChunkedArray, column_type: ColumnType) -> pa.ChunkedArray:
    """Return a stored column in the form that readers see."""
    chunks = [to_view(chunk, column_type) for chunk in column.chunks]
    return pa.chunked_array(chunks, view_type(column_type))


def chosen_columns(relation: Relation, columns: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the requested columns, in that order; all columns for None.

    Raises: InvalidRequest for an unknown name.
    """
    return relation.columns if columns is None else tuple(relation.column(n) for n in columns)


def read_updates(stores: Stores, state: State, ref: PartRef) -> pa.Table:
    """Return all updates of one part in the newest columns, with times as stored.

    Raises: Corrupt, naming shard and part.
    """
    source = source_of(stores.blob, state)
    batches = part_batches(source, ref, data=part_bytes(source, ref))
    return pa.Table.from_batches(batches, schema=updates_schema(state.relation))


def _by_part(
    source: PartSource,
    plan: ReadPlan,
    wanted: Wanted,
    settings: ReadSettings,
    *,
    timed: bool = False,
) -> Iterator[pa.Table]:
    """Yield the rows of each part; equal neighbours are added up where that may help.

    Rows that differ only in columns that are not requested stay apart, so the number of rows does
    not depend on the chosen columns.
    """
    for ref, batches in parts_ahead(source, plan.each(), wanted, settings):
        for batch in batches:
            shown = until if timed else as_of_view
            rows = shown(pa.Table.from_batches([batch]), plan.as_of, ref.t_high)
            if wanted.columns is None and not timed and may_add_up(ref, plan.as_of):
                rows = add_up(rows, source.relation)  # of neighbours, sorted or not
            if rows.num_rows:
                yield rows
