"""The plan of a read: the runs of parts to fetch, and figures of what is left out.

A plan may cover millions of parts, so parts stay rows of a manifest. Figures come from columns,
and an object is made only for a part that is accessed.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.manifest import PartRef, part_refs
from strata.state.state import Batch


class Parts(Sequence[PartRef]):
    """Some rows of a manifest as a sequence of parts."""

    def __init__(self, table: pa.Table) -> None:
        """Wrap rows with the columns of `strata.format.manifest.SCHEMA` without copying."""
        self._table = table
        # Kept, because slices of a read go through them again
        self._refs: list[PartRef] | None = None

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> PartRef: ...
    @overload
    def __getitem__(self, index: slice) -> "Parts": ...
    def __getitem__(self, index: int | slice) -> "PartRef | Parts":
        rows = range(len(self))[index]
        if isinstance(rows, int):
            return part_refs(self._table.slice(rows, 1))[0]
        return Parts(self._table.take(pa.array(rows, pa.int64())))

    def __iter__(self) -> Iterator[PartRef]:
        if self._refs is None:
            self._refs = part_refs(self._table)
        return iter(self._refs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parts) and bool(self._table.equals(other._table))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type["Parts"], tuple[pa.Table]]:
        return Parts, (self._table,)

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes of all parts."""
        return _sum(self._table["size_bytes"])

    @property
    def retractions(self) -> bool:
        """Return whether any part holds a negative diff."""
        return bool(pc.any(self._table["retractions"]).as_py())

    @property
    def without_stats(self) -> tuple[int, int]:
        """Return how many of the parts have no statistics, and their stored bytes."""
        unknown = self._table.filter(pc.is_null(self._table["stats_version"]))
        return unknown.num_rows, _sum(unknown["size_bytes"])

    def size_of(self, part_keys: Collection[str]) -> int:
        """Return the stored bytes of the parts with these keys."""
        if not part_keys:
            return 0
        named = pc.is_in(self._table["key"], value_set=pa.array(sorted(part_keys), pa.string()))
        return _sum(self._table.filter(named)["size_bytes"])

    def chosen(self, wanted: Sequence[bool]) -> "Parts":
        """Return the parts where `wanted` is true. Shape: one element a part."""
        return Parts(self._table.filter(pa.array(wanted, pa.bool_())))


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
    """Figures of the parts of one manifest piece that a read leaves out; there may be millions."""

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

    @cached_property
    def fetched(self) -> list[PartRef]:
        """Return the fetched parts, run by run, in the order of each run."""
        return [ref for run in self.runs for ref in run.parts]

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

    def groups_of(self, ref: PartRef) -> tuple[int, ...]:
        """Return the row groups of a fetched part that are read."""
        return self.groups.get(ref.key, tuple(range(len(ref.splits))))

    @property
    def groups_fetched(self) -> int:
        """Return how many row groups are read."""
        return sum(len(self.groups_of(ref)) for ref in self.fetched)

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
            for ref in self.fetched
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
