"""Run one ingest task: read its files, sort their updates, write them as one run."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from strata.format.columns import updates_schema
from strata.format.part import Description
from strata.ingest.files import SourceFile, check_unchanged, fingerprint
from strata.ingest.ledger import Taken
from strata.ingest.read_csv import read_csv
from strata.ingest.read_jsonl import read_jsonl
from strata.ingest.read_parquet import read_parquet
from strata.ingest.rejects import Reject, encode_rejects
from strata.ingest.source import RawFile
from strata.ingest.task import IngestTask, TaskResult
from strata.ingest.updates import FileUpdates, file_updates, source_names
from strata.model.time import MIN_TIME
from strata.store import keys
from strata.store.interface import Blob
from strata.store.open import open_stores
from strata.store.retry import retry
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates
from strata.write import WrittenPart, write_parts

READERS: Final[dict[str, Callable[[SourceFile, Sequence[str], Collection[str]], RawFile]]] = {
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
}


def run_task(task: IngestTask, blob: Blob | None = None) -> TaskResult:
    """Write the run of a task, and its rejected rows to the quarantine, and return what it holds.

    Done twice it writes the same blobs. `blob` None opens the task's own store.
    Raises: InvalidRequest for a file of the wrong shape; nothing refers to what was written.
    Cost: reads the files whole; memory is about three times their decoded size.
    """
    store = open_stores(task.store).blob if blob is None else blob
    files = _read(task)
    rejected = [reject for file in files for reject in file.rejected]
    return replace(
        _counts(task, files),
        parts=tuple(_write(store, task, [file.updates for file in files])),
        taken=tuple(_taken(file) for file in task.files),
        quarantine=_quarantine(store, task, rejected) if rejected else None,
    )


def check_task(task: IngestTask) -> TaskResult:
    """Read the files of a task and return what it would hold; nothing is written.

    Raises: as `run_task`.
    """
    return _counts(task, _read(task))


def _read(task: IngestTask) -> list[FileUpdates]:
    read = READERS[task.spec.source.format]
    names = source_names(task.spec, task.relation)
    optional = [column.name for column in task.relation.columns if column.default is not None]
    return [file_updates(read(file, names, optional), task) for file in task.files]


def _taken(file: SourceFile) -> Taken:
    """Return what the ledger will say of a file that was read.

    Raises: Unavailable if it has changed since it was found.
    """
    digest = fingerprint(file)
    check_unchanged(file)
    return Taken(file.name, file.size_bytes, file.changed_ns, digest)


def _counts(task: IngestTask, files: Sequence[FileUpdates]) -> TaskResult:
    rejected = [reject for file in files for reject in file.rejected]
    return TaskResult(
        batch=task.batch,
        number=task.number,
        parts=(),
        rows=sum(file.rows for file in files),
        rejected=len(rejected),
        late=sum(file.late for file in files),
        first_reject=rejected[0] if rejected else None,
        quarantine=None,
    )


def _write(store: Blob, task: IngestTask, tables: Sequence[pa.Table]) -> list[WrittenPart]:
    updates = pa.concat_tables(tables or [updates_schema(task.relation).empty_table()])
    run = consolidate(sort_updates(updates, task.relation), task.relation)
    return write_parts(
        store,
        keys.part_prefix(task.spec.name, task.generation),
        iter([run]),
        task.relation,
        layout=task.layout,
        description=Description(task.lower, task.upper, MIN_TIME),
        part_bytes=task.spec.part_bytes,
        row_group_bytes=task.spec.row_group_bytes,
        stats_spec=task.spec.stats,
        run=task.number,
    )


def _quarantine(store: Blob, task: IngestTask, rejected: Sequence[Reject]) -> str:
    """Store the rejected rows; the content is in the name, so a changed source file has its own."""
    data = encode_rejects(rejected)
    key = keys.quarantine_key(task.spec.name, f"{task.token}/{keys.content_hash(data)}")
    retry(partial(store.set, key, data))
    return key
