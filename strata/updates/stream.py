"""Streams of updates: computed ahead in a thread, or parked on disk and read back.

Both keep order and contents. `spilled` bounds the memory of a merge of very many runs: each group
of runs is merged into a file, and then the files are merged.
"""

import queue
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Final, Generic, TypeVar

import pyarrow as pa

from strata.store.cures import temporary_room

A = TypeVar("A")

SPILL_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
PLAIN_OPTIONS: Final = pa.ipc.IpcWriteOptions()  # of huge rows: compression would hold each twice
SPILL_ROWS: Final = 32_768  # rows of a batch in a spill file at most
SPILL_BATCH_BYTES: Final = 1024 * 1024  # largest batch, so that many files can be read at once


@dataclass(frozen=True, slots=True)
class _Item(Generic[A]):
    """One result of the thread: a value, or the error that ended the source."""

    values: list[A]
    error: BaseException | None = None


def ahead(source: Iterable[A], depth: int = 1) -> Iterator[A]:
    """Yield the items of `source` while a thread computes up to `depth` more.

    An error of the source is raised where its item would have come. A consumer that stops early
    stops the thread at its next item.
    """
    items: queue.Queue[_Item[A] | None] = queue.Queue(maxsize=max(depth, 1))  # None: the end
    stopped = threading.Event()

    def put(item: _Item[A] | None) -> bool:
        while not stopped.is_set():
            try:
                items.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in source:
                if not put(_Item([item])):
                    return
            put(None)
        except BaseException as error:  # it is raised in the consumer's thread
            put(_Item([], error))

    thread = threading.Thread(target=work, name="strata-ahead", daemon=True)
    thread.start()
    try:
        while (got := items.get()) is not None:
            if got.error is not None:
                raise got.error
            yield from got.values
    finally:
        stopped.set()
        thread.join()


def spilled(
    source: Iterable[pa.Table], schema: pa.Schema, options: pa.ipc.IpcWriteOptions = SPILL_OPTIONS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `source` again after all of them were written to a temporary file.

    The source is read at the first step, not before. The file is gone when the iterator is.
    Raises: as `strata.store.cures.unwritable`, where the file has no room.
    """
    with temporary_room(), tempfile.TemporaryFile(prefix="strata-spill-") as file:
        _park(source, schema, file, options)
        del source  # may hold what was just written
        file.seek(0)
        with pa.ipc.open_stream(file) as reader:
            yield from reader


def _park(
    source: Iterable[pa.Table], schema: pa.Schema, file: IO[bytes], options: pa.ipc.IpcWriteOptions
) -> None:
    with pa.ipc.new_stream(file, schema, options=options) as writer:
        for table in source:
            rows = SPILL_BATCH_BYTES * table.num_rows // max(table.nbytes, 1)
            writer.write_table(table, max_chunksize=min(max(rows, 1), SPILL_ROWS))
