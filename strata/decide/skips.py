"""Decide what a filter would do to every part of a shard, exactly as a read decides it.

A shard has millions of parts, and for most of them only number and size matter. So parts stay rows
of their manifests, which are kept as stored or read again page by page: a bit for each part says
whether it is skipped. Names and sizes are read again for a draw, which keeps those of the parts
that it may draw, and an object is made only for a requested part.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias, overload

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
Packed: TypeAlias = npt.NDArray[np.uint8]  # eight bits in each
NO_STATS: Final = pa.RecordBatch.from_pylist([])
SAMPLED: Final = 10  # percent of the parts whose draws are kept for smaller shares
SAMPLED_WHOLE: Final = 65_536  # up to this many parts, all draws are
MAKE_PARTS: Final = 16_384  # of a piece, whose rows are decoded together
_NONE: Final = np.zeros(0, np.int64)


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

    Shape: `sizes` and `groups`, if present, have one element a part.
    """

    step: BatchStep
    stored: StoredPiece
    parts: int
    size_bytes: int  # stored bytes that are left out
    bits: Packed  # which rows of the piece these are
    by_bloom: Packed | None = None  # which of these a bloom filter skips; None: none
    sizes: Numbers | None = None  # stored bytes that are left out of each; None: the whole part
    groups: pa.ListArray | None = None  # row groups that are left out of each; None: all
    known: pa.Table | None = None  # key and size of each; None: they are read again

    @property
    def rows(self) -> Numbers:
        """Return the places of the parts in the piece."""
        return np.flatnonzero(np.unpackbits(self.bits))

    def named(self) -> pa.Array:
        """Return the key of each part. Cost: reads the column again. Raises: Corrupt."""
        return self._again(["key"])["key"].combine_chunks()

    def named_and_sized(self) -> tuple[pa.Array, Numbers]:
        """Return the key of each part, and the bytes left out of it. Cost, Raises: as `named`."""
        table = self._again(["key", *(["size_bytes"] if self.sizes is None else [])])
        return table["key"].combine_chunks(), self._sizes(table)

    def sized(self) -> Numbers:
        """Return the bytes left out of each part. Cost, Raises: as `named`."""
        return self._sizes(self._again(["size_bytes"]) if self.sizes is None else None)

    def make(self, places: Numbers) -> Iterator[Skipped]:
        """Yield the skipped parts at these places among them, in order.

        Cost: reads everything about the parts beside them. Raises: Corrupt.
        """
        rows = self.rows[places]
        blooms = np.zeros(len(rows), np.bool_)
        if self.by_bloom is not None:
            blooms = np.unpackbits(self.by_bloom)[places].astype(np.bool_)
        groups = None if self.groups is None else self.groups.take(pa.array(places)).to_pylist()
        for span in np.unique(rows // MAKE_PARTS).tolist():
            mine = np.flatnonzero(rows // MAKE_PARTS == span)
            left = [()] * len(mine) if groups is None else [tuple(groups[n]) for n in mine]
            yield from self._made(rows[mine], left, blooms[mine])

    def _made(
        self, rows: Numbers, groups: Sequence[tuple[int, ...]], blooms: Bools
    ) -> Iterator[Skipped]:
        step = self.step
        some = self.stored.forgotten().some(rows)
        assert step.question is not None, "nothing is left out where nothing is asked"
        statistics = _rows(known_of(some, step.question.relations))
        for ref, row, left, bloom in zip(part_refs(some), statistics, groups, blooms, strict=True):
            yield Skipped(ref, step.batch, step.ruled_out, row, left, bool(bloom))

    def _again(self, columns: Sequence[str]) -> pa.Table:
        if self.known is not None:
            return self.known
        return self.stored.forgotten().some(self.rows, columns)

    def _sizes(self, table: pa.Table | None) -> Numbers:
        if table is None or self.sizes is not None:
            assert self.sizes is not None
            return self.sizes
        sizes: Numbers = table["size_bytes"].to_numpy()
        return sizes


class Drawn(NamedTuple):
    """Some of the parts of `Skips`. Shape: one element a part, numbers ascending."""

    numbers: Numbers
    sizes: Numbers  # stored bytes that are left out


@dataclass(frozen=True, slots=True)
class _Sample:
    """The parts with the smallest draws: enough of them for any share up to `percent`."""

    salt: str
    percent: int
    draws: Draws
    of: Drawn

    def share(self, percent: int, least: int) -> Drawn:
        """Return a share of all parts, or `least` parts with the smallest draws."""
        count = max(int(below(self.draws, percent).sum()), least)
        first = np.sort(np.argsort(self.draws, kind="stable")[:count])
        return Drawn(self.of.numbers[first], self.of.sizes[first])


class Skips(Sequence[Skipped]):
    """The parts that a read skips, wholly or partly, in the order of their manifests."""

    def __init__(self, pieces: Sequence[Some]) -> None:
        """Keep the pieces that are not empty."""
        self._pieces = [piece for piece in pieces if piece.parts]
        self._ends = np.cumsum([piece.parts for piece in self._pieces], dtype=np.int64)
        self._sample: _Sample | None = None

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

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
            yield from piece.make(np.arange(piece.parts))

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes that are left out in total."""
        return sum(piece.size_bytes for piece in self._pieces)

    def spans(self, numbers: Numbers) -> list[tuple[int, int, int]]:
        """Return where the parts of each piece begin and end among these, behind their upper.

        The later the upper of a part's batch, the newer its rows. Shape: `numbers` ascending.
        """
        ends = np.searchsorted(numbers, self._ends).tolist()
        uppers = (piece.step.batch.upper for piece in self._pieces)
        return list(zip(uppers, [0, *ends], ends, strict=False))

    def keys(self, numbers: Numbers) -> Iterator[list[str]]:
        """Yield the keys of the parts with these numbers, piece by piece. Shape: ascending.

        Cost: reads the column again. Raises: Corrupt.
        """
        for piece, places in self._owners(numbers):
            yield piece.named().take(pa.array(places)).to_pylist()

    def make(self, numbers: Numbers) -> list[Skipped]:
        """Return the skipped parts with these numbers. Shape: ascending.

        Cost: decompresses the pieces of their manifests again; makes objects of these parts only.
        """
        return [one for piece, places in self._owners(numbers) for one in piece.make(places)]

    def named(self, part_keys: Collection[str]) -> list[Skipped]:
        """Return the skipped parts with these keys."""
        return self.make(self.places(part_keys).numbers)

    def places(self, part_keys: Collection[str]) -> Drawn:
        """Return the skipped parts with these keys. Cost: reads all keys again. Raises: Corrupt."""
        wanted = pa.array(sorted(part_keys), pa.string())

        def named(keys: pa.Array) -> Bools:
            return np.asarray(pc.is_in(keys, value_set=wanted), np.bool_)

        return self._chosen(named)

    def drawn(self, percent: int, salt: str, least: int = 0) -> Drawn:
        """Return a reproducible share: equal parts and salt give the same draw.

        `least`: draw at least this many, if there are enough.
        Cost: reads keys and sizes again, once for shares up to 10 %. Memory: those of the share.
        Raises: Corrupt.
        """
        if percent >= 100 or least >= len(self):
            every = [piece.sized() for piece in self._pieces]
            return Drawn(np.arange(len(self)), np.concatenate([_NONE, *every]))
        sample = self._sample
        if sample is None or sample.salt != salt or sample.percent < percent:
            sample = self._sampled(max(percent, SAMPLED), salt)
        if len(sample.of.numbers) < least:
            sample = self._sampled(100, salt)
        self._sample = sample
        return sample.share(percent, least)

    def share(self, percent: int, salt: str, least: int = 0) -> tuple[int, int]:
        """Return how many parts `drawn` returns, and the bytes that are left out of them."""
        if percent >= 100 or least >= len(self):
            return len(self), self.size_bytes
        found = self.drawn(percent, salt, least)
        return len(found.numbers), int(found.sizes.sum())

    def forget(self) -> None:
        """Forget the draws, which the next share makes again."""
        self._sample = None

    def _sampled(self, percent: int, salt: str) -> _Sample:
        percent = 100 if len(self) <= SAMPLED_WHOLE else percent
        found: list[Draws] = []

        def low(keys: pa.Array) -> Bools:
            drawn = draws(keys.to_pylist(), salt)
            mine = below(drawn, percent)
            found.append(drawn[mine])
            return mine

        of = self._chosen(low)
        return _Sample(salt, percent, np.concatenate([np.zeros(0, np.uint64), *found]), of)

    def _chosen(self, choose: Callable[[pa.Array], Bools]) -> Drawn:
        """Return the parts that are chosen by their keys."""
        numbers, sizes, start = [_NONE], [_NONE], 0
        for piece in self._pieces:
            keys, all_sizes = piece.named_and_sized()
            places = np.flatnonzero(choose(keys))
            numbers.append(start + places)
            sizes.append(all_sizes[places])
            start += piece.parts
        return Drawn(np.concatenate(numbers), np.concatenate(sizes))

    def _owners(self, numbers: Numbers) -> Iterator[tuple[Some, Numbers]]:
        """Yield each piece that has some of the parts, with their places in it."""
        owners = np.searchsorted(self._ends, numbers, side="right")
        for owner in np.unique(owners):
            piece = self._pieces[owner]
            yield piece, numbers[owners == owner] - (self._ends[owner] - piece.parts)


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

    Cost: reads every manifest. Memory: the stored bytes of those in one blob, one piece as a table,
    and a bit for each part; of up to 65,536 parts also keys and sizes.
    """
    found = _Found()
    steps = descend(stores, state, Question.about(state, filter))
    few = sum(batch.parts for batch in state.batches) <= SAMPLED_WHOLE
    columns = ("size_bytes", "stats_version", *(("key",) if few else ()))
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
    left = [np.flatnonzero(~found.verdict.of(i)).tolist() for i in narrowed]
    some = np.zeros(len(piece.keep), np.bool_)
    some[places] = True
    sizes = np.zeros(len(piece.keep), np.int64)
    sizes[places] = [
        Skipped(ref, piece.step.batch, False, NO_STATS, tuple(groups)).size_bytes
        for ref, groups in zip(part_refs(piece.details(some)), left, strict=True)
    ]
    groups = pa.array(left, pa.list_(pa.int32()))
    return replace(_some(piece, places, sizes), sizes=sizes[places], groups=groups)


def _some(piece: Piece, places: Numbers, sizes: Numbers) -> Some:
    found = None if piece.verdict is None else piece.verdict.looked_up
    return Some(
        piece.step,
        piece.stored.forgotten(),
        len(places),
        int(sizes[places].sum()),
        _packed(piece.rows[places]),
        None if found is None else np.packbits(found[places]),
        known=_known(piece, places),
    )


def _known(piece: Piece, places: Numbers) -> pa.Table | None:
    if not len(places) or "key" not in piece.table.column_names:
        return None
    return piece.table.select(["key", "size_bytes"]).combine_chunks().take(pa.array(places))


def _packed(rows: Numbers) -> Packed:
    there = np.zeros(int(rows[-1]) + 1 if len(rows) else 0, np.bool_)
    there[rows] = True
    return np.packbits(there)


def _rows(statistics: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the statistics of each part."""
    for index in range(statistics.num_rows):
        yield statistics.slice(index, 1).combine_chunks().to_batches()[0]
