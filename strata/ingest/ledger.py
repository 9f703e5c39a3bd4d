"""Which source files a shard has taken in: the ledger that makes a file count once.

Each file has a row with its name, size, time of change and the hash of its bytes. The rows are in a
few blobs that the state names (`State.consumed`). They join the state in the commit that brings the
file's updates, so neither is ever there without the other. Small blobs are merged into the next
one, so that the state names about log2(files) of them.

The name identifies a file. A file that has changed since is reported, never taken in on its own. A
file with another name and the same bytes was delivered again or renamed, and is not taken twice.

A file with the size and the time of change of its row is not read again. For any other the bytes
decide, and the next commit records the new time of one that has the same bytes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strata.errors import Corrupt
from strata.ingest.land.files import SourceFile, fingerprints
from strata.ingest.readers.position import StreamProgress
from strata.ingest.readers.turns import NO_TURNS, Turns, done_turns
from strata.model.runner import Runner, serial
from strata.model.time import MAX_TIME
from strata.state.state import Consumed, Segment, State
from strata.state.transitions import Basis
from strata.store import keys
from strata.store.interface import Blob
from strata.store.named import get_named
from strata.store.retry import retry

SCHEMA: Final = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("changed_ns", pa.int64(), nullable=False),  # 0: not known
        pa.field("fingerprint", pa.string(), nullable=False),
        pa.field("token", pa.string(), nullable=False),  # of the commit that brought it
        # How far the shard had followed its change stream after that commit: see `position`.
        pa.field("epoch", pa.int64()),
        pa.field("snapshot", pa.int64()),
        pa.field("whole", pa.bool_()),
        pa.field("commit", pa.int64()),
        pa.field("lsn", pa.int64()),
        pa.field("turns", pa.string()),  # of its columns, as JSON: see `readers.turns`
        pa.field("older", pa.list_(pa.int64())),  # snapshots that began and were replaced in it
    ]
)
PROGRESS: Final = ("epoch", "snapshot", "whole", "commit", "lsn")
RARE: Final = ("turns", "older")  # columns that are stored where they are needed
MERGE_FACTOR: Final = 2  # a blob is merged into a new one of at least 1/MERGE_FACTOR its size
SHORT_FILES: Final = 10_000  # of a segment that is kept, because the next commit may merge it
ALONE_BYTES: Final = 4 << 20  # one thread reads a smaller segment


@dataclass(frozen=True, slots=True)
class Taken:
    """One file as it was read."""

    name: str
    size_bytes: int
    changed_ns: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Sorted:
    """What the ledger knows about some files."""

    new: tuple[SourceFile, ...] = ()
    taken: tuple[SourceFile, ...] = ()  # in the shard already, and unchanged
    changed: tuple[SourceFile, ...] = ()  # in the shard with their earlier content
    copies: tuple[tuple[SourceFile, str], ...] = ()  # with the name their bytes came under


class Ledger:
    """The ledger of one shard as one of its states has it."""

    def __init__(self, blob: Blob, state: State, runner: Runner = serial) -> None:
        """Read the ledger; `runner` reads many source files if that is needed.

        Cost: about log2(files) blobs, one row per file in memory.
        """
        self._blob, self._shard, self._runner = blob, state.name, runner
        self.consumed = state.consumed
        segments = () if state.consumed is None else state.consumed.segments
        tables = {segment.key: self._read(segment.key) for segment in segments}
        self._short = {key: table for key, table in tables.items() if table.num_rows <= SHORT_FILES}
        self.rows = _newest(pa.concat_tables([SCHEMA.empty_table(), *tables.values()]))
        self._confirmed = SCHEMA.empty_table()  # rows with new times, of files with the same bytes
        self._foreseen: Mapping[str, int] = {}

    def watched_from(self) -> int | None:
        """Return the time from which on the ledger knows all files; None: it knows none."""
        return None if self.consumed is None else self.consumed.since

    def late_from(self) -> int | None:
        """Return the time at which the files of committed intervals begin."""
        return None if self.consumed is None else max(self.consumed.since, self.consumed.first)

    def sort_out(self, files: Sequence[SourceFile], *, copies: bool = True) -> Sorted:
        """Return which files are new, known, changed, or known under another name.

        `copies` False: the same bytes under another name are new.
        Cost: reads the files that have the size of another file, or that seem to have changed.
        """
        found = self._by_name(files)
        known = [files[n] for n in np.flatnonzero(found >= 0).tolist()]
        same = self._unchanged(known, found[found >= 0]).tolist()
        new = [files[n] for n in np.flatnonzero(found < 0).tolist()]
        twins = self._twins(new) if copies else {}
        return Sorted(
            tuple(file for file in new if file.name not in twins),
            tuple(file for file, is_same in zip(known, same, strict=True) if is_same),
            tuple(file for file, is_same in zip(known, same, strict=True) if not is_same),
            tuple((file, twins[file.name]) for file in new if file.name in twins),
        )

    def tokens(self, files: Sequence[SourceFile]) -> list[str]:
        """Return the tokens under which these files were last taken in."""
        found = self._by_name(files)
        return [self.rows["token"][row].as_py() for row in found.tolist() if row >= 0]

    def tokens_by_name(self, names: Sequence[str]) -> dict[str, str]:
        """Return the token under which each name was last taken in; others are missing."""
        wanted = pa.array(names, pa.string())
        known = self.rows.filter(pc.is_in(self.rows["name"], value_set=wanted))
        return dict(zip(known["name"].to_pylist(), known["token"].to_pylist(), strict=True))

    def progress(self) -> StreamProgress:
        """Return how far the shard has followed its change stream."""
        rows = self.rows.filter(pc.is_valid(self.rows["epoch"]))
        if not rows.num_rows:
            return StreamProgress()
        order = [(name, "descending") for name in ("epoch", "commit", "lsn", "whole")]
        last = rows.take(pc.sort_indices(rows, order)[:1]).to_pylist()[0]
        older = _begun(rows) - {0, last["snapshot"]}
        return StreamProgress(**{name: last[name] for name in PROGRESS}, older=older)

    def turns(self) -> dict[str, int]:
        """Return the first place of each turn that the change stream has shown."""
        found = dict(self._foreseen)
        for text in pc.unique(self.rows["turns"].drop_null()).to_pylist():
            for key, place in orjson.loads(text).items():
                found[key] = min(found.get(key, place), place)
        return found

    def foresee(self, turns: Turns) -> None:
        """Go on as if a commit had taken in files that show these turns."""
        self._foreseen = done_turns(self.turns(), turns)

    def with_files(
        self,
        state: State,
        files: Iterable[Taken],
        token: str,
        *,
        first: int | None = None,
        progress: StreamProgress | None = None,
        turns: Turns = NO_TURNS,
    ) -> Basis:
        """Record the files that a commit on `state` takes in; return the basis the commit needs.

        `first`: lower of an interval whose files were found by their time.
        `progress`: of a change stream, after the commit. `turns`: those that the files show.
        This ledger then has the content that it will have after the commit.
        """
        taken = list(files)
        gone, rest = self._of_stream([file.name for file in taken])
        if progress is None and gone["epoch"].null_count < len(gone):
            progress = self.progress()
        kept = gone["turns"].null_count < len(gone)
        known = self.turns() if turns or kept else {}
        shown = done_turns(known, turns)
        if shown == known and not kept:
            shown = {}  # other rows say it
        older = progress.older - _begun(rest) if progress and progress.older else ()
        new = _table(taken, token, progress, shown, older)
        before = self.consumed
        after = before or Consumed(state.upper, MAX_TIME, began_ms=state.walltime_ms)
        if first is not None and after.first == MAX_TIME:
            after = replace(after, first=first)
        if not new.num_rows:
            self.consumed = after
            return Basis(None, before, after)
        new = _newest(pa.concat_tables([self._confirmed, new]))
        self._confirmed = SCHEMA.empty_table()
        kept, parts = list(after.segments), [new]
        rows = new.num_rows
        while kept and kept[-1].files < MERGE_FACTOR * rows:
            parts.insert(0, self._segment(kept.pop().key))
            rows += parts[0].num_rows
        data = _encode(_newest(pa.concat_tables(parts)))
        key = keys.consumed_key(self._shard, keys.content_hash(data), state.generation)
        retry(partial(self._blob.set, key, data))
        segments = (*kept, Segment(key, rows))
        self.rows = _newest(pa.concat_tables([self.rows, new]))
        self.consumed = replace(after, segments=segments)
        return Basis(None, before, self.consumed)

    def _of_stream(self, names: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """Return rows that say where a stream is: those of these names, which go, and the others.

        A file that is taken in once more is no step back, so its new row has to say as much.
        """
        says = pc.or_(pc.is_valid(self.rows["epoch"]), pc.is_valid(self.rows["turns"]))
        rows = self.rows.filter(says)
        named = pc.is_in(rows["name"], value_set=pa.array(names, pa.string()))
        return rows.filter(named), rows.filter(pc.invert(named))

    def _by_name(self, files: Sequence[SourceFile]) -> npt.NDArray[np.int64]:
        names = pa.array([file.name for file in files], pa.string())
        found = pc.index_in(names, value_set=self.rows["name"].combine_chunks())
        rows: npt.NDArray[np.int64] = found.fill_null(-1).to_numpy().astype(np.int64)
        return rows

    def _unchanged(
        self, files: Sequence[SourceFile], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return which files equal their ledger rows; files touched since are read."""
        sizes = np.array([file.size_bytes for file in files], np.int64)
        times = np.array([file.changed_ns for file in files], np.int64)
        long = sizes == self.rows["size_bytes"].to_numpy()[rows]
        untouched = (times != 0) & (times == self.rows["changed_ns"].to_numpy()[rows])
        same: npt.NDArray[np.bool_] = long & untouched
        doubt = np.flatnonzero(long & ~untouched)
        before = self.rows["fingerprint"].take(pa.array(rows[doubt])).to_pylist()
        now = fingerprints([files[n] for n in doubt.tolist()], self._runner)
        same[doubt] = [a == b for a, b in zip(now, before, strict=True)]
        self._confirm(rows[doubt[same[doubt]]], times[doubt[same[doubt]]])
        return same

    def _confirm(self, rows: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> None:
        """Keep the times of files whose bytes were compared, so that the next run reads none."""
        found = self.rows.take(pa.array(rows))
        at = SCHEMA.get_field_index("changed_ns")
        found = found.set_column(at, SCHEMA.field(at), pa.array(times, pa.int64()))
        self._confirmed = _newest(pa.concat_tables([self._confirmed, found]))

    def _twins(self, files: Sequence[SourceFile]) -> dict[str, str]:
        """Return files whose bytes came, or come now, under another name, with that name."""
        sizes = np.array([file.size_bytes for file in files], np.int64)
        old = self.rows["size_bytes"].to_numpy()
        values, counts = np.unique(sizes, return_counts=True)
        shared = np.isin(sizes, old) | np.isin(sizes, values[counts > 1])
        first: dict[str, str] = {}
        if shared.any():
            near = self.rows.filter(pa.array(np.isin(old, sizes[shared])))
            pairs = zip(near["fingerprint"].to_pylist(), near["name"].to_pylist(), strict=True)
            first = dict(pairs)
        twins: dict[str, str] = {}
        some = [files[row] for row in np.flatnonzero(shared & (sizes > 0)).tolist()]
        for file, digest in zip(some, fingerprints(some, self._runner), strict=True):
            before = first.setdefault(digest, file.name)
            if before != file.name:
                twins[file.name] = before
        return twins

    def _segment(self, key: str) -> pa.Table:
        kept = self._short.get(key)
        return self._read(key) if kept is None else kept

    def _read(self, key: str) -> pa.Table:
        data = get_named(self._blob, key, "a ledger of source files", shard=self._shard)
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            # Threads take longer to begin than a short table takes to be read.
            return _whole(file.read(use_threads=len(data) > ALONE_BYTES))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Corrupt(
                "a ledger of source files is damaged",
                shard=self._shard,
                key=key,
                reason=str(error),
            ) from error


def _whole(rows: pa.Table) -> pa.Table:
    """Return rows with all columns; rows of older ledgers have no positions, most no turns."""
    for field in SCHEMA:
        if field.nullable and field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(SCHEMA.names).cast(SCHEMA)


def _table(
    files: Sequence[Taken],
    token: str,
    progress: StreamProgress | None,
    turns: Mapping[str, int],
    older: Collection[int],
) -> pa.Table:
    """Return the rows of files that one commit takes in."""
    shown = orjson.dumps(turns, option=orjson.OPT_SORT_KEYS).decode() if turns else None
    return pa.table(
        {
            "name": [file.name for file in files],
            "size_bytes": [file.size_bytes for file in files],
            "changed_ns": [file.changed_ns for file in files],
            "fingerprint": [file.fingerprint for file in files],
            "token": [token] * len(files),
            **{name: [progress and getattr(progress, name)] * len(files) for name in PROGRESS},
            "turns": [shown] * len(files),
            "older": [sorted(older) or None] * len(files),
        },
        schema=SCHEMA,
    )


def _begun(rows: pa.Table) -> frozenset[int]:
    """Return the snapshots that began in these files."""
    older = pc.list_flatten(rows["older"])
    return frozenset({*rows["snapshot"].to_pylist(), *older.to_pylist()} - {None})


def _newest(rows: pa.Table) -> pa.Table:
    """Return the last row of each name, sorted by name."""
    if rows.num_rows <= 1:
        return rows
    order = pc.sort_indices(rows["name"])  # equal names stay in their order
    names = rows["name"].take(order).combine_chunks()
    last = pc.not_equal(names[:-1], names[1:]).to_numpy(zero_copy_only=False)
    return rows.take(order.filter(pa.array(np.r_[last, True])))


def _encode(rows: pa.Table) -> bytes:
    empty = [name for name in RARE if rows[name].null_count == len(rows)]
    rows = rows.drop_columns(empty)  # programs without these columns read the others
    sink = pa.BufferOutputStream()
    pq.write_table(rows.combine_chunks(), sink, compression="zstd", compression_level=1)
    data: bytes = sink.getvalue().to_pybytes()
    return data
