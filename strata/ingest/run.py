"""Run one ingest task: read its files, sort their updates, write them as one run."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from strata.format.columns import updates_schema
from strata.format.part import Description
from strata.ingest.files import SourceFile, check_unchanged, fingerprint
from strata.ingest.ledger import Taken
from strata.ingest.read import read_file
from strata.ingest.rejects import Reject, encode_rejects
from strata.ingest.task import IngestTask, TaskResult
from strata.ingest.updates import FileUpdates, file_updates
from strata.model.time import MIN_TIME
from strata.store import keys
from strata.store.interface import Blob
from strata.store.open import open_stores
from strata.store.retry import retry
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates
from strata.write import WrittenPart, write_parts


def run_task(task: IngestTask, blob: Blob | None = None) -> TaskResult:
    """Write the run of a task, and its rejected rows to the quarantine, and return what it holds.

    Done twice it writes the same blobs. `blob` None opens the task's own store.
    Raises: InvalidRequest for a file of the wrong shape; nothing refers to what was written.
    Cost: reads the files whole; memory is about three times their decoded size.
    """
    store = open_stores(task.store).blob if blob is None else blob
    result = run_rows(store, task, _read(task))
    return replace(result, taken=tuple(taken(file) for file in task.files))


def run_rows(store: Blob, task: IngestTask, files: Sequence[FileUpdates]) -> TaskResult:
    """Write updates as one run, and the rejected rows to the quarantine."""
    rejected = [reject for file in files for reject in file.rejected]
    return replace(
        _counts(task, files),
        parts=tuple(write_run(store, task, [file.updates for file in files])),
        quarantine=put_aside(store, task, rejected) if rejected else None,
    )


def check_task(task: IngestTask) -> TaskResult:
    """Read the files of a task and return what it would hold; nothing is written.

    Raises: as `run_task`.
    """
    return _counts(task, _read(task))


def _read(task: IngestTask) -> list[FileUpdates]:
    return [file_updates(read_file(file, task.spec, task.relation), task) for file in task.files]


def taken(file: SourceFile) -> Taken:
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
        early=sum(file.early for file in files),
        first_reject=rejected[0] if rejected else None,
        quarantine=None,
    )


def write_run(store: Blob, task: IngestTask, tables: Sequence[pa.Table]) -> list[WrittenPart]:
    """Sort, consolidate and store updates as one run."""
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


def put_aside(store: Blob, task: IngestTask, rejected: Sequence[Reject]) -> str:
    """Store the rejected rows; the content is in the name, so a changed source file has its own."""
    data = encode_rejects(rejected)
    key = keys.quarantine_key(task.spec.name, f"{task.token}/{keys.content_hash(data)}")
    retry(partial(store.set, key, data))
    return key
