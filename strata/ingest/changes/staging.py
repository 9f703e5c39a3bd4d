"""Changes that wait to be resolved: one blob per group of files, sorted by key, cut into chunks.

Few changes, and those of a task in the same process, wait in memory (`IngestTask.hand_over`). A
slice of the keys is read without the rest of the blob: `Staged` carries the first key and the
first byte of each chunk, and the chunks of a slice are adjacent.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from operator import ne
from typing import Final

import pyarrow as pa

from strata.errors import Corrupt
from strata.ingest.readers.change import KEY, Truncation
from strata.ingest.readers.position import Leg
from strata.ingest.task import IngestTask, Staged
from strata.store import keys
from strata.store.interface import Blob
from strata.store.retry import retry
from strata.updates.slices import Slice

CHUNKS: Final = 64  # per blob, at most: the driver holds their first keys
CHUNK_ROWS: Final = 4096  # at least, except in the last
SLICE_BYTES: Final = 64 << 20  # of changes in memory that are resolved at once
WORTH_BYTES: Final = 16 << 20  # of changes in memory that are worth a task


def stage(
    store: Blob,
    task: IngestTask,
    changes: pa.Table,
    truncations: tuple[Truncation, ...],
    legs: tuple[Leg, ...],
) -> Staged | None:
    """Put changes aside, or hand them over, sorted by key; None: there are none.

    `changes`: sorted by key, in one chunk.
    """
    rows = changes.num_rows
    if not rows:
        return Staged(None, 0, (), (), (), truncations, legs) if truncations or legs else None
    starts = range(0, rows, max(CHUNK_ROWS, -(-rows // CHUNKS)))
    lows = tuple(changes[KEY].take(pa.array(list(starts))).to_pylist())
    if changes.nbytes <= task.hand_over:
        return Staged(None, changes.nbytes, lows, (), (), truncations, legs, rows=changes)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    offsets = [0]
    for start in starts:
        with pa.ipc.new_stream(sink, changes.schema, options=options) as writer:
            writer.write_table(changes.slice(start, starts.step))
        offsets.append(sink.tell())
    data: bytes = sink.getvalue().to_pybytes()
    key = keys.staged_key(task.spec.name, keys.content_hash(data), task.generation)
    retry(partial(store.set, key, data))
    digests = tuple(keys.content_hash(data[begin:end]) for begin, end in pairwise(offsets))
    return Staged(key, changes.nbytes, lows, tuple(offsets), digests, truncations, legs)


def slices_of(staged: Sequence[Staged], task_bytes: int) -> list[Slice]:
    """Return slices of the keys that hold about equal bytes of the changes.

    There is one slice per blob, unless slices would be too large or too small for a task.
    """
    if any(one.moved for one in staged):  # the old key of a row may be in any slice
        return [Slice()]
    chunks = sorted((low, one.size_bytes / len(one.lows)) for one in staged for low in one.lows)
    total = sum(size for _, size in chunks)
    each = total / max(len(staged), 1)
    aim = min(SLICE_BYTES, max(min(task_bytes, WORTH_BYTES), each))
    count = max(1, round(total / aim))
    edges: list[bytes] = []
    filled = 0.0
    for low, size in chunks:
        enough = filled + size / 2 > (len(edges) + 1) * total / count
        if enough and low > (edges[-1] if edges else chunks[0][0]):
            edges.append(low)
        filled += size
    return [Slice(a, b) for a, b in zip([b"", *edges], [*edges, None], strict=True)]


def staged_rows(store: Blob, shard: str, staged: Staged, piece: Slice) -> pa.Table | None:
    """Return the changes of one blob in a slice, sorted by key; None: there are none."""
    if staged.rows is not None:
        return _inside(staged.rows, piece)
    if staged.key is None or not (chosen := _chunks(staged.lows, piece)):
        return None
    begin, end = staged.offsets[chosen.start], staged.offsets[chosen.stop]
    data = retry(partial(store.get, staged.key, begin, end - begin))
    if data is None:
        raise Corrupt("changes that were put aside are gone", shard=shard, key=staged.key)
    places = pairwise(staged.offsets[chosen.start : chosen.stop + 1])
    chunks = [data[a - begin : b - begin] for a, b in places]
    if any(map(ne, map(keys.content_hash, chunks), staged.digests[chosen.start : chosen.stop])):
        raise Corrupt(
            "changes that were put aside are damaged: their bytes are not those that were written",
            shard=shard,
            key=staged.key,
            cure="run the ingest again: it reads the files anew",
        )
    tables = [pa.ipc.open_stream(chunk).read_all() for chunk in chunks]
    return _inside(pa.concat_tables(tables), piece)


def _chunks(lows: Sequence[bytes], piece: Slice) -> range:
    """Return which chunks may hold a key of a slice; two chunks may share a key at their border."""
    chosen = [
        number
        for number, low in enumerate(lows)
        if (piece.high is None or low < piece.high)
        and (number + 1 == len(lows) or lows[number + 1] >= piece.low)
    ]
    return range(chosen[0], chosen[-1] + 1) if chosen else range(0)


def _inside(rows: pa.Table, piece: Slice) -> pa.Table:
    keys = rows[KEY]
    first = _place(keys, piece.low) if piece.low else 0
    end = len(keys) if piece.high is None else _place(keys, piece.high)
    return rows.slice(first, max(end - first, 0))


def _place(keys: pa.ChunkedArray, key: bytes) -> int:
    """Return how many of the sorted keys are below a key."""
    return bisect_left(range(len(keys)), key, key=lambda row: keys[row].as_py())
