"""Tasks on single parts: hash rows, look for others of the same keys, write the part without rows.

Rows are known by their number in the part, in the order in which every reader yields them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from strata.erase.texts import Terms
from strata.errors import Corrupt, InvalidRequest
from strata.format.columns import D, updates_schema
from strata.format.digest import content_digest
from strata.format.manifest import PartRef
from strata.format.part import read_footer
from strata.kernels.arrays import Bools, Ints, Words
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.model.spec import ShardSpec
from strata.model.sums import MODULUS, wrapped
from strata.parts.fetch import PartSource, part_batches, part_bytes
from strata.parts.suppressed import Suppressed
from strata.parts.write import WrittenPart, write_parts
from strata.state.erasing import Removed
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores, open_stores

NO_ROWS: Final = np.zeros(0, np.int64)


class Finder(Protocol):
    """Says which rows of parts are to be erased."""

    def __call__(self, state: State, refs: Sequence[PartRef], /) -> Mapping[str, Ints]:
        """Return the numbers of the rows by part, ascending; a part without any may be missing.

        Raises: InvalidRequest where it fails on a row; Corrupt; Unavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class RowsTask:
    """One part, and the rows of it that are to be erased; picklable."""

    store: StoreSettings
    shard: str
    relations: tuple[Relation, ...]
    spec: ShardSpec
    ref: PartRef
    rows: Ints
    suppressed: Suppressed
    generation: int = 0

    def source(self, relations: tuple[Relation, ...] | None = None) -> PartSource:
        """Return how the part is read, in the newest columns unless others are given."""
        return PartSource(
            open_stores(self.store).blob,
            self.shard,
            relations or self.relations,
            self.spec.read_format,
            row_group_bytes=self.spec.group_bytes,
        )


def tasks_of(
    stores: Stores,
    state: State,
    refs: Sequence[PartRef],
    found: Mapping[str, Ints],
    suppressed: Suppressed,
) -> list[RowsTask]:
    """Return a task for each part."""
    return [
        RowsTask(
            stores.settings,
            state.name,
            state.relations,
            state.spec,
            ref,
            found.get(ref.key, NO_ROWS),
            suppressed,
            state.generation,
        )
        for ref in refs
    ]


def _masked(
    source: PartSource, ref: PartRef, rows: Ints, **how: object
) -> Iterator[tuple[pa.RecordBatch, Bools]]:
    """Yield the rows of a part, and which of them are to be erased."""
    first = 0
    for batch in part_batches(source, ref, threads=False, **how):  # type: ignore[arg-type]
        gone: Bools = np.zeros(batch.num_rows, np.bool_)
        low, high = np.searchsorted(rows, (first, first + batch.num_rows))
        gone[rows[low:high] - first] = True
        yield batch, gone
        first += batch.num_rows


@dataclass(frozen=True, slots=True)
class Hashed:
    """The words of the rows of a part that are to be erased. Shape: one each a row."""

    keys: Words
    rows: Words


def hash_rows(task: RowsTask) -> Hashed:
    """Return the words of a part's rows to erase. Cost: reads the part."""
    source = task.source()
    found = [
        (
            task.suppressed.key_words(some, source.relation),
            task.suppressed.row_words(some, source.relation),
        )
        for batch, gone in _masked(source, task.ref, task.rows)
        if gone.any() and (some := batch.filter(pa.array(gone)))
    ]
    none = np.zeros(0, np.uint64)
    return Hashed(*(np.concatenate([none, *(pair[i] for pair in found)]) for i in (0, 1)))


def others_of_keys(words: Words, task: RowsTask) -> Words:
    """Return which of the sorted key words a part has in rows that stay. Cost: reads its keys."""
    source = task.source()
    wanted = source.relation.key or tuple(source.relation.by_id)
    found = [
        np.intersect1d(task.suppressed.key_words(some, source.relation), words)
        for batch, gone in _masked(source, task.ref, task.rows, columns=frozenset(wanted))
        if (some := batch.filter(pa.array(~gone))).num_rows
    ]
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *found]))


def find_terms(terms: Terms, task: RowsTask) -> Ints:
    """Return the numbers of a part's rows that mention a term. Cost: reads the part."""
    found, first = [NO_ROWS], 0
    for batch in part_batches(task.source(), task.ref, threads=False):
        found.append(np.flatnonzero(terms.rows(batch)) + first)
        first += batch.num_rows
    return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A part without some rows: none or more parts, and what was taken out."""

    old: PartRef
    parts: tuple[WrittenPart, ...]
    removed: Removed


def rewrite_part(task: RowsTask) -> Rewritten:
    """Write a part without its rows to erase, in the columns and the layout that it has.

    Statistics, key bounds, sums and digest are those of the rows that stay.
    Raises: InvalidRequest for a part in an order that its columns no longer have; Corrupt for one
    whose rows contradict what is recorded of it.
    Cost: reads and writes the part; memory is that of a row group and of the encoded part.
    """
    ref, spec = task.ref, task.spec
    own = tuple(r for r in task.relations if r.version <= ref.relation_version)
    relation = own[-1]
    if ref.order != relation.sort_ids:
        raise InvalidRequest(
            "a part that holds rows to erase is in another sort order",
            shard=task.shard,
            part=ref.key,
            cure=f"run `strata compact {task.shard} --full --migrate`, then again",
        )
    source = task.source(own)
    data = part_bytes(source, ref)
    taken = [0, 0, 0]  # updates, sum of diffs, digest

    def left() -> Iterator[pa.Table]:
        for batch, gone in _masked(source, ref, task.rows, data=data):
            table = pa.Table.from_batches([batch], schema=updates_schema(relation))
            if gone.any():
                some = table.filter(pa.array(gone))
                taken[0] += some.num_rows
                taken[1] += int(np.sum(some[D].to_numpy().view(np.uint64), dtype=np.uint64))
                taken[2] += content_digest(some, relation)
                table = table.filter(pa.array(~gone))
            yield table

    written = write_parts(
        source.blob,
        keys.part_prefix(task.shard, task.generation),
        left(),
        relation,
        layout=ref.layout,
        description=read_footer(data).description,
        part_bytes=max(spec.part_bytes, 2 * ref.size_bytes),
        row_group_bytes=spec.group_bytes,
        stats_spec=spec.stats,
        run=ref.run,
    )
    removed = Removed(taken[0], wrapped(taken[1]), taken[2] % MODULUS)
    _check(task, written, removed)
    return Rewritten(ref, tuple(written), removed)


def _check(task: RowsTask, written: Sequence[WrittenPart], removed: Removed) -> None:
    ref = task.ref
    refs = [part.ref for part in written]
    for name, left, whole in (
        ("rows", sum(r.rows for r in refs) + removed.updates, ref.rows),
        (
            "diffs_sum",
            wrapped(sum(r.diffs_sum for r in refs) + removed.diffs_sum),
            wrapped(ref.diffs_sum),
        ),
        ("digest", (sum(r.digest for r in refs) + removed.digest) % MODULUS, ref.digest),
    ):
        if left != whole:
            raise Corrupt(
                "a part does not hold what was recorded when it was written",
                shard=task.shard,
                part=ref.key,
                field=name,
                found=left,
                recorded=whole,
                cure="nothing was changed; `strata validate` names every damaged part",
            )
    if removed.updates != len(task.rows):
        raise Corrupt("a part has other rows than were found in it", part=ref.key)
