"""Write sorted updates: parts cut by encoded bytes, then the manifest and its batch.

A part is written row group by row group while its rows arrive, so memory holds only one row group
and the encoded bytes so far. The manifest's facts are collected at the same time
(`strata.parts.part_facts`). Bloom filters are stored before the manifest that names them.

A part's key is its prefix and the hash of its bytes, so repeating the work writes the same blobs
and nothing else. Two runs of one batch may hold the same rows; since a footer names its run, their
parts still differ. The cuts of a run depend only on its rows, never on the caller's chunks. The
first rows of a part choose its settings; a new part begins where texts cease to repeat.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from strata.format.manifest import PartRef
from strata.format.part import Description
from strata.format.part_write import PartWriter, has_huge_rows
from strata.format.values.coded import alike
from strata.format.weigh import Weighed, fitting_of
from strata.kernels.arrays import Ints
from strata.model.runner import Here, cores
from strata.model.schema import Relation
from strata.model.spec import StatsSpec
from strata.parts.batch import BatchWriter
from strata.parts.members import with_members
from strata.parts.part_facts import KEY_BYTES, Observed, PartFacts
from strata.state.state import Batch
from strata.stats import STATS_VERSION, trim_together
from strata.stats.members import Sought, wanted_places
from strata.stats.pairs import SoughtPair, wanted_pairs
from strata.stats.worth import NO_WORTH, StatsWorth
from strata.store import keys
from strata.store.draft import draft_of
from strata.store.interface import Blob
from strata.store.retry import retry

FULL: Final = 7 / 8  # a part filled to this share of `part_bytes` takes no more rows
TAIL: Final = 1 / 4  # except the rest of the run, if that is at most this share
# Rows that would make a part longer than this many `part_bytes` begin a new one
OVERSHOOT: Final = 1.5
GROUPS: Final = 2  # least number of row groups of a part, by bytes before encoding
TRIMMED: Final = 16  # parts whose statistics are trimmed together
RATIOS: Final = (0.01, 4.0)  # assumed range of encoded bytes for each byte of rows


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """One stored part, and what the manifest will say about it."""

    ref: PartRef
    stats: pa.RecordBatch | None  # None: unknown, so the part is always read
    stats_seconds: float = field(default=0.0, compare=False)  # processor time to collect them
    # Earlier parts of its run that hold the same single row
    copy: int = field(default=0, compare=False)


@dataclass(frozen=True)
class PartTarget:
    """What the parts of one run share."""

    blob: Blob
    prefix: str
    relation: Relation
    layout: str
    description: Description
    part_bytes: int
    row_group_bytes: int
    stats_spec: StatsSpec
    run: int
    worth: StatsWorth = NO_WORTH

    @cached_property
    def wanted(self) -> tuple[Sought, ...]:
        """Return the places whose values are collected."""
        return wanted_places(self.relation, self.stats_spec)

    @cached_property
    def pairs(self) -> tuple[SoughtPair, ...]:
        """Return the pairs whose differences are collected."""
        return wanted_pairs(self.relation, self.stats_spec)

    def observed(self, group_bytes: int) -> Observed:
        """Return what takes the rows of a part; `group_bytes`: its largest row group."""
        # The row layout never had statistics.
        return Observed(
            self.relation,
            group_bytes,
            stats=self.layout != "row",
            wanted=self.wanted,
            pairs=self.pairs,
            keep=self.stats_spec.keep,
            worth=self.worth,
        )


class _Waiting:
    """Rows of the run that no part holds yet, chunk by chunk; each chunk is measured once."""

    def __init__(self, updates: Iterator[pa.Table]) -> None:
        """Begin before the first row; nothing is read yet."""
        self._updates = updates
        # The first row of it that waits
        self._chunks: deque[tuple[pa.Table, Weighed, int]] = deque()
        self._bits = 0
        self.ended = False

    @property
    def size_bytes(self) -> int:
        """Return the size of the waiting rows, as `plain_bytes` counts."""
        return self._bits // 8

    def fill(self, limit_bytes: int) -> bool:
        """Read until more than `limit_bytes` wait; return whether any row waits."""
        while not self.ended and self.size_bytes <= limit_bytes:
            chunk = next(self._updates, None)
            if chunk is None:
                self.ended = True
            elif chunk.num_rows:
                weighed = Weighed(chunk)
                self._chunks.append((chunk, weighed, 0))
                self._bits += weighed.between(0, chunk.num_rows)
        return bool(self._chunks)

    def take(self, limit_bytes: int) -> tuple[pa.Table, int]:
        """Remove the longest prefix of rows within the size, but at least one row.

        Shape: the rows, not copied if they are in one chunk; and their size in bytes.
        """
        rest = fitting_of(sum(c.num_rows for c, _, _ in self._chunks), self._sizes, limit_bytes)
        pieces, taken_bits = [], 0
        while rest:
            chunk, weighed, first = self._chunks.popleft()
            count = min(rest, chunk.num_rows)
            pieces.append(chunk.slice(0, count))
            taken_bits += weighed.between(first, first + count)
            rest -= count
            if count < chunk.num_rows:
                self._chunks.appendleft((chunk.slice(count), weighed, first + count))
        self._bits -= taken_bits
        rows = pieces[0] if len(pieces) == 1 else pa.concat_tables(alike(pieces))
        return rows.combine_chunks(), taken_bits // 8

    def _sizes(self, ends: Ints) -> Ints:
        total, start = np.zeros(len(ends), np.int64), 0
        for chunk, weighed, first in self._chunks:
            inside = first + np.clip(ends - start, 0, chunk.num_rows)
            total += weighed.bits(inside) - weighed.bits(np.array([first]))
            start += chunk.num_rows
        return total // 8


class _Part:
    """A part being written, and the facts for its reference."""

    def __init__(self, target: PartTarget, first: pa.Table, size: int, rows: int) -> None:
        """Choose the settings from the first row group, of a given size; expect about `rows`."""
        self.target, huge = target, has_huge_rows(first.num_rows, size)
        self.draft = retry(partial(draft_of, target.blob, huge=huge))
        try:
            with self.draft.guarded():
                self.writer = PartWriter(
                    target.relation,
                    target.layout,
                    target.description,
                    first,
                    rows,
                    self.draft.file,
                    huge=huge,
                )
        except BaseException:
            self.draft.drop()
            raise
        group_bytes = int(min(target.row_group_bytes, target.part_bytes / GROUPS))
        self.seen = target.observed(group_bytes)

    def add(self, group: pa.Table, size: int, beside: Executor) -> float:
        """Write a row group of a given size; return the ratio of encoded bytes to that size."""
        before = self.writer.size_bytes
        self.seen.add(group, size)
        looked = beside.submit(self.seen.look)
        prepared = self.writer.prepare(group)
        with self.draft.guarded():
            self.writer.write(prepared)
        looked.result()
        ratio = (self.writer.size_bytes - before) / size
        return min(max(ratio, RATIOS[0]), RATIOS[1])

    def store(self, beside: Executor, before: WrittenPart | None) -> WrittenPart:
        """Store the part after the previous one of its run; return what is known of it.

        Its statistics are not yet trimmed (`trimmed_parts`).
        """
        target, finished = self.target, beside.submit(self.seen.finish)
        copy = _copy(before, finished)
        with self.draft.guarded():
            self.writer.close(copy, target.run)
        digest, size_bytes = self.draft.finish()
        key = keys.part_key(target.prefix, digest)
        retry(partial(self.draft.keep, key))
        return known_part(target, finished.result(), key, size_bytes, self.seen.seconds, copy)


def write_parts(  # noqa: PLR0913  what one run is and how it is cut
    blob: Blob,
    prefix: str,
    updates: Iterable[pa.Table],
    relation: Relation,
    *,
    layout: str,
    description: Description,
    part_bytes: int,
    row_group_bytes: int,
    stats_spec: StatsSpec,
    run: int = 0,
    worth: StatsWorth = NO_WORTH,
) -> list[WrittenPart]:
    """Write one run as parts of about `part_bytes` each and return what was written.

    Shape: `updates` are tables of `updates_schema(relation)`, together sorted by
    `relation.sort_ids` then t and consolidated; empty ones are allowed. Texts may be coded
    (`strata.format.values.coded`) without effect on the result. `run` differs for each run of a
    batch and is the same when the work is repeated; parts of two runs never share a key. `worth`
    decides which statistics stay where not all fit.
    Cost: one blob a part. Memory: the encoded part, a few row groups and one chunk of rows.
    """
    target = PartTarget(
        blob,
        prefix,
        relation,
        layout,
        description,
        part_bytes,
        row_group_bytes,
        stats_spec,
        run,
        worth,
    )
    parts = _write(iter(updates), target)
    return [
        part
        for some in iter(lambda: list(islice(parts, TRIMMED)), [])
        for part in trimmed_parts(some, target)
    ]


def known_part(
    target: PartTarget, known: PartFacts, key: str, size_bytes: int, seconds: float, copy: int = 0
) -> WrittenPart:
    """Return a stored part with its reference; its statistics are not yet trimmed.

    `seconds`: processor time that its statistics took so far. Stores its bloom filters.
    """
    began = time.thread_time()
    stats = known.stats
    if stats is not None:
        stats = with_members(target.blob, target.prefix, stats, known.members)
    ref = PartRef(
        key=key,
        size_bytes=size_bytes,
        rows=known.rows,
        run=target.run,
        layout=target.layout,
        relation_version=target.relation.version,
        order=target.relation.sort_ids,
        t_low=known.t_low,
        t_high=known.t_high,
        diffs_sum=known.diffs_sum,
        digest=known.digest,
        retractions=known.retractions,
        key_low=known.key_low,
        key_high=known.key_high,
        splits=known.splits,
        stats_version=None if stats is None else STATS_VERSION,
    )
    return WrittenPart(ref, stats, seconds + time.thread_time() - began, copy)


def write_batch(  # noqa: PLR0913, PLR0917  these are the fields of one batch
    blob: Blob,
    shard: str,
    parts: Sequence[WrittenPart],
    lower: int,
    upper: int,
    since: int,
    generation: int | None = None,
) -> Batch:
    """Write the manifest of `parts` and return the batch that refers to it.

    Without parts the batch is empty and nothing is written. `generation` is that of the shard when
    the work began, and decides how long the batch is accepted; None takes the lowest of the parts,
    which is right if all of them are new.
    """
    if generation is None:
        generation = min((keys.generation_of(part.ref.key) for part in parts), default=0)
    writer = BatchWriter(blob, shard, generation)
    for part in parts:
        writer.add(part.ref, part.stats)
    return writer.finish(lower, upper, since)


def _write(updates: Iterator[pa.Table], target: PartTarget) -> Iterator[WrittenPart]:
    """Yield the parts of a run; each ends once it has enough encoded bytes."""
    waiting, ratio = _Waiting(updates), 1.0
    part: _Part | None = None
    written: WrittenPart | None = None
    with ExitStack() as ends:
        beside = ends.enter_context(_beside())
        ends.callback(lambda: part.draft.drop() if part else None)  # what is stored stays
        while waiting.fill(limit := _group_bytes(part, ratio, target)):
            size = 0 if part is None else part.writer.size_bytes
            tail = waiting.ended and waiting.size_bytes <= limit
            if part is not None and size >= _full(part) * target.part_bytes and not tail:
                yield (written := part.store(beside, written))
                part = None
                continue
            group, weight = waiting.take(limit)
            grown = size + weight * ratio
            if part is not None and grown > OVERSHOOT * target.part_bytes:
                yield (written := part.store(beside, written))
                part = None
            if part is None:
                more = waiting.fill(0)
                rows = _rows_of_part(group, weight, ratio, target, more)
                part = _Part(target, group, weight, rows)
            ratio = part.add(group, weight, beside)
            del group  # not held while the next is merged
        if part is not None:
            yield (written := part.store(beside, written))


def trimmed_parts(parts: Sequence[WrittenPart], target: PartTarget) -> list[WrittenPart]:
    """Return parts with statistics that fit the budget."""
    rows = [part.stats for part in parts if part.stats is not None]
    if len(rows) < len(parts):
        return list(parts)  # of the row layout: none has statistics
    spec, began = target.stats_spec, time.thread_time()
    budget, weights = spec.budget_bytes, target.worth.weights
    trimmed = trim_together(rows, target.relation, budget, spec.keep, weights)
    each = (time.thread_time() - began) / len(parts)
    return [
        replace(
            part,
            ref=replace(part.ref, stats_bytes=report.bytes_after),
            stats=stats,
            stats_seconds=part.stats_seconds + each,
        )
        for part, (stats, report) in zip(parts, trimmed, strict=True)
    ]


def _copy(before: WrittenPart | None, finished: Future[PartFacts]) -> int:
    """Return how many earlier parts of the run hold, like this one, only updates of the same row.

    If a row's sum exceeds int64, the updates that express it may fill several parts. These are
    equal to the byte, and parts are named by their bytes, so a number must tell them apart.
    Errs: may count parts whose keys begin alike.
    """
    if before is None or before.ref.t_low != before.ref.t_high:
        return 0
    low, high = before.ref.key_low, before.ref.key_high
    if high not in {low, None} and len(low) < KEY_BYTES:
        return 0
    mine, ref = finished.result(), before.ref
    here = (mine.t_low, mine.t_high, mine.key_low, mine.key_high)
    return before.copy + 1 if here == (ref.t_low, ref.t_high, low, high) else 0


def _beside() -> Executor:
    """Return an executor that examines rows during encoding: a thread if there is a core for it."""
    return ThreadPoolExecutor(1, thread_name_prefix="strata-stats") if cores() > 1 else Here()


def _full(part: _Part) -> float:
    """Return the share of `part_bytes` that is enough: less if the rows change in character."""
    return TAIL if part.writer.outgrown else FULL


def _group_bytes(part: _Part | None, ratio: float, target: PartTarget) -> int:
    """Return the size limit of the next row group, by the part's row group size and its room."""
    size = 0 if part is None else part.writer.size_bytes
    room = max(target.part_bytes - size, TAIL * target.part_bytes) / ratio
    return max(1, int(min(target.row_group_bytes, target.part_bytes / GROUPS, room)))


def _rows_of_part(group: pa.Table, size: int, ratio: float, target: PartTarget, more: bool) -> int:
    """Return an estimate of the rows in a part that begins with a row group of a given size."""
    count: int = group.num_rows
    if not more:
        return count
    return max(count, round(target.part_bytes / ratio * count / size))
