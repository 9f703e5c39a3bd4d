"""Decide what a filter would do to every part of a shard, exactly as a read decides it.

A shard has millions of parts, and for most of them only number and size matter. So parts stay rows
of their manifests, which are kept as stored or read again page by page, and an object is made only
for a requested part.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.descent import BatchStep, Groups, Piece, descend, narrowed_ahead
from strata.decide.draw import Draws, below, draws
from strata.decide.question import Question, known_of
from strata.expr.filter import Filter
from strata.format.manifest import PartRef, part_refs
from strata.kernels.arrays import Bools
from strata.parts.manifests import StoredPiece
from strata.state.state import Batch, State
from strata.store.open import Stores

Numbers: TypeAlias = npt.NDArray[np.int64]
NO_STATS: Final = pa.RecordBatch.from_pylist([])


@dataclass(frozen=True, slots=True)
class Skipped:
    """One part that the filter would skip, with the statistics that prove it."""

    ref: PartRef
    batch: Batch
    by_batch: bool  # the union already drops the whole batch
    stats: pa.RecordBatch  # one row of the manifest's statistics
    groups: tuple[int, ...] = ()  # the row groups that are left out of a kept part
    by_bloom: bool = False  # a fetched bloom filter proves it

    @property
    def rows(self) -> int:
        """Return how many rows are left out."""
        if not self.groups:
            return self.ref.rows
        ends = [*(split.row for split in self.ref.splits[1:]), self.ref.rows]
        return sum(ends[i] - self.ref.splits[i].row for i in self.groups)

    @property
    def size_bytes(self) -> int:
        """Return an estimate of the stored bytes of these rows."""
        return self.ref.size_bytes * self.rows // max(self.ref.rows, 1)


@dataclass(frozen=True, slots=True)
class Some:
    """The parts of one manifest piece that a read skips, wholly or partly.

    Shape: `rows`, `keys`, `sizes` and, if present, `groups` have one element a part.
    """

    step: BatchStep
    stored: StoredPiece
    rows: Numbers  # of the piece
    keys: pa.Array
    sizes: Numbers  # stored bytes that are left out
    groups: tuple[tuple[int, ...], ...] = ()
    by_bloom: Bools | None = None  # skipped by a bloom filter; None: no part is

    def make(self, places: Numbers) -> list[Skipped]:
        """Return the skipped parts at these places in `rows`."""
        step = self.step
        some = self.stored.forgotten().read().take(pa.array(self.rows[places]))
        assert step.question is not None, "nothing is left out where nothing is asked"
        statistics = _rows(known_of(some, step.question.relations))
        groups = [self.groups[i] for i in places] if self.groups else [()] * len(places)
        by_bloom = (
            np.zeros(len(places), np.bool_) if self.by_bloom is None else self.by_bloom[places]
        )
        return [
            Skipped(ref, step.batch, step.ruled_out, row, left, bool(bloom))
            for ref, row, left, bloom in zip(
                part_refs(some), statistics, groups, by_bloom, strict=True
            )
        ]


class Skips(Sequence[Skipped]):
    """The parts that a read skips, wholly or partly, in the order of their manifests."""

    def __init__(self, pieces: Sequence[Some]) -> None:
        """Keep the pieces that are not empty."""
        self._pieces = [piece for piece in pieces if len(piece.rows)]
        self._ends = np.cumsum([len(piece.rows) for piece in self._pieces], dtype=np.int64)
        none = np.zeros(0, np.int64)
        self.sizes: Numbers = np.concatenate([none, *(piece.sizes for piece in self._pieces)])
        self._draws: dict[str, Draws] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Skipped: ...
    @overload
    def __getitem__(self, index: slice) -> list[Skipped]: ...
    def __getitem__(self, index: int | slice) -> Skipped | list[Skipped]:
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return self.make(np.array([numbers], np.int64))[0]
        return self.make(np.array(numbers, np.int64))

    def __iter__(self) -> Iterator[Skipped]:
        for piece in self._pieces:
            yield from piece.make(np.arange(len(piece.rows)))

    @property
    def uppers(self) -> Numbers:
        """Return the upper of each part's batch: the later, the newer its rows."""
        none = np.zeros(0, np.int64)
        each = (np.full(len(p.rows), p.step.batch.upper, np.int64) for p in self._pieces)
        return np.concatenate([none, *each])

    @property
    def keys(self) -> list[str]:
        """Return the key of each part."""
        return [key for piece in self._pieces for key in piece.keys.to_pylist()]

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes that are left out in total."""
        return int(self.sizes.sum())

    def make(self, numbers: Numbers) -> list[Skipped]:
        """Return the skipped parts with these numbers. Shape: ascending.

        Cost: decompresses the pieces of their manifests again; makes objects of these parts only.
        """
        owners = np.searchsorted(self._ends, numbers, side="right")
        found: list[Skipped] = []
        for owner in np.unique(owners):
            piece = self._pieces[owner]
            first = self._ends[owner] - len(piece.rows)
            found += piece.make(numbers[owners == owner] - first)
        return found

    def named(self, part_keys: Collection[str]) -> list[Skipped]:
        """Return the skipped parts with these keys."""
        return self.make(self.places(part_keys))

    def places(self, part_keys: Collection[str]) -> Numbers:
        """Return the numbers of the skipped parts with these keys."""
        wanted = pa.array(sorted(part_keys), pa.string())
        keys = pa.chunked_array([piece.keys for piece in self._pieces], pa.string())
        return np.flatnonzero(np.asarray(pc.is_in(keys, value_set=wanted), np.bool_))

    def drawn(self, percent: int, salt: str, least: int = 0) -> Numbers:
        """Return the numbers of a reproducible share: equal parts and salt give the same draw.

        `least`: draw at least this many, if there are enough.
        """
        if percent >= 100 or least >= len(self):
            return np.arange(len(self))
        if salt not in self._draws:
            keys = (key for piece in self._pieces for key in piece.keys.to_pylist())
            self._draws[salt] = draws(keys, salt)
        drawn = self._draws[salt]
        count = max(int(below(drawn, percent).sum()), least)
        return np.sort(np.argsort(drawn, kind="stable")[:count])


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a filter would do to a shard."""

    parts_total: int
    bytes_total: int
    skipped: Skips
    parts_without_stats: int
    tightened: Skips  # kept parts that lose row groups


def decide_all(stores: Stores, state: State, filter: Filter) -> Decisions:
    """Decide a filter for every part of a shard, at both levels.

    Cost: reads every manifest. Memory: their stored bytes, one piece as a table, and the key and
    size of each skipped part.
    """
    found = _Found()
    steps = descend(stores, state, Question.about(state, filter))
    columns = ("key", "size_bytes", "stats_version")
    for _, pieces in narrowed_ahead(stores, steps, columns, open_all=True):
        for piece in pieces:
            assert isinstance(piece, Piece)  # every page is opened
            found.add(piece)
    return Decisions(
        found.parts, found.size, Skips(found.skipped), found.without, Skips(found.tightened)
    )


class _Found:
    """The decisions so far, piece by piece."""

    def __init__(self) -> None:
        self.parts = self.size = self.without = 0
        self.skipped: list[Some] = []
        self.tightened: list[Some] = []

    def add(self, piece: Piece) -> None:
        """Add the parts of a piece that a read skips, wholly or partly."""
        table, sizes = piece.table, piece.table["size_bytes"].to_numpy()
        self.parts += table.num_rows
        self.size += int(sizes.sum())
        self.without += table["stats_version"].null_count
        self.skipped.append(_some(piece, np.flatnonzero(~piece.keep), sizes))
        if not piece.wants_groups:
            return
        found = piece.groups(piece.keep, piece.details(piece.keep))
        if found is not None:
            self.tightened.append(_tightened(piece, found))


def _tightened(piece: Piece, found: Groups) -> Some:
    """Return the kept parts that a read leaves row groups out of."""
    narrowed = found.verdict.narrowed()
    places = found.places[narrowed]
    left = [tuple(np.flatnonzero(~found.verdict.of(i)).tolist()) for i in narrowed]
    some = np.zeros(len(piece.keep), np.bool_)
    some[places] = True
    sizes = np.zeros(len(piece.keep), np.int64)
    sizes[places] = [
        Skipped(ref, piece.step.batch, by_batch=False, stats=NO_STATS, groups=groups).size_bytes
        for ref, groups in zip(part_refs(piece.details(some)), left, strict=True)
    ]
    return _some(piece, places, sizes, tuple(left))


def _some(
    piece: Piece, places: Numbers, sizes: Numbers, groups: tuple[tuple[int, ...], ...] = ()
) -> Some:
    keys = _taken(piece.table["key"], places)
    found = None if piece.verdict is None else piece.verdict.looked_up
    return Some(
        piece.step,
        piece.stored.forgotten(),
        piece.rows[places],
        keys,
        sizes[places],
        groups,
        None if found is None else found[places],
    )


def _taken(column: pa.ChunkedArray, rows: Numbers) -> pa.Array:
    return column.combine_chunks().take(pa.array(rows))


def _rows(statistics: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the statistics of each part."""
    for index in range(statistics.num_rows):
        yield statistics.slice(index, 1).combine_chunks().to_batches()[0]
