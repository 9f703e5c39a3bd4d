"""Cut a merge of very many parts one stretch of the key space at a time.

The key space is cut where the pages of the manifests begin, at about `STRETCH_PARTS` parts each. A
stretch is cut into tasks when those before it are done, from the parts that may have rows in it. So
the driver never holds the parts of the whole merge, nor its tasks. A part that reaches into two
stretches is read by both and is not kept by reference.

This needs parts of the newest relation whose keys can be compared. Other batches of as many parts
are rewritten before (`strata.compact.rewrite`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.compact.outdated import is_of_today
from strata.compact.tasks import MergeTask, check_figures, merge_tasks, slice_bytes_of
from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.kernels.arrays import Bools, Ints
from strata.model.time import MAX_TIME
from strata.parts.manifests import StoredManifest, StoredPiece
from strata.parts.numbered import Numbered, name_numbers, numbers_in
from strata.state.spine import MergeRequest
from strata.state.state import Batch, State
from strata.store.open import Stores
from strata.updates.cut import cut_groups
from strata.updates.resident import Resident
from strata.updates.slices import Slice

STRETCH_PARTS: Final = 32_768
PAGES_PARTS: Final = 4096  # of pages that are read together
FREED_BYTES: Final = 128 * 1024 * 1024  # see `strata.audit.batches`


@dataclass(frozen=True, slots=True)
class _Pages:
    """Neighbouring parts of a manifest, and between which keys they lie."""

    piece: StoredPiece
    low: bytes
    high: bytes | None  # None: no bound
    parts: int

    def reaches(self, within: Slice) -> bool:
        """Return whether some part may have rows in a slice; keys may be prefixes of rows'."""
        begins = within.high is None or self.low < within.high
        return begins and (
            self.high is None or self.high >= within.low or within.low.startswith(self.high)
        )


@dataclass
class Stretches:
    """The stretches of one request, and its parts, which are read page by page."""

    stores: Stores
    state: State
    request: MergeRequest
    memory_bytes: int
    slices: Sequence[Slice] = field(init=False)
    _pages: dict[str, list[_Pages]] = field(init=False)  # by manifest
    _inputs: Ints = field(init=False)  # numbers of the parts' names, in order
    _first: int = field(init=False, default=MAX_TIME)  # the earliest time of an update

    def __post_init__(self) -> None:
        """Look at every part once.

        Raises: Corrupt when a manifest is damaged, or does not add up to the state's figures.
        """
        named = Numbered()
        self._pages = {
            batch.manifest: list(self._looked(batch, named))
            for batch in self.request.batches
            if batch.manifest is not None
        }
        self._inputs = named.sorted()
        every = [one for pages in self._pages.values() for one in pages]
        ends = ((one.low, one.high or one.low, float(one.parts)) for one in every)
        self.slices = cut_groups(sorted(ends), STRETCH_PARTS)

    @property
    def unchanged(self) -> bool:
        """Return whether the request's only run already is what merging it would write."""
        filled = [batch for batch in self.request.batches if batch.manifest is not None]
        run = filled[0].runs[0]
        return (
            sum(len(batch.runs) for batch in filled) == 1
            and self._first >= self.request.since
            and run.order == self.state.relation.sort_ids
            and {name for name, _ in filled[0].layouts} == {self.state.spec.write_format}
        )

    @property
    def tasks(self) -> int:
        """Return an estimate of the number of tasks."""
        total = sum(batch.size_bytes for batch in self.request.batches)
        return max(1, total // slice_bytes_of(total, self.state.spec, self.memory_bytes))

    def cut(self, done: int = 0) -> Iterator[list[MergeTask]]:
        """Yield the tasks behind the first `done`, stretch by stretch in key order.

        Raises: Corrupt.
        """
        state, request, store = self.state, self.request, self.stores.settings
        left = done
        for stretch in Resident(FREED_BYTES).settled(self.slices):
            parts = {key: self._within(key, stretch) for key in request.manifests}
            made = merge_tasks(state, request, parts, store, self.memory_bytes, stretch)
            if rest := made[left:]:
                yield rest
            left = max(left - len(made), 0)

    def are_inputs(self, part_keys: Sequence[str]) -> Bools:
        """Return which parts are inputs, but for one chance in 2^64. Shape: one element a key."""
        return numbers_in(name_numbers(part_keys), self._inputs)

    def _within(self, manifest: str, stretch: Slice) -> list[PartRef]:
        """Return the parts of a manifest that may have rows in a stretch."""
        found = []
        for pages in self._pages[manifest]:
            if pages.reaches(stretch):
                piece = pages.piece.forgotten()
                rows = np.flatnonzero(_reaching(piece.read(["key_low", "key_high"]), stretch))
                if len(rows):
                    found += part_refs(piece.some(rows, SCHEMA.names))
        return found

    def _looked(self, batch: Batch, named: Numbered) -> Iterator[_Pages]:
        """Yield the parts of a batch, after all of them have been checked."""
        manifest = StoredManifest(self.stores.blob, self.state.name, batch)
        columns = ["key", "t_low", "rows", "diffs_sum", "digest", "key_low", "key_high"]
        parts = updates = diffs_sum = digest = 0
        for piece in Resident(FREED_BYTES).settled(manifest.pieces(most=PAGES_PARTS)):
            table = piece.read(columns)
            named.add(table["key"].to_pylist())
            updates += sum(table["rows"].to_pylist())
            diffs_sum += int(table["diffs_sum"].to_numpy().sum(dtype=np.int64))  # wraps
            digest += int(table["digest"].to_numpy().sum(dtype=np.uint64))
            parts += table.num_rows
            self._first = min([self._first, *table["t_low"].to_pylist()])
            if table.num_rows:
                high = None if table["key_high"].null_count else pc.max(table["key_high"]).as_py()
                low = pc.min(table["key_low"]).as_py()
                yield _Pages(piece.forgotten(), low, high, table.num_rows)
        manifest.check_parts(parts)
        check_figures(batch, updates, diffs_sum, digest)


def in_stretches(state: State, request: MergeRequest) -> bool:
    """Return whether a request has enough parts to be cut in stretches, and can be."""
    filled = [batch for batch in request.batches if batch.manifest is not None]
    many = sum(batch.parts for batch in filled) > 2 * STRETCH_PARTS
    return many and all(is_of_today(state, batch) for batch in filled)


def _reaching(bounds: pa.Table, within: Slice) -> Bools:
    """Return which parts may have rows in a slice; their greatest keys may be prefixes of rows'."""
    found = np.ones(bounds.num_rows, np.bool_)
    if within.high is not None:
        found &= pc.less(bounds["key_low"], pa.scalar(within.high, pa.binary())).to_numpy()
    if within.low:
        high = bounds["key_high"]
        prefixes = pa.array([within.low[:n] for n in range(len(within.low) + 1)], pa.binary())
        beyond = pc.greater_equal(high, pa.scalar(within.low, pa.binary()))
        reached = pc.or_(pc.fill_null(beyond, True), pc.is_in(high, value_set=prefixes))
        found &= reached.to_numpy()
    return found
