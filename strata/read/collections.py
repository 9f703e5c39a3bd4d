"""Logical shards: make, list and read the collections of a shard by name.

A collection is read through the key bounds of the manifests, not through statistics. Its rows are
one slice of the key space, so a read fetches only the parts and row groups that overlap the slice.
This holds in every rollout mode. Parts in another sort order or in quarantine are fetched whole;
rows of other collections are always left out.

Source: docs/how-to/collections.md.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.plan import plan_read
from strata.decide.read_plan import PlannedRun, ReadPlan
from strata.errors import Conflict, InvalidRequest
from strata.format.manifest import PartRef
from strata.format.values.sortable import sortable_bytes
from strata.machine.machine import Machine
from strata.model.near import one_of
from strata.model.schema import Relation
from strata.read.scan import chosen_columns, scan
from strata.rollout.kill import is_killed
from strata.state.catalog import (
    Catalog,
    decode_catalog,
    encode_catalog,
    set_catalog,
    with_collections,
)
from strata.state.state import State
from strata.store.keys import catalog_key, content_hash
from strata.store.named import get_named
from strata.store.open import Stores
from strata.store.retry import retry
from strata.updates.order import round_up
from strata.updates.slices import WHOLE, Slice, end_of, has_keys_of, overlapping_groups

TRIES: Final = 20  # lost races before Conflict is raised
END: Final = bytes([255]) * 256  # sorts after every key that begins with a collection's name


@dataclass(frozen=True, slots=True)
class Figures:
    """What a read of one collection touches."""

    name: str
    parts: int
    size_bytes: int  # of the whole parts


def load_catalog(stores: Stores, state: State) -> Catalog | None:
    """Return the collections of a shard; None if it has none.

    Raises: Corrupt when the catalog is missing or damaged.
    """
    if state.catalog is None:
        return None
    what = "the catalog of collections"
    return decode_catalog(get_named(stores.blob, state.catalog, what, shard=state.name))


def create_collections(
    machine: Machine, shard: str, names: Sequence[str], note: str = ""
) -> Catalog:
    """Make collections in one commit; existing ones stay unchanged.

    Raises: InvalidRequest for an invalid name, or a shard that cannot have collections; Conflict
    after many lost races.
    """
    stores = machine.stores
    for _ in range(TRIES):
        state = machine.load(shard)
        known = load_catalog(stores, state)
        catalog = with_collections(known, state, stores.clock(), names, note)
        if catalog == known:
            return catalog
        data = encode_catalog(catalog)
        key = catalog_key(shard, content_hash(data), state.generation)
        retry(partial(stores.blob.set, key, data))
        try:
            machine.apply(
                shard,
                partial(set_catalog, expected=state.catalog, key=key, generation=state.generation),
            )
        except Conflict:
            continue
        return catalog
    raise Conflict("others made collections faster every time", shard=shard, cure="run again")


def column_of(stores: Stores, state: State, name: str) -> str:
    """Return the name of the column that distinguishes collections, if collection `name` exists.

    Raises: InvalidRequest, naming the nearest and a few existing ones.
    """
    catalog = load_catalog(stores, state)
    if catalog is None or name not in catalog.by_name:
        known = [] if catalog is None else list(catalog.by_name)
        raise InvalidRequest(
            "no such collection",
            shard=state.name,
            collection=name,
            cure=one_of(name, known) if known else f"strata collection create {state.name} {name}",
        )
    return state.relation.by_id[catalog.column].name


def slice_of(relation: Relation, column: str, name: str) -> Slice:
    """Return the slice of the key space that holds a collection; WHOLE if there is none.

    Errs: may include rows of other collections, never leaves out one of this collection.
    """
    if relation.sort_ids[0] != relation.column(column).id:
        return WHOLE
    low = sortable_bytes(pa.array([name]))[0].as_py()
    return Slice(low, round_up(low))


def narrowed(stores: Stores, state: State, plan: ReadPlan, column: str, name: str) -> ReadPlan:
    """Return the plan without the parts and row groups that hold no row of a collection.

    The kill switch leaves the plan as it is.
    """
    if is_killed(stores):
        return plan
    within = slice_of(state.relation, column, name)
    runs: list[PlannedRun] = []
    groups = dict(plan.groups)
    for run in plan.runs:
        inside = [_groups(state, ref, within, plan.groups) for ref in run.parts]
        kept = run.parts.chosen([chosen != [] for chosen in inside])
        some = [chosen for chosen in inside if chosen != []]
        groups |= {ref.key: tuple(g) for ref, g in zip(kept, some, strict=True) if g is not None}
        if kept:
            runs.append(replace(run, parts=kept))
    return replace(plan, runs=tuple(runs), groups=groups)


@dataclass(frozen=True)
class CollectionRead:
    """The plan of a read of one collection."""

    name: str
    column: str  # the column that distinguishes collections
    plan: ReadPlan
    parts_total: int  # of the shard, at this time
    bytes_total: int


def planned_collection(
    stores: Stores, state: State, name: str, *, as_of: int | None = None
) -> CollectionRead:
    """Return what a read of one collection fetches.

    Raises: as `column_of` and `plan_read`.
    """
    column = column_of(stores, state, name)
    plan = plan_read(stores, state, as_of=as_of, mode="off")
    narrow = narrowed(stores, state, plan, column, name)
    return CollectionRead(name, column, narrow, plan.parts_fetched, plan.bytes_fetched)


def scan_collection(
    stores: Stores,
    state: State,
    wanted: CollectionRead,
    *,
    columns: Sequence[str] | None = None,
    consolidate: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one collection from its plan, as `strata.read.scan` does.

    Raises: as `scan`.
    """
    shown = [c.name for c in chosen_columns(state.relation, columns)]
    column, name = wanted.column, wanted.name
    batches = scan(
        stores,
        state,
        wanted.plan,
        columns=list(dict.fromkeys([*shown, column])),
        consolidate=consolidate,
        within=slice_of(state.relation, column, name) if consolidate else WHOLE,
    )
    for batch in batches:
        rows = batch.filter(pc.equal(batch.column(column), name))
        if rows.num_rows:
            yield rows.select([*shown, "t", "d"])


def figures(stores: Stores, state: State) -> list[Figures]:
    """Return what a read of each collection touches, by name.

    Cost: all manifests, and a little for each collection in each part.
    """
    catalog = load_catalog(stores, state)
    if catalog is None:
        return []
    names = sorted(catalog.by_name)
    lows = sortable_bytes(pa.array(names, pa.string())).to_pylist()
    ends = [round_up(low) or END for low in lows]  # rows of a collection lie in [low, end)
    parts, sizes = [0] * len(names), [0] * len(names)
    leads = state.relation.sort_ids[0] == catalog.column
    for ref in plan_read(stores, state, mode="off").fetched:
        first, last = 0, len(names)
        if leads and has_keys_of(ref, state.relation, state.relations):
            first = bisect_right(ends, ref.key_low)
            end = end_of(ref.key_high)
            last = last if end is None else bisect_left(lows, end)
        for number in range(first, last):
            parts[number] += 1
            sizes[number] += ref.size_bytes
    return [Figures(*found) for found in zip(names, parts, sizes, strict=True)]


def _groups(
    state: State, ref: PartRef, within: Slice, planned: Mapping[str, tuple[int, ...]]
) -> list[int] | None:
    """Return the row groups of a part to read; None is all, [] none."""
    if ref.key in state.rollout.quarantine:
        return None
    inside = overlapping_groups(ref, within, state.relation, state.relations)
    if inside is None or ref.key not in planned:
        return inside
    return [number for number in inside if number in planned[ref.key]]
