"""Fetch stored parts: ranges of blobs as files, the parts of a run as sorted rows.

A referenced blob must exist and be readable; otherwise `Corrupt` is raised, naming the shard and
the part. Rows come in the columns of the requested relation, even if another version wrote them.
"""

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from strata.errors import Corrupt
from strata.format.columns import updates_schema
from strata.format.manifest import PartRef
from strata.format.part import BATCH_ROWS, read_part
from strata.model.schema import Relation
from strata.parts.manifests import CURE
from strata.state.state import State
from strata.store.interface import Blob
from strata.store.named import lost_blob
from strata.store.retry import retry
from strata.updates.merge import HEAD_ROWS
from strata.updates.order import is_sorted, sort_updates
from strata.updates.slices import (
    NO_GROUPS,
    WHOLE,
    Groups,
    Slice,
    keeps_order,
    overlapping_groups,
    rows_inside,
    rows_of,
)
from strata.updates.stream import spilled

TAIL_BYTES: Final = 64 * 1024  # read in one request from the end; holds a part's footer
LEAST_ROWS: Final = HEAD_ROWS[0]  # rows decoded at a time, of any size
SPILL_BYTES: Final = 16 * 1024 * 1024  # newly sorted rows stay in memory up to this size


@dataclass(frozen=True, slots=True)
class PartSource:
    """What a reader of one shard's parts needs; picklable except for `blob`."""

    blob: Blob
    shard: str
    relations: tuple[Relation, ...]
    read_format: str
    coded: bool = False  # whether texts may come as codes (`strata.format.values.coded`)
    row_group_bytes: int = 0  # of a row group before encoding, at most; 0: unknown

    @property
    def relation(self) -> Relation:
        """Return the relation whose columns the rows get: the newest."""
        return self.relations[-1]


def source_of(blob: Blob, state: State) -> PartSource:
    """Return what reading the parts of a shard needs, for its current state."""
    spec = state.spec
    return PartSource(
        blob, state.name, state.relations, spec.read_format, row_group_bytes=spec.group_bytes
    )


@dataclass(frozen=True, slots=True)
class RowBudget:
    """How many rows of a run are decoded at a time, limited by count and roughly by bytes."""

    rows: int = BATCH_ROWS
    size_bytes: int | None = None  # None: no limit

    def rows_of(self, ref: PartRef, row_group_bytes: int) -> int:
        """Return how many rows of a part fit the budget, given the largest size of its row groups.

        Uses sizes before encoding, not stored bytes. Errs: too few where the part is one small
        row group.
        """
        if self.size_bytes is None or not row_group_bytes:
            return self.rows
        in_group = ref.rows // max(len(ref.splits), 1)
        fitting = self.size_bytes * in_group // row_group_bytes
        return min(self.rows, max(fitting, LEAST_ROWS))


class BlobFile(io.RawIOBase):
    """A blob as a seekable file that is read in ranges; its end is fetched once and kept."""

    def __init__(self, blob: Blob, key: str, size_bytes: int) -> None:
        """Open a blob whose size is known; nothing is read yet."""
        super().__init__()
        self._blob, self._key, self._size = blob, key, size_bytes
        self._position = 0
        self._tail: bytes | None = None

    def readable(self) -> bool:
        """Return True: this file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: this file can be read at any position."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes from the position on.

        Raises: Corrupt when the blob is gone or shorter than recorded.
        """
        rest = max(self._size - self._position, 0)
        wanted = rest if size is None or size < 0 else min(size, rest)
        data = self._range(self._position, wanted)
        self._position += wanted
        return data

    def readall(self) -> bytes:
        """Return everything from the position on."""
        return self.read()

    def readinto(self, buffer: object, /) -> int:
        """Fill a buffer and return how many bytes were read."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def _range(self, start: int, length: int) -> bytes:
        if not length:
            return b""
        tail_start = max(self._size - TAIL_BYTES, 0)
        if start < tail_start:
            return self._get(start, length)
        if self._tail is None:
            self._tail = self._get(tail_start, self._size - tail_start)
        return self._tail[start - tail_start : start - tail_start + length]

    def _get(self, start: int, length: int) -> bytes:
        data = retry(partial(self._blob.get, self._key, start, length))
        if data is None:
            raise lost_blob(self._blob, Corrupt("a part is missing"))
        if len(data) != length:
            raise Corrupt("a part is shorter than its manifest says", recorded=self._size)
        return data


def part_bytes(source: PartSource, ref: PartRef) -> bytes:
    """Return a whole part.

    Raises: Corrupt when it is missing or has another size.
    """
    data = retry(partial(source.blob.get, ref.key))
    if data is None:
        error = Corrupt("a part is missing", shard=source.shard, part=ref.key, cure=CURE)
        raise lost_blob(source.blob, error)
    if len(data) != ref.size_bytes:
        raise Corrupt(
            "a part has another size than its manifest says",
            shard=source.shard,
            part=ref.key,
            size=len(data),
            recorded=ref.size_bytes,
            cure=CURE,
        )
    return data


def part_batches(  # noqa: PLR0913 - all but two are options, by name
    source: PartSource,
    ref: PartRef,
    *,
    data: bytes | None = None,
    columns: Collection[int] | None = None,
    within: Slice = WHOLE,
    batch_rows: int = BATCH_ROWS,
    groups: Sequence[int] | None = None,
    together_bytes: int = 0,
    threads: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part: from `data` if it is fetched already, else range by range.

    `within` leaves out row groups without a row of the slice; rows outside it may still come.
    `groups` names the row groups to read, None all. They are fetched together up to
    `together_bytes` in total, else one by one, because a file reader gathers everything requested
    before it yields.
    Raises: Corrupt, naming shard, part and cure, if the part is damaged, missing, or has fewer or
    more rows than its manifest says.
    """
    relation = source.relation
    chosen = _chosen(source, ref, within, groups)
    file = BlobFile(source.blob, ref.key, ref.size_bytes) if data is None else data
    rows = 0
    steps = [chosen] if data is not None else _steps(ref, chosen, together_bytes)
    try:
        for step in steps:
            for batch in read_part(
                file,
                relation,
                relations=source.relations,
                read_format=source.read_format,
                columns=columns,
                row_groups=step,
                batch_rows=batch_rows,
                threads=threads,
                coded=source.coded,
            ):
                rows += batch.num_rows
                yield batch
                del batch  # not held while the next is read
    except Corrupt as error:
        raise _located(error, shard=source.shard, part=ref.key) from error
    if chosen is None and rows != ref.rows:
        raise Corrupt(
            "a part has another number of rows than its manifest says",
            shard=source.shard,
            part=ref.key,
            rows=rows,
            recorded=ref.rows,
            cure=CURE,
        )


def _chosen(
    source: PartSource, ref: PartRef, within: Slice, groups: Sequence[int] | None
) -> list[int] | None:
    """Return the row groups to read; None if it is all of them."""
    inside = overlapping_groups(ref, within, source.relation, source.relations)
    if inside is None:
        inside = list(range(len(ref.splits)))
    if groups is not None and ref.splits:
        inside = [group for group in inside if group in groups]
    return inside if len(inside) < len(ref.splits) else None


def _steps(ref: PartRef, chosen: list[int] | None, together_bytes: int) -> list[list[int] | None]:
    """Return the row groups to fetch together, step by step; None means all."""
    if not ref.splits or (chosen is None and ref.size_bytes <= together_bytes):
        return [None]
    groups = list(range(len(ref.splits))) if chosen is None else chosen
    together = max(1, together_bytes * len(ref.splits) // max(ref.size_bytes, 1))
    return [groups[i : i + together] for i in range(0, len(groups), together)]


def sorted_runs(
    source: PartSource,
    parts: Sequence[PartRef],
    *,
    within: Slice = WHOLE,
    batches: RowBudget = RowBudget(),
    groups: Groups = NO_GROUPS,
    together_bytes: int = 0,
) -> list[Iterable[pa.RecordBatch | pa.Table]]:
    """Return the parts of one run as runs sorted by the newest relation, if possible as one.

    Each part in another order is read whole, sorted in memory, and becomes a run of its own without
    coded texts. `groups` limits the parts that it names to these row groups; `together_bytes` is
    that of `part_batches`.
    """
    if all(keeps_order(ref, source.relation, source.relations) for ref in parts):
        # Runs come side by side in small batches: decoding the columns of one in other threads
        # would cost a tenth of a merge.
        read = partial(
            part_batches, source, within=within, together_bytes=together_bytes, threads=False
        )
        return [_run(source, parts, within, groups, batches, read)]
    plain = replace(source, coded=False)
    return [_resorted(plain, ref, within, groups.get(ref.key)) for ref in parts]


def _run(
    source: PartSource,
    parts: Sequence[PartRef],
    within: Slice,
    groups: Groups,
    batches: RowBudget,
    read: Callable[..., Iterator[pa.RecordBatch]],
) -> Iterator[pa.Table]:
    for ref in parts:
        chosen = _chosen(source, ref, within, groups.get(ref.key))
        inside = rows_inside(ref, chosen, within, source.relation, source.relations)
        first, rest = 0, within
        count = batches.rows_of(ref, source.row_group_bytes)
        for batch in read(ref, groups=groups.get(ref.key), batch_rows=count):
            rows, last = pa.Table.from_batches([batch]), first + batch.num_rows
            if not inside.start <= first < last <= inside.stop:
                rows = rows_of(rows, rest, source.relation)
            first, ended = last, not rest.low and rows.num_rows < batch.num_rows
            if rows.num_rows:
                yield rows
                rest = Slice(b"", within.high)  # all later parts sort behind them
            del batch, rows  # not held while the next is read
            if ended:
                break


def _resorted(
    source: PartSource, ref: PartRef, within: Slice, groups: Sequence[int] | None
) -> Iterator[pa.Table | pa.RecordBatch]:
    """Yield the rows of one part, sorted; they are spilled to disk unless they are few."""
    schema = updates_schema(source.relation)
    rows = pa.Table.from_batches(
        part_batches(source, ref, within=within, groups=groups), schema=schema
    )
    if not is_sorted(rows, source.relation):
        rows = sort_updates(rows, source.relation)
    rows = rows_of(rows, within, source.relation)
    if rows.nbytes <= SPILL_BYTES:
        yield rows
        return
    aside = spilled(iter([rows]), schema)
    first = next(aside)  # all of it is on disk now
    del rows
    yield first
    yield from aside


def _located(error: Corrupt, **where: object) -> Corrupt:
    """Return the error with its place added, unless it names one already."""
    return Corrupt(error.message, cure=error.cure or CURE, **{**where, **error.details})
