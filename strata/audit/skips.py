"""What a filter would do to every part of a shard, decided as a read decides it.

Shards have millions of parts, and of most no more is asked than how many there are and how large
they are. So parts stay rows of their manifests, whose bytes are kept as they are stored; an
object is made only of a part that is asked for.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.filter import Filter
from strata.fetch import StoredManifest
from strata.format.manifest import PartRef, part_refs
from strata.groups import row_groups, wants_groups
from strata.plan import may_matter, part_stats, suspects
from strata.prune import decide
from strata.state.state import Batch, State
from strata.store.open import Stores

Numbers: TypeAlias = npt.NDArray[np.int64]
NO_STATS: Final = pa.RecordBatch.from_pylist([])


@dataclass(frozen=True, slots=True)
class Skipped:
    """One part that the filter would skip, with the statistics that say so."""

    ref: PartRef
    batch: Batch
    by_batch: bool  # the union in the state already drops the whole batch
    stats: pa.RecordBatch  # one row of the manifest's statistics
    groups: tuple[int, ...] = ()  # the row groups that are left out of a part that is kept

    @property
    def rows(self) -> int:
        """Return how many rows are left out."""
        if not self.groups:
            return self.ref.rows
        ends = [*(split.row for split in self.ref.splits[1:]), self.ref.rows]
        return sum(ends[i] - self.ref.splits[i].row for i in self.groups)

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes of these rows, about."""
        return self.ref.size_bytes * self.rows // max(self.ref.rows, 1)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the parts of one piece of a manifest are described."""

    state: State
    batch: Batch
    manifest: StoredManifest
    number: int  # of the piece


@dataclass(frozen=True, slots=True)
class Piece:
    """Parts of one piece of a manifest of which something is left out.

    Shape: `rows`, `keys`, `sizes` and, if there are any, `groups` have an element a part.
    """

    source: Source
    by_batch: bool
    rows: Numbers  # of the piece
    keys: pa.Array
    sizes: Numbers  # stored bytes that are left out
    groups: tuple[tuple[int, ...], ...] = ()

    def make(self, places: Numbers) -> list[Skipped]:
        """Return what is known of some of them, by their places in `rows`."""
        source = self.source
        table = source.manifest.read(None, source.number)
        some = table.take(pa.array(self.rows[places]))
        statistics = _rows(part_stats(source.state, some))
        groups = [self.groups[i] for i in places] if self.groups else [()] * len(places)
        return [
            Skipped(ref, source.batch, self.by_batch, row, left)
            for ref, row, left in zip(part_refs(some), statistics, groups, strict=True)
        ]


class Skips(Sequence[Skipped]):
    """Parts of which something is left out, in the order of their manifests."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        """Take the pieces that are not empty."""
        self._pieces = [piece for piece in pieces if len(piece.rows)]
        self._ends = np.cumsum([len(piece.rows) for piece in self._pieces], dtype=np.int64)
        none = np.zeros(0, np.int64)
        self.sizes: Numbers = np.concatenate([none, *(piece.sizes for piece in self._pieces)])
        self._draws: dict[str, npt.NDArray[np.float64]] = {}

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
    def size_bytes(self) -> int:
        """Return the stored bytes that are left out of all."""
        return int(self.sizes.sum())

    def make(self, numbers: Numbers) -> list[Skipped]:
        """Return some of them. Shape: ascending.

        Cost: decompresses the pieces of their manifests again; objects of these alone.
        """
        owners = np.searchsorted(self._ends, numbers, side="right")
        found: list[Skipped] = []
        for owner in np.unique(owners):
            piece = self._pieces[owner]
            first = self._ends[owner] - len(piece.rows)
            found += piece.make(numbers[owners == owner] - first)
        return found

    def named(self, part_keys: Collection[str]) -> list[Skipped]:
        """Return those with these keys."""
        wanted = pa.array(sorted(part_keys), pa.string())
        keys = pa.chunked_array([piece.keys for piece in self._pieces], pa.string())
        return self.make(np.flatnonzero(np.asarray(pc.is_in(keys, value_set=wanted), np.bool_)))

    def drawn(self, percent: int, salt: str, least: int = 0) -> Numbers:
        """Return the numbers of a reproducible share: the same for the same part and salt.

        `least`: so many at least, if there are so many.
        """
        if percent >= 100 or least >= len(self):
            return np.arange(len(self))
        if salt not in self._draws:
            keys = (key for piece in self._pieces for key in piece.keys.to_pylist())
            self._draws[salt] = np.array([_draw(key, salt) for key in keys])
        draws = self._draws[salt]
        count = max(int((draws < percent).sum()), least)
        return np.sort(np.argsort(draws, kind="stable")[:count])


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a filter would do to a shard."""

    parts_total: int
    bytes_total: int
    skipped: Skips
    parts_without_stats: int
    tightened: Skips  # kept parts of which row groups are left out


def decide_all(stores: Stores, state: State, filter: Filter) -> Decisions:
    """Decide a filter for every part of a shard, at both levels.

    Cost: reads every manifest. Memory: their bytes as stored, a piece of one as a table, and of a
    part that is skipped its key and size.
    """
    deciding = _Deciding(state, filter)
    for batch in state.batches:
        if batch.manifest is not None:
            deciding.visit(batch, StoredManifest(stores.blob, state.name, batch))
    return Decisions(
        deciding.parts, deciding.size, Skips(deciding.skipped), deciding.without,
        Skips(deciding.tightened),
    )  # fmt: skip


class _Deciding:
    """What is decided, batch by batch: in each, piece by piece of its manifest."""

    def __init__(self, state: State, filter: Filter) -> None:
        self._state, self._filter = state, filter
        self._wants_groups = wants_groups(filter, state.relation)
        self.parts = self.size = self.without = 0
        self.skipped: list[Piece] = []
        self.tightened: list[Piece] = []

    def visit(self, batch: Batch, manifest: StoredManifest) -> None:
        """Decide the parts of a batch."""
        by_batch = not may_matter(self._state, batch, self._filter)
        seen = 0
        for number in range(manifest.pieces):
            table = manifest.read(None, number)
            self._decide(Source(self._state, batch, manifest, number), table, by_batch=by_batch)
            seen += table.num_rows
        manifest.check_parts(seen)

    def _decide(self, source: "Source", table: pa.Table, *, by_batch: bool) -> None:
        state, sizes = self._state, table["size_bytes"].to_numpy()
        self.parts += table.num_rows
        self.size += int(sizes.sum())
        self.without += table["stats_version"].null_count
        stats = part_stats(state, table)
        keep = decide(self._filter, stats, state.relation, quarantine=state.rollout.quarantine).keep
        suspect = suspects(state, table)
        keep = keep | suspect  # a read fetches them: there is no skip to judge
        rows = np.flatnonzero(~keep | by_batch)
        keys = _taken(table["key"], rows)
        self.skipped.append(Piece(source, by_batch, rows, keys, sizes[rows]))
        known = np.flatnonzero(keep & ~suspect)
        if self._wants_groups and not by_batch and len(known):
            self.tightened.append(self._tightened(source, table, stats, known))

    def _tightened(
        self, source: "Source", table: pa.Table, stats: pa.Table, known: Numbers
    ) -> Piece:
        """Return the kept parts of which a read leaves out row groups, as `strata.plan` does."""
        state, rows = self._state, pa.array(known)
        some, its = table.take(rows), stats.take(rows)
        chosen = row_groups(self._filter, some, its, state.relations, state.rollout.quarantine)
        named = pc.is_in(some["key"], value_set=pa.array([*chosen], pa.string()))
        where = np.flatnonzero(np.asarray(named, np.bool_))
        left = [
            Skipped(ref, source.batch, by_batch=False, stats=NO_STATS, groups=_others(ref, chosen))
            for ref in part_refs(some.take(pa.array(where)))
        ]
        return Piece(
            source, False, known[where], _taken(some["key"], where),
            np.array([one.size_bytes for one in left], np.int64), tuple(one.groups for one in left),
        )  # fmt: skip


def _others(ref: PartRef, chosen: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(i for i in range(len(ref.splits)) if i not in chosen[ref.key])


def _taken(column: pa.ChunkedArray, rows: Numbers) -> pa.Array:
    return column.combine_chunks().take(pa.array(rows))


def _rows(statistics: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the statistics of each part."""
    for index in range(statistics.num_rows):
        yield statistics.slice(index, 1).combine_chunks().to_batches()[0]


def _draw(key: str, salt: str) -> float:
    digest = blake2b(f"{salt}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 * 100
