"""The plan of a read: the runs of parts to fetch, and figures of what is left out.

A plan may cover millions of parts, so parts stay rows of a manifest. Figures come from columns,
and an object is made only for a part that is accessed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.parts.manifests import PageParts
from strata.state.state import Batch

GROWTH: Final = 4  # each step of a reader that may stop reads as many times the parts before it


@dataclass(frozen=True, slots=True)
class Unopened:
    """Pages of a manifest whose parts are all fetched; they are opened when a part is accessed.

    Shape: `index` has the fixed columns of `strata.format.pages`, one row a page.
    """

    index: pa.Table
    tables: Callable[[], Iterator[pa.Table]]  # yields the parts, some pages at a time
    pages: Callable[[], Iterator[PageParts]]  # yields them page by page, unread


class Parts(Sequence[PartRef]):
    """Some rows of a manifest, or pages of it, as a sequence of parts."""

    def __init__(self, *found: pa.Table | Unopened) -> None:
        """Wrap rows with the columns of `strata.format.manifest.SCHEMA` without copying."""
        self._found = found
        self._unopened = [some.index for some in found if isinstance(some, Unopened)]
        # Kept, because slices of a read go through them again; those of pages may be millions
        self._refs: list[PartRef] | None = None

    def __len__(self) -> int:
        return sum(int(table.num_rows) for table in self._rows) + self._summed("parts")

    @overload
    def __getitem__(self, index: int) -> PartRef: ...
    @overload
    def __getitem__(self, index: slice) -> "Parts": ...
    def __getitem__(self, index: int | slice) -> "PartRef | Parts":
        rows = range(len(self))[index]
        if isinstance(rows, int):
            return part_refs(self._whole().slice(rows, 1))[0]
        return Parts(self._whole().take(pa.array(rows, pa.int64())))

    def __iter__(self) -> Iterator[PartRef]:
        if self._unopened:
            for table in self.tables():
                yield from part_refs(table)
            return
        if self._refs is None:
            self._refs = part_refs(self._whole())
        yield from self._refs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parts) and bool(self._whole().equals(other._whole()))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type["Parts"], tuple[pa.Table]]:
        return Parts, (self._whole(),)

    @property
    def opened(self) -> "Parts":
        """Return the parts that are not in unopened pages."""
        return Parts(*self._rows) if self._unopened else self

    def pages(self) -> Iterator[PageParts]:
        """Yield the unopened pages. Raises: Corrupt. Cost: reads the indexes above them."""
        for some in self._found:
            if isinstance(some, Unopened):
                yield from some.pages()

    def pieces(self) -> Iterator[pa.Table | PageParts]:
        """Yield the parts in order: rows of opened ones, and unopened pages, unread.

        Raises: Corrupt. Cost: reads the indexes above unopened pages.
        """
        for some in self._found:
            if isinstance(some, Unopened):
                yield from some.pages()
            else:
                yield some

    @classmethod
    def together(cls, every: Iterable["Parts"]) -> "Parts":
        """Return the parts of several sequences as one."""
        return cls(*(some for parts in every for some in parts._found))

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows in order, in pieces.

        Cost: reads pages that are not opened. Raises: Corrupt.
        """
        for some in self._found:
            if isinstance(some, Unopened):
                yield from some.tables()
            else:
                yield some

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes of all parts."""
        return sum(_sum(table["size_bytes"]) for table in self._rows) + self._summed("size_bytes")

    @property
    def retractions(self) -> bool:
        """Return whether any part holds a negative diff."""
        every = [*self._rows, *self._unopened]
        return any(bool(pc.any(table["retractions"]).as_py()) for table in every)

    @property
    def without_stats(self) -> tuple[int, int]:
        """Return how many of the parts have no statistics, and their stored bytes."""
        unknown = [table.filter(pc.is_null(table["stats_version"])) for table in self._rows]
        parts = sum(table.num_rows for table in unknown)
        parts += self._summed("parts") - self._summed("stats_parts")
        size = sum(_sum(table["size_bytes"]) for table in unknown)
        return parts, size + self._summed("unknown_bytes")

    def size_of(self, part_keys: Collection[str]) -> int:
        """Return the stored bytes of the parts with these keys."""
        if not part_keys:
            return 0
        wanted = pa.array(sorted(part_keys), pa.string())
        named = (t.filter(pc.is_in(t["key"], value_set=wanted)) for t in self.tables())
        return sum(_sum(table["size_bytes"]) for table in named)

    def chosen(self, wanted: Sequence[bool]) -> "Parts":
        """Return the parts where `wanted` is true. Shape: one element a part."""
        return Parts(self._whole().filter(pa.array(wanted, pa.bool_())))

    @property
    def _rows(self) -> list[pa.Table]:
        return [some for some in self._found if isinstance(some, pa.Table)]

    def _summed(self, name: str) -> int:
        return sum(_sum(index[name]) for index in self._unopened)

    def _whole(self) -> pa.Table:
        """Return all rows in one table, opening the pages that are not."""
        tables = list(self.tables())
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables([SCHEMA.empty_table(), *tables])


def _sum(column: pa.ChunkedArray) -> int:
    return int(np.sum(column.to_numpy(), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """The parts of one run that are fetched, in the order of the run."""

    lower: int  # of its batch
    upper: int
    since: int
    run: int  # its index in the batch
    parts: "Parts"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Figures of neighbouring parts of a manifest that a read leaves out; there may be millions."""

    parts: int
    size_bytes: int
    refs: Callable[[], list[PartRef]]  # reads the manifest again


@dataclass(frozen=True)
class ReadPlan:
    """What a read fetches and what it leaves out."""

    shard: str
    as_of: int
    mode: str  # as applied: the shard's mode, unless the caller or the kill switch overrides it
    runs: tuple[PlannedRun, ...] = ()
    audited: frozenset[str] = frozenset()  # keys of fetched parts that would have been skipped
    left_out: tuple[LeftOut, ...] = ()  # parts left out one by one
    dropped: tuple[Batch, ...] = ()  # batches left out whole, with unopened manifests
    # Parts that each conjunct of the filter ruled out, audited ones included; () without a filter.
    proofs: tuple[int, ...] = ()
    # Row groups to read, by part key; a missing part is read whole. See `strata.decide.row_groups`.
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def each(self) -> Iterator[PartRef]:
        """Yield the fetched parts, as `fetched` has them; holds those of a few pages at a time."""
        return (ref for run in self.runs for ref in run.parts)

    @property
    def parts(self) -> Parts:
        """Return the fetched parts as `fetched` has them, those of unopened pages unread."""
        return Parts.together(run.parts for run in self.runs)

    @cached_property
    def fetched(self) -> list[PartRef]:
        """Return the fetched parts, run by run, in the order of each run."""
        return list(self.each())

    @cached_property
    def skipped(self) -> list[PartRef]:
        """Return the parts that are left out one by one, without those of `dropped` batches.

        Cost: reads their manifests again.
        """
        return [ref for some in self.left_out for ref in some.refs()]

    @property
    def parts_fetched(self) -> int:
        """Return how many parts are fetched."""
        return sum(len(run.parts) for run in self.runs)

    def steps(self) -> "Iterator[ReadPlan]":
        """Yield the fetched parts in plans that grow, for a reader that may stop at any of them."""
        size = 1
        for run in self.runs:
            start, parts = 0, len(run.parts)
            while start < parts:
                some = run.parts if not start and parts <= size else run.parts[start : start + size]
                yield replace(self, runs=(replace(run, parts=some),))
                start += size
                size *= GROWTH

    def groups_of(self, ref: PartRef) -> tuple[int, ...]:
        """Return the row groups of a fetched part that are read."""
        return self.groups.get(ref.key, tuple(range(len(ref.splits))))

    @property
    def groups_fetched(self) -> int:
        """Return how many row groups are read."""
        return sum(len(self.groups_of(ref)) for ref in self.each())

    @property
    def parts_skipped(self) -> int:
        """Return how many parts are left out, dropped batches included."""
        parts = sum(some.parts for some in self.left_out)
        return parts + sum(batch.parts for batch in self.dropped)

    @property
    def parts_total(self) -> int:
        """Return how many parts hold updates at or before `as_of`."""
        return self.parts_fetched + self.parts_skipped

    @property
    def bytes_fetched(self) -> int:
        """Return the stored bytes of the parts that are fetched."""
        return sum(run.parts.size_bytes for run in self.runs)

    @property
    def bytes_audited(self) -> int:
        """Return the stored bytes of the parts that are fetched only for the audit."""
        return sum(run.parts.size_of(self.audited) for run in self.runs)

    @property
    def without_stats(self) -> tuple[int, int]:
        """Return how many of the fetched parts have no statistics, and their stored bytes.

        A part without statistics is always fetched, so these are all that the read has met.
        """
        found = [run.parts.without_stats for run in self.runs]
        return sum(parts for parts, _ in found), sum(size for _, size in found)

    @property
    def bytes_read(self) -> int:
        """Return an estimate of the stored bytes in the row groups that are read.

        Errs: assumes that all row groups of a part are equally large.
        """
        if not self.groups:
            return self.bytes_fetched
        return sum(
            ref.size_bytes * len(self.groups_of(ref)) // max(len(ref.splits), 1)
            if ref.key in self.groups
            else ref.size_bytes
            for ref in self.each()
        )

    @property
    def monotonic(self) -> bool:
        """Return whether no count can be negative, because no part that is read holds a retraction.

        Errs: may say no although every retraction meets the update that it retracts.
        """
        return not any(run.parts.retractions for run in self.runs)

    @property
    def bytes_skipped(self) -> int:
        """Return the stored bytes of the parts that are left out."""
        by_part = sum(some.size_bytes for some in self.left_out)
        return by_part + sum(batch.size_bytes for batch in self.dropped)

    @property
    def bytes_total(self) -> int:
        """Return the stored bytes of `parts_total`."""
        return self.bytes_fetched + self.bytes_skipped
