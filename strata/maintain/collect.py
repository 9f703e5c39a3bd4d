"""The tasks of a backfill, part by part, which may run on another machine."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import Corrupt
from strata.format.manifest import PartRef
from strata.kernels.arrays import Bools
from strata.maintain.exchange import Selection
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.parts.fetch import PartSource, part_batches
from strata.parts.members import with_members
from strata.state.state import State
from strata.stats import collect, concat, union
from strata.stats.members import Gathering, Sought, check_members, wanted_places
from strata.stats.pairs import PairGathering, SoughtPair, wanted_pairs
from strata.stats.shapes import Shapes
from strata.stats.wire import BLOOM, ROWS, SET, bloom_name, set_name
from strata.store.open import open_stores

_ROW_HALF: Final = "row"


@dataclass(frozen=True, slots=True)
class CollectTask:
    """One part to read; picklable."""

    settings: StoreSettings
    shard: str
    relations: tuple[Relation, ...]
    read_format: str
    part: PartRef
    columns: tuple[int, ...] | None  # None: all
    wanted: tuple[Sought, ...] = ()  # places whose values are collected
    pairs: tuple[SoughtPair, ...] = ()  # whose differences are collected
    members_only: bool = False  # the part has its other statistics
    prefix: str = ""  # of new parts' keys: bloom filters lie beside them
    keep: tuple[str, ...] = ()  # patterns of paths that come first
    used: frozenset[str] = frozenset()  # statistics of paths that come next
    same: frozenset[str] = frozenset()  # and of those that come last

    @property
    def read_bytes(self) -> int:
        """Return how many stored bytes the task reads at most."""
        return self.part.size_bytes


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of reading one part."""

    stats: pa.RecordBatch | None
    problem: str = ""  # why there are none
    members_only: bool = False  # the statistics are only of values, and of pairs


def collect_part(task: CollectTask) -> Collected:
    """Return the untrimmed statistics of one part, in the newest relation; store bloom filters.

    An unreadable part is no error here: it may have been merged away and deleted.
    Cost: reads the part, holding one batch of its rows at a time.
    """
    blob = open_stores(task.settings).blob
    source = PartSource(blob, task.shard, task.relations, task.read_format)
    pieces, counts, members = [], [], Gathering(task.wanted)
    shapes, pairs = Shapes(source.relation), PairGathering(task.pairs)
    try:
        for batch in part_batches(source, task.part, columns=task.columns, threads=False):
            pieces.append(
                collect(
                    batch,
                    source.relation,
                    task.keep,
                    used=task.used,
                    same=task.same,
                    shapes=shapes,
                )
            )
            counts.append(batch.num_rows)
            members.add(batch)
            shapes.add(batch)
            pairs.add(batch)
    except Corrupt as error:
        return Collected(None, str(error))
    known = union(concat(pieces, counts))
    row = known
    if row is None or task.members_only:
        row = pa.RecordBatch.from_arrays([pa.array([sum(counts)], pa.int64())], names=[ROWS])
    row = pairs.beside(shapes.beside(row))
    stats = with_members(blob, task.prefix, row, members.finish(known))
    return Collected(stats, members_only=task.members_only)


def half_of(state: State, part: PartRef) -> str:
    """Return the encoding of a part that readers use: statistics must describe what they see."""
    read_rows = state.spec.read_format == _ROW_HALF and part.layout != "structured"
    return _ROW_HALF if read_rows or part.layout == _ROW_HALF else "structured"


def wanted_of(state: State, selection: Selection) -> tuple[Sought, ...]:
    """Return the places whose values a backfill collects: declared ones, and those named for it.

    Raises: InvalidRequest for a name that leads to no such place.
    """
    spec, relation = state.spec.stats, state.relation
    named = replace(spec, sets=selection.sets, blooms=selection.blooms, pairs=())
    check_members(relation, named, state.name)
    spec = replace(
        spec, sets=(*spec.sets, *selection.sets), blooms=(*spec.blooms, *selection.blooms)
    )
    ids = selection.ids(relation)
    found = wanted_places(relation, spec)
    return tuple(one for one in found if not ids or one.column.id in ids)


def pairs_wanted(state: State, selection: Selection) -> tuple[SoughtPair, ...]:
    """Return the pairs that a backfill collects: those declared whose columns are both read."""
    found, ids = wanted_pairs(state.relation, state.spec.stats), selection.ids(state.relation)
    return tuple(one for one in found if not ids or one.ids <= {*ids})


def lacks_members(table: pa.Table, wanted: Sought) -> Bools:
    """Return which parts of a manifest lack what is wanted of the values at a place.

    Where nothing can be known a part says so, and lacks nothing.
    """
    sets = _column(table, set_name(wanted.name), SET)
    form = pc.fill_null(sets.field("form"), "")
    there, today = np.asarray(sets.is_valid()), np.asarray(pc.equal(form, wanted.form))
    lacking: Bools = ~there | (np.asarray(pc.not_equal(form, "")) & ~today)
    if wanted.bloom:
        blooms = _column(table, bloom_name(wanted.name), BLOOM)
        answered = sets.field("values").is_valid(), blooms.is_valid()
        lacking |= today & ~np.asarray(answered[0]) & ~np.asarray(answered[1])
    return lacking


def _column(table: pa.Table, name: str, kind: pa.StructType) -> pa.StructArray:
    if name not in table.column_names or table[name].type != kind:
        return pa.nulls(table.num_rows, kind)
    return table[name].combine_chunks()
