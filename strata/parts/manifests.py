"""Read the manifest of a batch: one blob, or a tree of pages below indexes, opened as asked.

Each blob is checked against its name, because Arrow files carry no checksums: a flipped bit may
make a bound wrong, and skip a part. Columns are decoded on demand, pages several at a time.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.errors import Corrupt
from strata.format.manifest import (
    BLOB_COLUMNS,
    PIECE_PARTS,
    SCHEMA,
    PartRef,
    blobs_of,
    decode_manifest,
    has_columns,
    head_of,
    part_refs,
    unify,
)
from strata.format.pack import unpack
from strata.format.pages import INDEX_VERSION, Index, decode_index
from strata.kernels.arrays import Ints
from strata.model.settings import StoreSettings
from strata.parts.turns import in_turn
from strata.state.state import Batch
from strata.store.interface import Blob, Rooted
from strata.store.named import get_named
from strata.store.open import open_blob

CURE: Final = (
    "stop writing; restore the blob from a backup, or drop the part's batch; "
    "`strata validate` lists every damaged part"
)
AT_ONCE: Final = 8  # pages read at once: a remote store is waited for
AHEAD_BYTES: Final = 32 * 1024 * 1024  # of pages and indexes that wait for their turn


class StoredPiece:
    """Some neighbouring parts of a manifest, which are read together."""

    def __init__(
        self,
        manifest: "ManifestBlobs",
        data: bytes | None = None,
        number: int = 0,
        pages: pa.Table | None = None,
    ) -> None:
        """Name a piece of a manifest in one blob of these bytes, or pages by their rows."""
        self._manifest, self._whole, self._number = manifest, data, number
        self.pages = pages  # their rows of an index; None: the manifest is in one blob
        self._data: list[bytes] | None = None

    def read(self, columns: Collection[str] | None = None, *, joined: bool = True) -> pa.Table:
        """Return the parts of the piece with these columns, None all; see `decode_manifest`.

        `joined`: each column in one chunk, which copies it; otherwise in one for each page.
        Cost: pages are fetched once, and their bytes kept until `forgotten`.
        Raises: Corrupt when it is damaged, or does not list the parts that its index counts.
        """
        if self.pages is None:
            assert self._whole is not None
            return self._manifest.decoded(self._whole, columns, self._number)
        if self._data is None:
            self._data = list(self._manifest.fetched(self.pages))
        tables = self._manifest.pages_decoded(self._data, columns)
        for table, parts in zip(tables, self.pages["parts"].to_pylist(), strict=True):
            if table.num_rows != parts:
                raise Corrupt(
                    "a page of a manifest does not list the parts that its index counts",
                    **self._manifest.where,
                    parts=table.num_rows,
                    counted=parts,
                    cure=CURE,
                )
        if len(tables) == 1:
            return tables[0]
        return unify(tables).combine_chunks() if joined else unify(tables)

    def has_any(self, prefix: str) -> bool:
        """Return whether the piece may have a column whose name begins so.

        Cost: pages are fetched, and their schemas looked at; nothing is decoded.
        """
        if self.pages is not None and self._data is None:
            self._data = list(self._manifest.fetched(self.pages))
        blobs = [self._whole] if self.pages is None else self._data
        return any(has_columns(data, prefix) for data in blobs or () if data is not None)

    def some(self, rows: Ints, columns: Collection[str] | None = None) -> pa.Table:
        """Return some parts, by their places in the piece, with these columns.

        Cost: pages that hold none of them are not decoded. Raises: as `read`.
        """
        if self.pages is None or not len(rows):
            return self.read(columns).take(pa.array(rows))
        counts = self.pages["parts"].to_numpy()
        page = np.searchsorted(np.cumsum(counts), rows, side="right")
        needed = np.unique(page)
        few = StoredPiece(self._manifest, pages=self.pages.take(pa.array(needed)))
        if self._data is not None:
            few._data = [self._data[n] for n in needed.tolist()]
        moved = np.zeros(len(counts), np.int64)  # by how much each page lies nearer to the start
        moved[needed] = (np.cumsum(counts) - counts)[needed] - (
            np.cumsum(counts[needed]) - counts[needed]
        )
        return few.read(columns).take(pa.array(rows - moved[page]))

    def forgotten(self) -> "StoredPiece":
        """Return the same piece without the bytes of its pages, which are fetched again."""
        return StoredPiece(self._manifest, self._whole, self._number, self.pages)


class ManifestBlobs:
    """The blobs of a manifest below its first one, which are read when they are asked."""

    def __init__(self, blob: Blob, shard: str, key: str) -> None:
        """Name a manifest; nothing is read yet."""
        self._blob = blob
        self.where: dict[str, Any] = {"shard": shard, "manifest": key}

    def below(self, index: Index, columns: Collection[str] | None = None) -> Iterator[Index]:
        """Yield the index that each row of an index of level 2 or more names, in order.

        Raises: Corrupt when one is missing, damaged, or counts other parts than its row.
        """
        rows = zip(index.table["parts"].to_pylist(), self.fetched(index.table), strict=True)
        for parts, data in rows:
            found = self._index(data, columns)
            counted = sum(found.table["parts"].to_pylist())
            if (found.level, counted) != (index.level - 1, parts):
                raise Corrupt(
                    "an index of a manifest does not list the parts that are counted above it",
                    **self.where,
                    parts=counted,
                    counted=parts,
                    cure=CURE,
                )
            yield found

    def leaves(self, index: Index, columns: Collection[str] | None = ()) -> Iterator[pa.Table]:
        """Yield the rows of all pages below an index, in order, with some statistics.

        Memory: the rows of one index of each level.
        """
        if index.level == 1:
            yield index.table
            return
        for lower in self.below(index, columns):
            yield from self.leaves(lower, columns)

    def pieces_of(self, pages: pa.Table, most: int = PIECE_PARTS) -> Iterator[StoredPiece]:
        """Yield pieces of about `most` parts, of these neighbouring pages."""
        first, parts = 0, 0
        counts = pages["parts"].to_pylist()
        for number, count in enumerate(counts):
            if number > first and parts + count > most:
                yield StoredPiece(self, pages=pages.slice(first, number - first))
                first, parts = number, 0
            parts += count
        if first < len(counts):
            yield StoredPiece(self, pages=pages.slice(first))

    def fetched(self, rows: pa.Table) -> Iterator[bytes]:
        """Yield the bytes of the blobs that these rows of an index name, several at a time.

        Raises: Corrupt when one is missing or damaged.
        """
        get = partial(get_named, self._blob, what="a page of a manifest", cure=CURE, **self.where)
        sizes = rows["blob_bytes"].to_pylist()
        jobs = [
            (size, partial(get, key=key))
            for key, size in zip(rows["key"].to_pylist(), sizes, strict=True)
        ]
        # Of files on this machine, others ahead of their turn cost more than they spare
        yield from in_turn(jobs, 1 if isinstance(self._blob, Rooted) else AT_ONCE, AHEAD_BYTES)

    def pages_decoded(
        self, pages: Sequence[bytes], columns: Collection[str] | None
    ) -> list[pa.Table]:
        """Return some columns of pages. Threads would wait for each other more than they decode.

        Raises: Corrupt.
        """
        return [self.decoded(data, columns, threads=len(pages) == 1) for data in pages]

    def decoded(
        self,
        data: bytes,
        columns: Collection[str] | None = None,
        piece: int | None = None,
        *,
        threads: bool = True,
    ) -> pa.Table:
        """Return some columns of a manifest or page, or only one piece of it.

        Raises: Corrupt when it is damaged.
        """
        try:
            return decode_manifest(data, columns, piece, threads=threads)
        except Corrupt as error:
            raise _located(error, **self.where) from error

    def _index(self, data: bytes, columns: Collection[str] | None) -> Index:
        try:
            return decode_index(data, columns)
        except Corrupt as error:
            raise _located(error, **self.where) from error


class StoredManifest(ManifestBlobs):
    """The manifest of a batch: its first blob is read and checked once, others when they are asked.

    `data` are the bytes of a manifest in one blob, or of the uppermost index.
    """

    @classmethod
    def by_key(cls, blob: Blob, shard: str, key: str) -> "StoredManifest":
        """Read a manifest by its name alone; its parts cannot be counted."""
        return cls(blob, shard, Batch(0, 0, 0, manifest=key))

    def __init__(self, blob: Blob, shard: str, batch: Batch) -> None:
        """Read the first blob of the manifest of a batch that has parts.

        Raises: Corrupt when it is missing or its bytes differ from what was written.
        """
        assert batch.manifest is not None, "an empty batch has no manifest"
        super().__init__(blob, shard, batch.manifest)
        self._batch = batch
        data = get_named(
            blob,
            batch.manifest,
            "a manifest",
            cure=CURE,
            shard=shard,
            lower=batch.lower,
            upper=batch.upper,
        )
        try:
            self.data = unpack(data)  # once for any number of columns and pieces
            version, self._count = head_of(self.data)
        except Corrupt as error:
            raise _located(error, **self.where) from error
        self.in_pages = version == str(INDEX_VERSION)

    def read(self, columns: Collection[str] | None = None) -> pa.Table:
        """Return the whole manifest, or some of its columns.

        Raises: Corrupt. Cost: opens every page.
        """
        if self.in_pages:
            return unify([piece.read(columns) for piece in self.pieces()])
        return self.decoded(self.data, columns)

    def pieces(self, *, unions: bool = False, most: int = PIECE_PARTS) -> Iterator[StoredPiece]:
        """Yield the pieces of the manifest; together they have all parts, in order.

        `unions`: the rows of their pages have the unions of statistics, too. `most`: about how many
        parts a piece of pages has; a manifest in one blob is cut as it was written.
        Raises: Corrupt.
        """
        if not self.in_pages:
            yield from (StoredPiece(self, self.data, n) for n in range(self._count))
            return
        columns = None if unions else ()
        for pages in self.leaves(self.root(columns), columns):
            yield from self.pieces_of(pages, most)

    def root(self, columns: Collection[str] | None = None) -> Index:
        """Return the uppermost index, with some statistics; see `decode_index`.

        Raises: Corrupt when it is damaged.
        """
        return self._index(self.data, columns)

    def names(self) -> dict[str, tuple[str, ...]]:
        """Return what each blob of the manifest names: parts and filters, or pages, listed too.

        Raises: Corrupt. Cost: opens every page.
        """
        return dict(self.each_names())

    def each_names(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each blob of the manifest with what it names, as `names` has it, a page at a time.

        Raises: Corrupt. Cost: opens every page.
        """
        if not self.in_pages:
            yield self.where["manifest"], blobs_of(self.decoded(self.data, BLOB_COLUMNS))
            return
        yield from self._names_below(self.where["manifest"], self.root(()))

    def _names_below(self, key: str, index: Index) -> Iterator[tuple[str, tuple[str, ...]]]:
        found = _keys(index.table)
        yield key, found
        if index.level > 1:
            for one, lower in zip(found, self.below(index, ()), strict=True):
                yield from self._names_below(one, lower)
            return
        for one, data in zip(found, self.fetched(index.table), strict=True):
            yield one, blobs_of(self.decoded(data, BLOB_COLUMNS))

    def check_parts(self, count: int) -> None:
        """Refuse a manifest whose number of parts differs from its batch's.

        Raises: Corrupt.
        """
        if count != self._batch.parts:
            raise Corrupt(
                "a manifest does not list the parts that the state counts",
                **self.where,
                parts=count,
                counted=self._batch.parts,
                cure=CURE,
            )


@dataclass(frozen=True, slots=True)
class PageParts:
    """Some parts of a page, which are read from it when they are iterated; picklable."""

    store: StoreSettings
    shard: str
    manifest: str
    page: pa.Table  # its row of an index, with the fixed columns
    start: int
    stop: int

    @property
    def size_bytes(self) -> int:
        """Return an estimate of the stored bytes of the parts: their share of the page's."""
        size, parts = (int(self.page[name][0].as_py()) for name in ("size_bytes", "parts"))
        return size * (self.stop - self.start) // max(parts, 1)

    def __iter__(self) -> Iterator[PartRef]:
        """Yield the parts. Raises: Corrupt."""
        tree = ManifestBlobs(open_blob(self.store), self.shard, self.manifest)
        table = StoredPiece(tree, pages=self.page).read(SCHEMA.names)
        yield from part_refs(table.slice(self.start, self.stop - self.start))

    def pieces(self, limit_bytes: int) -> "Iterator[PageParts]":
        """Yield the same parts in pieces of about this many stored bytes."""
        count = min(max(-(-self.size_bytes // max(limit_bytes, 1)), 1), self.stop - self.start)
        edges = [self.start + (self.stop - self.start) * n // count for n in range(count + 1)]
        yield from (replace(self, start=a, stop=b) for a, b in pairwise(edges))


def load_manifest_of(
    blob: Blob, shard: str, batch: Batch, columns: Collection[str] | None = None
) -> pa.Table:
    """Return the manifest of a batch that has parts, or only some of its columns.

    Raises: Corrupt when it is missing, damaged or of another batch.
    """
    manifest = StoredManifest(blob, shard, batch)
    table = manifest.read(columns)
    manifest.check_parts(table.num_rows)
    return table


def _keys(table: pa.Table) -> tuple[str, ...]:
    return tuple(table["key"].to_pylist())


def _located(error: Corrupt, **where: object) -> Corrupt:
    """Return the error with its place added, unless it names one already."""
    return Corrupt(error.message, cure=error.cure or CURE, **{**where, **error.details})
