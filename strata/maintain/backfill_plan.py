"""Plan a backfill: which parts lack statistics that are asked for, from their manifests alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.kernels.arrays import Bools
from strata.maintain.collect import lacks_members, pairs_wanted, wanted_of
from strata.maintain.estimate import Cost, estimate
from strata.maintain.exchange import PARTIAL, Limit, Selection, manifest_of
from strata.state.state import Batch, State
from strata.stats import STATS_VERSION
from strata.stats.members import Sought
from strata.stats.pairs import SoughtPair, fits_later
from strata.stats.wire import bloom_name, column_name, set_name
from strata.store.open import Stores


@dataclass(frozen=True, slots=True)
class Lacking:
    """What a backfill collects from one part."""

    bounds: bool  # bounds and counts, not only values
    wanted: tuple[Sought, ...]
    pairs: tuple[SoughtPair, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """Return the columns of these places and pairs."""
        of_pairs = (i for one in self.pairs for i in one.ids)
        return tuple(sorted({*(one.column.id for one in self.wanted), *of_pairs}))


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The parts of one batch to read, and what for."""

    batch: Batch
    parts: tuple[PartRef, ...]
    asked: tuple[Lacking, ...]


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """What a backfill would read."""

    batches: tuple[BatchPlan, ...]
    stats_bytes: int  # of all parts in the selected times
    cost: Cost

    @property
    def parts(self) -> int:
        """Return how many parts are selected."""
        return sum(len(batch.parts) for batch in self.batches)

    @property
    def size_bytes(self) -> int:
        """Return the size of the selected parts."""
        return sum(part.size_bytes for batch in self.batches for part in batch.parts)


def plan_backfill(stores: Stores, state: State, selection: Selection) -> BackfillPlan:
    """Return the parts that `backfill_shard` would read, batch by batch in time order.

    Raises: InvalidRequest for an unknown column. Cost: one manifest a batch, in part.
    """
    names = [column_name(column_id) for column_id in selection.ids(state.relation)]
    wanted, pairs = wanted_of(state, selection), pairs_wanted(state, selection)
    budget = state.spec.stats.budget_bytes
    members = [f(one.name) for one in wanted for f in (set_name, bloom_name)]
    members += [one.name for one in pairs]
    limit, plans, stats_bytes = Limit(selection), [], 0
    for batch in filter(selection.covers, state.batches):
        table = manifest_of(stores, state.name, batch, [*SCHEMA.names, *names, *members])
        if table is None:  # merged away since the state was loaded
            continue
        in_time = selection.in_time(table)
        stats_bytes += int(table["stats_bytes"].to_numpy()[in_time].sum())
        bounds = _lacks(table, names, selection)
        lacking = [lacks_members(table, one) | bounds for one in wanted]
        lacking += [fits_later(one, table, budget) | bounds for one in pairs]
        chosen = in_time & np.logical_or.reduce([bounds, *lacking])
        rows = np.flatnonzero(chosen).tolist()
        rows = limit.take(rows, _sizes(table, rows))
        if rows:
            parts = part_refs(table.take(pa.array(rows)))
            work = [_asked((*wanted, *pairs), lacking, bounds, row) for row in rows]
            plans.append(BatchPlan(batch, tuple(parts), tuple(work)))
    parts = [part for plan in plans for part in plan.parts]
    cost = estimate(stores, state.name, parts, whole=not names)
    return BackfillPlan(tuple(plans), stats_bytes, cost)


def _asked(
    wanted: Sequence[Sought | SoughtPair], lacking: Sequence[Bools], bounds: Bools, row: int
) -> Lacking:
    some = [one for one, lacks in zip(wanted, lacking, strict=True) if lacks[row]]
    return Lacking(
        bool(bounds[row]),
        tuple(one for one in some if isinstance(one, Sought)),
        tuple(one for one in some if isinstance(one, SoughtPair)),
    )


def _sizes(table: pa.Table, rows: Sequence[int]) -> list[int]:
    return list(table["size_bytes"].take(pa.array(rows, pa.int64())).to_pylist())


def _lacks(table: pa.Table, names: Sequence[str], selection: Selection) -> Any:
    """Return which parts of a manifest lack requested statistics. Shape: a mask."""
    if selection.again:
        return np.ones(table.num_rows, bool)
    versions = pc.fill_null(table["stats_version"], -1).to_numpy()
    wanted = STATS_VERSION if selection.version is None else selection.version
    if not names:
        return versions < wanted
    old = (versions < wanted) & (versions != PARTIAL)
    for name in names:
        if name not in table.column_names:
            return np.ones(table.num_rows, bool)
        old |= ~pc.is_valid(table[name]).to_numpy()
    return old
