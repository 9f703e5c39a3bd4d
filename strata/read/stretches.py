"""A consolidated read of very many parts, one stretch of the key space at a time.

The key space is cut where unopened pages of manifests and pieces of opened ones begin
(`strata.parts.stretches`). No page is opened for that. A stretch has, for each run, the names of
the pages that may have rows in it, and the rows of parts that the plan has opened. It travels to
tasks, which read the pages themselves. So a driver never makes objects of all parts.

A stretch of many bytes is merged by several tasks. Each cuts it into the same slices, from the same
parts, and merges its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import ceil
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.read_plan import ReadPlan
from strata.format.manifest import PartRef, part_refs
from strata.model.schema import Relation
from strata.parts.manifests import ManifestBlobs, PageParts, StoredPiece
from strata.parts.stretches import Neighbours, cut_stretches, neighbours, parts_within, reaching
from strata.state.state import State
from strata.store.interface import Blob
from strata.updates.cut import SPARE, cut
from strata.updates.overlaps import Overlaps
from strata.updates.slices import NO_GROUPS, Groups, Slice, columns_alike

STRETCH_PARTS: Final = 4096  # about a page: each task reads the pages of its stretch
MANY: Final = 16  # stretches: a read of no more parts is cut as a whole
OPENED_PARTS: Final = 256  # opened parts whose bounds are known together

PartRuns: TypeAlias = tuple[tuple[PartRef, ...], ...]


@dataclass(frozen=True, slots=True)
class UnreadPage:
    """A page of a manifest all of whose parts are read; picklable."""

    manifest: str
    key: str
    blob_bytes: int
    parts: int
    size_bytes: int  # of the parts


@dataclass(frozen=True, slots=True)
class ReadStretch:
    """The parts of each run that may have rows in a slice, those of pages unread; picklable.

    Shape: a run is pages and numbers of opened parts, in its order; `opened` has the opened parts
    of all runs, one after the other.
    """

    shard: str
    within: Slice
    runs: tuple[tuple[UnreadPage | int, ...], ...]
    opened: pa.Table | None  # None: there are none
    size_bytes: int  # of the rows in it, estimated

    @property
    def in_pages(self) -> bool:
        """Return whether a page has to be read."""
        return any(isinstance(one, UnreadPage) for run in self.runs for one in run)

    @property
    def opened_parts(self) -> int:
        """Return how many opened parts there are."""
        return 0 if self.opened is None else int(self.opened.num_rows)

    def read(self, blob: Blob) -> PartRuns:
        """Return the parts of each run that has some.

        Raises: Corrupt when a page is missing or damaged.
        """
        opened = iter(() if self.opened is None else part_refs(self.opened))
        runs = (tuple(self._parts(blob, run, opened)) for run in self.runs)
        return tuple(run for run in runs if run)

    def _parts(
        self, blob: Blob, run: Sequence[UnreadPage | int], opened: Iterator[PartRef]
    ) -> Iterator[PartRef]:
        waiting: list[UnreadPage] = []  # neighbours are fetched together
        for one in run:
            if isinstance(one, UnreadPage):
                if waiting and waiting[0].manifest != one.manifest:
                    yield from self._of_pages(blob, waiting)
                    waiting = []
                waiting.append(one)
                continue
            yield from self._of_pages(blob, waiting)
            waiting = []
            yield from islice(opened, one)
        yield from self._of_pages(blob, waiting)

    def _of_pages(self, blob: Blob, pages: Sequence[UnreadPage]) -> list[PartRef]:
        if not pages:
            return []
        names = {
            name: [getattr(one, name) for one in pages] for name in ("key", "blob_bytes", "parts")
        }
        tree = ManifestBlobs(blob, self.shard, pages[0].manifest)
        return parts_within(StoredPiece(tree, pages=pa.table(names)), self.within)


_Found: TypeAlias = Neighbours[UnreadPage | pa.Table]


@dataclass(frozen=True)
class ReadStretches:
    """All stretches of a plan. Memory: a page's name and bounds each, and what the plan holds."""

    shard: str
    runs: tuple[tuple[_Found, ...], ...]  # the parts of each run, in its order
    parts: int
    slices: Sequence[Slice] = field(init=False)

    def __post_init__(self) -> None:
        """Cut the key space."""
        every = (one for run in self.runs for one in run)
        object.__setattr__(self, "slices", cut_stretches(every, STRETCH_PARTS))

    def each(self) -> Iterator[ReadStretch]:
        """Yield the stretches that may have rows, in key order."""
        waiting = sorted(
            (
                (run, place, one)
                for run, found in enumerate(self.runs)
                for place, one in enumerate(found)
            ),
            key=lambda placed: placed[2].low,
        )
        begun, reaching_on = 0, list[tuple[int, int, _Found]]()
        for within in self.slices:
            last = begun
            while last < len(waiting) and _begins_before(waiting[last][2].low, within.high):
                last += 1
            reaching_on = [one for one in reaching_on if one[2].reaches_beyond(within.low)]
            reaching_on += waiting[begun:last]
            begun = last
            inside = self._of(within, sorted(reaching_on, key=lambda placed: placed[:2]))
            if inside.runs:
                yield inside

    def _of(self, within: Slice, found: Sequence[tuple[int, int, _Found]]) -> ReadStretch:
        """Return a stretch; `found` may have rows in it, run by run, in order."""
        runs: dict[int, list[UnreadPage | int]] = {}
        opened: list[pa.Table] = []
        for run, _, one in found:
            if isinstance(one.found, UnreadPage):
                runs.setdefault(run, []).append(one.found)
                continue
            rows = np.flatnonzero(reaching(one.found, within))
            if len(rows):
                runs.setdefault(run, []).append(len(rows))
                opened.append(one.found.take(pa.array(rows)))  # a copy: it travels alone
        table = pa.concat_tables(opened).combine_chunks() if opened else None
        pages = [one for run in runs.values() for one in run if isinstance(one, UnreadPage)]
        size = self._size_bytes(pages, table)
        return ReadStretch(self.shard, within, tuple(map(tuple, runs.values())), table, size)

    def _size_bytes(self, pages: Sequence[UnreadPage], opened: pa.Table | None) -> int:
        """Return an estimate of the stored bytes of a stretch: each has about as many parts."""
        parts, size = 0, 0
        if opened is not None:
            parts, size = opened.num_rows, int(np.sum(opened["size_bytes"].to_numpy()))
        rest = max(self.parts / len(self.slices) - parts, 0)
        mean = sum(one.size_bytes for one in pages) / max(sum(one.parts for one in pages), 1)
        return size + int(rest * mean)


def _begins_before(key: bytes, high: bytes | None) -> bool:
    return high is None or key < high


def stretches_of(state: State, plan: ReadPlan) -> ReadStretches | None:
    """Return the stretches of a plan; None if it has few parts or keys that cannot be compared.

    Keys can be if each part was sorted by all columns that the relation sorts by, as they are now.
    Raises: Corrupt. Cost: reads the indexes of pages that the plan has not opened.
    """
    parts = plan.parts_fetched
    if parts <= MANY * STRETCH_PARTS:
        return None
    versions = {batch.manifest: batch.versions for batch in state.batches}
    runs: list[tuple[_Found, ...]] = []
    for run in plan.runs:
        found: list[_Found] = []
        for some in run.parts.pieces():
            if isinstance(some, PageParts):
                written: Iterable[int] = versions.get(some.manifest, ())
                table = some.page
            else:
                table, written = some, pc.unique(some["relation_version"]).to_pylist()
            if not _is_sorted_by(state, table["order"], written):
                return None
            found += _bounded(some)
        runs.append(tuple(found))
    return ReadStretches(plan.shard, tuple(runs), parts)


def _is_sorted_by(state: State, orders: pa.ChunkedArray, versions: Iterable[int]) -> bool:
    """Return whether the keys of parts are whole keys of the newest relation. Errs: may say no."""
    newest = state.relation
    wanted, relations = newest.sort_ids, {one.version: one for one in state.relations}
    versions = list(versions)
    if not versions or orders.null_count:
        return False
    alike = (columns_alike(wanted, relations.get(version), newest) for version in versions)
    if not all(count == len(wanted) for count in alike):
        return False
    if not pc.all(pc.equal(pc.list_value_length(orders), len(wanted))).as_py():
        return False
    ids = pc.list_flatten(orders).to_numpy().reshape(-1, len(wanted))
    return bool((ids == np.array(wanted)).all())


def _bounded(some: pa.Table | PageParts) -> Iterator[_Found]:
    """Yield the parts of a plan, some together, with their bounds."""
    if isinstance(some, PageParts):
        row = some.page.select(["key", "blob_bytes", "parts", "size_bytes"]).to_pylist()[0]
        low, high = (some.page[name][0].as_py() for name in ("key_low", "key_high"))
        yield Neighbours(UnreadPage(some.manifest, **row), low, high, row["parts"])
        return
    for start in range(0, some.num_rows, OPENED_PARTS):
        table = some.slice(start, OPENED_PARTS)
        yield neighbours(table, table)


def cut_stretch(
    within: Slice,
    runs: PartRuns,
    relations: Sequence[Relation],
    slice_bytes: int,
    groups: Groups = NO_GROUPS,
) -> list[Slice]:
    """Return a stretch in slices of about `slice_bytes` of stored parts each, in key order.

    Shape: they cover the stretch and share no row, wherever `cut` cuts. Errs: as `cut`.
    """
    every = [ref for run in runs for ref in run]
    lows = {one.low for one in cut(every, relations[-1], relations, slice_bytes, groups)}
    edges = sorted(low for low in lows if within.low < low and _begins_before(low, within.high))
    return [Slice(a, b) for a, b in zip([within.low, *edges], [*edges, within.high], strict=True)]


def nth_slice(
    within: Slice,
    runs: PartRuns,
    relations: Sequence[Relation],
    number: int,
    of: int,
    groups: Groups = NO_GROUPS,
) -> Slice | None:
    """Return the slice of one of `of` tasks that share a stretch; None if none is left for it.

    The tasks cut it alike from the same parts, so each row is in the slice of one of them.
    """
    total = sum(ref.size_bytes for run in runs for ref in run)
    found = cut_stretch(within, runs, relations, max(-(-total // of), 1), groups)
    if number >= len(found):
        return None
    return Slice(found[number].low, within.high if number == of - 1 else found[number].high)


def worthwhile_shares(stretch: ReadStretch, slice_bytes: int) -> int:
    """Return the number of tasks that merge a stretch in slices of about `slice_bytes`."""
    return max(ceil(stretch.size_bytes / max(slice_bytes, 1) - SPARE), 1)


def parts_in(
    runs: Iterable[Sequence[PartRef]],
    within: Slice,
    relations: Sequence[Relation],
    groups: Groups = NO_GROUPS,
) -> PartRuns:
    """Return the parts of each run that may have rows in a slice, as `groups` chooses them."""
    found = (Overlaps(run, relations, groups).of(within) for run in runs)
    return tuple(parts for parts in found if parts)
