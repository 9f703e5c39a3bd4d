"""Read rows written in an older relation version, and correct the digest for it.

A part records the digest of its rows in the columns that it was written with. A merge writes the
newest columns: a dropped column no longer counts, a default does. So the sum of the recorded
digests is not the digest of the output. Both sides of the comparison are found while the rows pass:

    recorded digest of a part  =  sum over its rows in the columns it was written with
    digest of the output       =  sum of the recorded ones + (newest - written), over these rows

Both are sums over rows, so each task may see only some of the rows. Parts whose digest cannot have
changed do not come here; their recorded digest is the one to compare.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from strata.errors import Corrupt
from strata.format.columns import D, child, updates_schema
from strata.format.digest import content_digest, row_hashes
from strata.format.manifest import PartRef
from strata.format.part import BATCH_ROWS
from strata.format.values.migrate import check_widens, default_array, widen
from strata.model.schema import Relation
from strata.parts.fetch import SPILL_BYTES, PartSource, RowBudget, part_batches, sorted_runs
from strata.parts.manifests import CURE
from strata.updates.order import is_sorted, one_chunk, sort_updates
from strata.updates.slices import WHOLE, Slice, keeps_order, rows_of
from strata.updates.stream import spilled

MODULUS: Final = 2**64
WRITTEN: Final = "written"  # a column of d * hash in the columns that a part was written with

Rows: TypeAlias = pa.Table | pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Crossed:
    """Digests of the rows of one part that a task has read."""

    key: str  # of the part
    written: int  # in the columns it was written with
    newest: int  # in the newest ones


@dataclass
class DigestTally:
    """Adds up the digests of crossing rows, part by part."""

    _found: dict[str, Crossed] = field(default_factory=dict)

    def add(self, key: str, written: int, newest: int) -> None:
        """Count some rows of a part."""
        old = self._found.get(key, Crossed(key, 0, 0))
        self._found[key] = Crossed(
            key, (old.written + written) % MODULUS, (old.newest + newest) % MODULUS
        )

    def crossed(self) -> tuple[Crossed, ...]:
        """Return the sums, by part key."""
        return tuple(self._found[key] for key in sorted(self._found))


def crosses(version: int, relations: Sequence[Relation]) -> bool:
    """Return whether rows of a relation version may have another digest in the newest one.

    Neither a name nor a column that is null in every row changes a digest.
    Raises: Corrupt for an unknown version.
    """
    old, new = _version(version, relations), relations[-1]
    dropped_or_widened = any(
        column.id not in new.by_id or new.by_id[column.id].type != column.type
        for column in old.columns
    )
    return dropped_or_widened or any(
        column.id not in old.by_id and column.default is not None for column in new.columns
    )


def crossing_runs(
    source: PartSource,
    parts: Sequence[PartRef],
    tally: DigestTally,
    *,
    within: Slice = WHOLE,
    batches: RowBudget = RowBudget(),  # noqa: B008 -- a value that never changes
    together_bytes: int,
) -> list[Iterable[Rows]]:
    """Return the parts of one run as `sorted_runs` does, and tally the rows that cross.

    Raises: as `sorted_runs`.
    """
    crossing = [crosses(ref.relation_version, source.relations) for ref in parts]
    if not any(crossing):
        return list(
            sorted_runs(
                source, parts, within=within, batches=batches, together_bytes=together_bytes
            )
        )
    source = replace(source, coded=False)
    if all(keeps_order(ref, source.relation, source.relations) for ref in parts):
        return [_run(source, parts, tally, within, batches)]
    return [_resorted(source, ref, tally, within) for ref in parts]


def expected_shift(
    parts: Sequence[PartRef],
    crossed: Iterable[Crossed],
    relations: Sequence[Relation],
    shard: str,
) -> int:
    """Return what crossing adds to the digests of `parts`, all inputs of a merge.

    Raises: Corrupt for a part whose rows contradict the recorded digest.
    """
    recorded: dict[str, int] = {}
    for ref in parts:  # a part may be in two runs
        recorded[ref.key] = (recorded.get(ref.key, 0) + ref.digest) % MODULUS
    tally, shift = DigestTally(), 0
    for found in crossed:
        tally.add(found.key, found.written, found.newest)
    sums: Mapping[str, Crossed] = {found.key: found for found in tally.crossed()}
    cross = {ref.key for ref in parts if crosses(ref.relation_version, relations)}
    for key in sorted({*cross, *sums}):
        found = sums.get(key, Crossed(key, 0, 0))
        if found.written != recorded.get(key, 0):
            raise Corrupt(
                "a part does not hold what was recorded when it was written",
                shard=shard,
                part=key,
                field="digest",
                found=found.written,
                recorded=recorded.get(key, 0),
                cure=CURE,
            )
        shift += found.newest - found.written
    return shift % MODULUS


def migrated(rows: Rows, old: Relation, new: Relation) -> pa.Table:
    """Return updates in the columns of a newer relation version.

    Shape: `updates_schema(new)`, then the other columns of `rows`.
    Raises: Corrupt when the versions contradict each other.
    """
    arrays: dict[str, pa.Array | pa.ChunkedArray] = {}
    for column in new.columns:
        before = old.by_id.get(column.id)
        if before is None:
            arrays[child(column.id)] = default_array(column, rows.num_rows)
        else:
            check_widens(before, column)
            arrays[child(column.id)] = widen(one_chunk(rows.column(child(column.id))), column)
    gone = {child(column.id) for column in old.columns}
    arrays |= {name: rows.column(name) for name in rows.schema.names if name not in gone}
    return pa.table(arrays)


def _run(
    source: PartSource,
    parts: Sequence[PartRef],
    tally: DigestTally,
    within: Slice,
    batches: RowBudget,
) -> Iterator[Rows]:
    for ref in parts:
        count = batches.rows_of(ref, source.row_group_bytes)
        for batch in _weighted(source, ref, count):
            yield from _taken(source, ref, tally, batch, within)


def _resorted(
    source: PartSource, ref: PartRef, tally: DigestTally, within: Slice
) -> Iterator[Rows]:
    """Yield the rows of one part, sorted; they are spilled to disk unless they are few."""
    batches = list(_weighted(source, ref, BATCH_ROWS))
    if not batches:
        return
    rows = pa.concat_tables(batches)
    del batches
    if not is_sorted(rows, source.relation):
        rows = sort_updates(rows, source.relation)
    (taken,) = [*_taken(source, ref, tally, rows, within)] or [None]
    del rows
    if taken is None or taken.nbytes <= SPILL_BYTES:
        yield from () if taken is None else (taken,)
        return
    aside = spilled(iter([taken]), updates_schema(source.relation))
    first = next(aside)  # all of it is on disk now
    del taken
    yield first
    yield from aside


def _weighted(source: PartSource, ref: PartRef, batch_rows: int) -> Iterator[pa.Table]:
    """Yield a part in the newest columns, and d * hash in the columns it was written with.

    Reads all row groups, since key bounds in other columns say nothing about a slice.
    """
    old = _version(ref.relation_version, source.relations)
    as_written = replace(source, relations=(*source.relations, old))
    for batch in part_batches(as_written, ref, batch_rows=batch_rows):
        diffs = one_chunk(batch.column(D)).to_numpy().view(np.uint64)
        weights = pa.array(diffs * row_hashes(batch, old), pa.uint64())
        yield migrated(batch, old, source.relation).append_column(WRITTEN, weights)


def _taken(
    source: PartSource, ref: PartRef, tally: DigestTally, rows: pa.Table, within: Slice
) -> Iterator[pa.Table]:
    """Tally and yield the sorted rows that lie in a slice, if there are any."""
    inside = rows_of(rows, within, source.relation)
    if not inside.num_rows:
        return
    kept = inside.select(updates_schema(source.relation).names)
    tally.add(ref.key, _sum(inside.column(WRITTEN)), content_digest(kept, source.relation))
    yield kept


def _sum(weights: pa.ChunkedArray) -> int:
    return int(np.sum(one_chunk(weights).to_numpy(), dtype=np.uint64))


def _version(version: int, relations: Sequence[Relation]) -> Relation:
    for relation in relations:
        if relation.version == version:
            return relation
    raise Corrupt(
        "a part was written with a relation version that the shard does not know",
        relation_version=version,
        known=sorted({r.version for r in relations}),
    )
