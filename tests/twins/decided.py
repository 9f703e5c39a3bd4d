"""The slow twin of `strata.decide`: a verdict at a time, on tables of one row."""

from dataclasses import dataclass

import pyarrow as pa

from strata.decide.decision import decide
from strata.decide.descent import load_manifest
from strata.decide.row_groups import group_stats, wants_groups
from strata.expr.filter import Filter
from strata.format.manifest import PartRef, part_refs, stats_columns
from strata.parts.unions import batch_stats
from strata.state.state import Batch, State
from strata.stats.absent import fill_absent
from strata.store.open import Stores


@dataclass(frozen=True)
class Decided:
    """What a read with pushdown on does with one part."""

    ref: PartRef
    batch: Batch
    by_batch: bool  # the union of the batch rules it out
    keep: bool
    groups: tuple[int, ...]  # that are left out of a part that is kept
    stats: pa.RecordBatch  # all that is known of it, one row
    suspect: bool


def decided(
    stores: Stores, state: State, filter: Filter, as_of: int | None = None
) -> list[Decided]:
    """Return the verdict on each part with updates at or before `as_of`, in stored order."""
    found = []
    for batch in state.batches:
        if batch.manifest is None or (as_of is not None and batch.lower > as_of):
            continue
        by_batch = _ruled_out(stores, state, batch, filter)
        manifest = load_manifest(stores, state, batch)
        for number, ref in enumerate(part_refs(manifest)):
            if as_of is None or ref.t_low <= as_of:
                row = manifest.slice(number, 1)
                found.append(_part(state, batch, row, ref, filter, by_batch=by_batch))
    return found


def _part(
    state: State, batch: Batch, row: pa.Table, ref: PartRef, filter: Filter, *, by_batch: bool
) -> Decided:
    stats = fill_absent(stats_columns(row), [ref.relation_version], state.relations)
    suspect = ref.key in state.rollout.quarantine
    keep = suspect or (not by_batch and _may(state, filter, stats))
    groups: tuple[int, ...] = ()
    if keep and not suspect:
        groups = _groups_left_out(state, row, stats, filter)
    one = stats.combine_chunks().to_batches()[0]
    return Decided(ref, batch, by_batch, keep, groups, one, suspect)


def _may(state: State, filter: Filter, stats: pa.Table) -> bool:
    quarantine = state.rollout.quarantine
    return bool(decide(filter, stats, state.relation, quarantine=quarantine).keep[0])


def _ruled_out(stores: Stores, state: State, batch: Batch, filter: Filter) -> bool:
    union = batch_stats(stores.blob, state.name, batch)
    if union is None or any("/" in word for word in state.rollout.quarantine):
        return False
    if "rows" not in union.column_names or union["rows"][0].as_py() != batch.updates:
        return False
    return not _may(state, filter, fill_absent(union, [max(batch.versions)], state.relations))


def _groups_left_out(
    state: State, row: pa.Table, stats: pa.Table, filter: Filter
) -> tuple[int, ...]:
    known = group_stats(row, stats, state.relations)
    if known is None or not wants_groups(filter, state.relation):
        return ()
    every = range(known.stats.num_rows)
    return tuple(i for i in every if not _may(state, filter, known.stats.slice(i, 1)))
