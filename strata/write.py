"""Writing sorted updates: parts cut by encoded bytes, then the manifest and its batch.

A part's key is its prefix and the hash of its bytes, so the same work done twice writes the
same blobs and nothing else. Where a run is cut depends on its rows alone, never on how the
caller chunked them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.columns import D, T
from strata.format.digest import content_digest
from strata.format.manifest import PartRef, Split, encode_manifest, manifest_table
from strata.format.part import Description, EncodedPart, encode_part
from strata.format.part_write import plain_bytes
from strata.model.schema import Relation
from strata.model.spec import StatsSpec
from strata.state.state import Batch, RunSummary
from strata.stats import STATS_VERSION, collect, concat, encoded_size, trim, union
from strata.store import keys
from strata.store.interface import Blob
from strata.store.retry import retry
from strata.updates.order import encode_keys, high_key

SAMPLE_ROWS: Final = 4096  # encoded once to learn how many bytes a row of this run takes
TAIL: Final = 1.25  # a rest up to this many parts long is written as one part
OVERSHOOT: Final = 1.5  # an encoded part longer than this many `part_bytes` is cut again
BUFFER_FACTOR: Final = 16  # rows waiting for a part may take this many `part_bytes` in memory
BUFFER_BYTES: Final = 1 << 30  # but never more than this: texts in one Arrow array end at 2 GiB
KEY_BYTES: Final = 64  # length of key bounds and split points in manifests


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """One part that is stored, and what the manifest will say of it."""

    ref: PartRef
    stats: pa.RecordBatch | None  # None: unknown, the part is always read


@dataclass(frozen=True, slots=True)
class _Target:
    """What all parts of one run share."""

    blob: Blob
    prefix: str
    relation: Relation
    layout: str
    description: Description
    part_bytes: int
    row_group_bytes: int
    stats_spec: StatsSpec
    run: int


@dataclass
class _Buffer:
    """Rows of the run that are in no part yet."""

    chunks: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0

    def push(self, chunk: pa.Table) -> None:
        """Append a chunk."""
        self.chunks.append(chunk)
        self.rows += chunk.num_rows
        self.size_bytes += chunk.nbytes

    def take(self, rows: int) -> pa.Table:
        """Remove and return the first `rows` rows, as one chunk."""
        whole = pa.concat_tables(self.chunks)
        rest = whole.slice(rows)
        self.chunks, self.rows, self.size_bytes = [rest], rest.num_rows, rest.nbytes
        return whole.slice(0, rows).combine_chunks()


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
) -> list[WrittenPart]:
    """Write one run as parts of about `part_bytes` each and return what was written.

    Shape: `updates` are tables of `updates_schema(relation)`, together sorted by
    `relation.sort_ids` then t and consolidated; empty ones are allowed.
    Cost: one blob a part; encodes a sample besides; holds about one part in memory.
    """
    target = _Target(
        blob, prefix, relation, layout, description, part_bytes, row_group_bytes, stats_spec, run
    )
    return list(_write(iter(updates), target))


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

    No parts: an empty batch, and nothing is written. `generation` is that of the shard when the
    work began, which decides until when the batch is accepted; None takes the lowest of the parts,
    which is right where all of them are new.
    """
    if not parts:
        return Batch(lower, upper, since)
    refs = [part.ref for part in parts]
    manifest = encode_manifest(manifest_table(refs, [part.stats for part in parts]))
    if generation is None:
        generation = min(keys.generation_of(ref.key) for ref in refs)
    key = keys.manifest_key(shard, keys.content_hash(manifest), generation)
    retry(partial(blob.set, key, manifest))
    layouts = {ref.layout: 0 for ref in refs}
    for ref in refs:
        layouts[ref.layout] += 1
    return Batch(
        lower,
        upper,
        since,
        updates=sum(ref.rows for ref in refs),
        size_bytes=sum(ref.size_bytes for ref in refs),
        parts=len(refs),
        runs=_run_summaries(refs),
        manifest=key,
        layouts=tuple(sorted(layouts.items())),
        stats_parts=sum(ref.stats_version is not None for ref in refs),
        stats_bytes=sum(ref.stats_bytes for ref in refs),
        stats_union=_stats_union(parts),
        diffs_sum=sum(ref.diffs_sum for ref in refs),
        digest=sum(ref.digest for ref in refs) % 2**64,
        retractions=any(ref.retractions for ref in refs),
        versions=tuple(sorted({ref.relation_version for ref in refs})),
    )


def _write(updates: Iterator[pa.Table], target: _Target) -> Iterator[WrittenPart]:
    """Yield the parts of a run, cutting where the encoded bytes are expected to suffice."""
    buffer = _Buffer()
    more = _fill(buffer, updates, SAMPLE_ROWS, target)
    if not buffer.rows:
        return
    bytes_per_row = _sample(buffer, target) if more else target.part_bytes / buffer.rows
    while buffer.rows:
        wanted = max(1, round(target.part_bytes / bytes_per_row))
        more = more and _fill(buffer, updates, int(wanted * TAIL) + 1, target)
        whole = not more and buffer.rows <= wanted * TAIL
        rows = buffer.take(buffer.rows if whole else min(wanted, buffer.rows))
        for piece, encoded in _encode(rows, target):
            bytes_per_row = max(1.0, len(encoded.data) / piece.num_rows)
            yield _store(piece, encoded, target)


def _fill(buffer: _Buffer, updates: Iterator[pa.Table], rows: int, target: _Target) -> bool:
    """Read until `rows` are buffered; return False when the run has ended."""
    limit = min(BUFFER_FACTOR * target.part_bytes, BUFFER_BYTES)
    while buffer.rows < rows and buffer.size_bytes < limit:
        chunk = next(updates, None)
        if chunk is None:
            return False
        if chunk.num_rows:
            buffer.push(chunk)
    return True


def _sample(buffer: _Buffer, target: _Target) -> float:
    """Return the encoded bytes a row takes, from the first rows of the run."""
    rows = pa.concat_tables(buffer.chunks).slice(0, SAMPLE_ROWS).combine_chunks()
    count: int = rows.num_rows
    return max(1.0, len(_encode_one(rows, target).data) / count)


def _encode(rows: pa.Table, target: _Target) -> Iterator[tuple[pa.Table, EncodedPart]]:
    """Yield `rows` encoded, cut in half (by bytes) for as long as they come out much too long."""
    encoded = _encode_one(rows, target)
    if len(encoded.data) <= OVERSHOOT * target.part_bytes or rows.num_rows == 1:
        yield rows, encoded
        return
    half = _middle(rows)
    yield from _encode(rows.slice(0, half), target)
    yield from _encode(rows.slice(half), target)


def _middle(rows: pa.Table) -> int:
    """Return how many of two or more rows hold half of the bytes, so that big rows stand alone."""
    half = plain_bytes(rows) / 2
    ends = range(1, rows.num_rows)
    return ends[
        min(bisect_left(ends, half, key=lambda n: plain_bytes(rows.slice(0, n))), len(ends) - 1)
    ]


def _encode_one(rows: pa.Table, target: _Target) -> EncodedPart:
    return encode_part(
        rows,
        target.relation,
        target.layout,
        description=target.description,
        row_group_bytes=target.row_group_bytes,
    )


def _store(rows: pa.Table, encoded: EncodedPart, target: _Target) -> WrittenPart:
    """Store one encoded part and return its reference and statistics."""
    key = keys.part_key(target.prefix, keys.content_hash(encoded.data))
    retry(partial(target.blob.set, key, encoded.data))
    stats = _statistics(rows, target)
    starts = np.cumsum([0, *encoded.row_groups[:-1]]).tolist()
    bounds = encode_keys(rows.take([*starts, rows.num_rows - 1]), target.relation).to_pylist()
    times, diffs = pc.min_max(rows[T]), rows[D]
    ref = PartRef(
        key=key,
        size_bytes=len(encoded.data),
        rows=rows.num_rows,
        run=target.run,
        layout=target.layout,
        relation_version=target.relation.version,
        order=target.relation.sort_ids,
        t_low=times["min"].as_py(),
        t_high=times["max"].as_py(),
        diffs_sum=pc.sum(diffs).as_py(),
        digest=content_digest(rows, target.relation),
        retractions=pc.min(diffs).as_py() < 0,
        key_low=bounds[0][:KEY_BYTES],
        key_high=high_key(bounds[-1], KEY_BYTES),
        splits=tuple(
            Split(row, low[:KEY_BYTES]) for row, low in zip(starts, bounds[:-1], strict=True)
        ),
        stats_version=None if stats is None else STATS_VERSION,
        stats_bytes=0 if stats is None else encoded_size(stats),
    )
    return WrittenPart(ref, stats)


def _statistics(rows: pa.Table, target: _Target) -> pa.RecordBatch | None:
    """Return trimmed statistics; None for the row layout, which never had any."""
    if target.layout == "row":
        return None
    spec = target.stats_spec
    row, _ = trim(collect(rows, target.relation), target.relation, spec.budget_bytes, spec.keep)
    return row


def _run_summaries(refs: Sequence[PartRef]) -> tuple[RunSummary, ...]:
    """Return one summary a run, in run order."""
    runs: dict[int, list[PartRef]] = {}
    for ref in refs:
        runs.setdefault(ref.run, []).append(ref)
    return tuple(
        RunSummary(
            len(parts),
            sum(part.rows for part in parts),
            sum(part.size_bytes for part in parts),
            parts[0].order,
        )
        for _, parts in sorted(runs.items())
    )


def _stats_union(parts: Sequence[WrittenPart]) -> bytes | None:
    """Return the union of all statistics as an Arrow IPC stream; None where a part has none."""
    row = union(concat([part.stats for part in parts], [part.ref.rows for part in parts]))
    if row is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_batch(row)
    data: bytes = sink.getvalue().to_pybytes()
    return data
