"""Runs one ingest task: reads its files, sorts their updates, writes them as one or more runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.columns import updates_schema
from strata.format.part import Description
from strata.ingest.aside import Aside
from strata.ingest.in_place import refer_file
from strata.ingest.land.files import (
    SourceFile,
    Straight,
    check_unchanged,
    fingerprint,
    unless_changed,
)
from strata.ingest.land.source_file import Dialect
from strata.ingest.ledger import Taken
from strata.ingest.readers.bundle import bundles, joined, verified_as
from strata.ingest.readers.read import read_file
from strata.ingest.suppressed import without_suppressed
from strata.ingest.task import RUNS, IngestTask, TaskResult
from strata.ingest.updates import FileUpdates, file_updates
from strata.ingest.verify import MOST, Difference, Sampling, verify_stored
from strata.model.time import MIN_TIME
from strata.parts.write import WrittenPart, write_parts
from strata.store import keys
from strata.store.interface import Blob
from strata.store.open import open_stores
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates

RUN_BYTES: Final = 256 << 20  # of Arrow memory that are sorted together
EVERY_ROW: Final = Sampling("", 1.0, 1 << 62)  # which of some files has the row that differs

Hashes = dict[str, str]  # of files' stored bytes, by path


def ingest_task(task: IngestTask, blob: Blob | None = None) -> TaskResult:
    """Write the content of a task's files as sorted runs, and rejected rows to the quarantine.

    A repetition writes the same blobs. `blob` None opens the task's own store.
    Raises: InvalidRequest for a file of the wrong shape; nothing refers to what was written.
    Cost: memory of six to eight times a run (`RUN_BYTES` of Arrow) with both encodings: 1.4 to
    2 GiB, even if the rows of a file become large.
    """
    store = open_stores(task.store).blob if blob is None else blob
    with unless_changed(task.files):
        if task.spec.source.in_place:
            return replace(_run_in_place(store, task), taken=takes(task))
        read: Hashes = {}
        result = run_rows(store, task, _read(task, read))
        return replace(result, taken=takes(task, read))


def _run_in_place(store: Blob, task: IngestTask) -> TaskResult:
    """Let parts refer to the files that are runs, and write the rows of the others."""
    stay = [
        refer_file(store, task, file, partial(_read_file, file, task), RUNS - 1 - number)
        for number, file in enumerate(task.files)
    ]
    others = [file for file, one in zip(task.files, stay, strict=True) if one is None]
    result = run_rows(store, task, _read(replace(task, files=tuple(others))))
    for part, judged in filter(None, stay):
        result = replace(result.plus(judged), parts=(*result.parts, part))
    return result


def run_rows(store: Blob, task: IngestTask, files: Iterable[FileUpdates]) -> TaskResult:
    """Write updates as runs of about RUN_BYTES, and the rejected rows to the quarantine."""
    result = TaskResult(task.batch, task.number)
    aside = Aside(store, task)
    welcome = (_welcome(store, task, file, aside) for file in files)
    for number, some in enumerate(_together(welcome)):
        run = write_run(store, task, [file.updates for file in some], number)
        for file in some:
            result = result.plus(file.judged)
        result = replace(
            result,
            parts=(*result.parts, *run.parts),
            differences=(*result.differences, *run.differences)[:MOST],
        )
    return replace(result, quarantine=aside.finish())


def _welcome(store: Blob, task: IngestTask, file: FileUpdates, aside: Aside) -> FileUpdates:
    updates, judged = without_suppressed(store, task, file.updates, file.judged)
    return FileUpdates(updates, aside.take(judged))


def check_task(task: IngestTask) -> TaskResult:
    """Read the files of a task and return what it would hold; nothing is written.

    Raises: as `ingest_task`.
    """
    result = TaskResult(task.batch, task.number)
    with unless_changed(task.files):
        for file in _read(task):
            result = result.plus(file.judged)
    return result


def _read(task: IngestTask, read: Hashes | None = None) -> Iterator[FileUpdates]:
    """Yield the updates of a task's files; `read` is given the hashes of those read as one."""
    odd: list[Sequence[SourceFile]] = []
    for files in bundles(task.files, task.spec, odd):
        hashes: Hashes = {}
        together = _read_together(files, task, hashes) if len(files) > 1 else []
        differ = any(one.judged.differences for one in together)
        if together and not differ and not any(one.judged.rejected for one in together):
            if read is not None:
                read.update(hashes)
            yield from together
            continue
        if len(files) > 1:
            odd.append(files)
        each = replace(task, verify=EVERY_ROW) if differ else task
        for file in files:
            yield from _read_file(file, each)


def _read_file(file: SourceFile, task: IngestTask) -> Iterator[FileUpdates]:
    for raw in read_file(file, task.spec, task.relation, task.renamed):
        yield file_updates(raw, task)


def _read_together(
    files: Sequence[SourceFile], task: IngestTask, hashes: Hashes
) -> list[FileUpdates]:
    """Return the updates of small files, read as one; empty: each must be read by itself."""
    source = task.spec.source
    whole = joined(files, source.format, hashes, Dialect.of(source))
    if whole is None:
        return []
    how = task.verify
    how = how and replace(how, rows=how.rows * verified_as(files))
    try:
        return list(_read_file(whole, replace(task, verify=how)))
    except InvalidRequest:
        return []


def _together(files: Iterable[FileUpdates]) -> Iterator[list[FileUpdates]]:
    """Yield updates in groups that are sorted and written together."""
    waiting: list[FileUpdates] = []
    size = 0
    for file in files:
        waiting.append(file)
        size += file.updates.nbytes
        if size >= RUN_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def takes(task: IngestTask, read: Mapping[str, str] | None = None) -> tuple[Taken, ...]:
    """Return the ledger's rows for the files that a task has read; one task reports each file.

    `read`: hashes of files, by path, that were made while they were read.
    Raises: Unavailable if one has changed since it was found.
    """
    straight = Straight()
    found = [_taken(file, straight, (read or {}).get(file.path, "")) for file in task.files]
    return tuple(one for one in found if one is not None)


def _taken(file: SourceFile, straight: Straight, digest: str) -> Taken | None:
    """Return the ledger's row for a file that was read; None: another piece reports it."""
    if file.piece is not None:
        digest = file.piece.fingerprint
    elif not digest:
        digest = fingerprint(file)
    check_unchanged(file, straight)
    if not digest:
        return None
    return Taken(file.name, file.size_bytes, file.changed_ns, digest)


@dataclass(frozen=True, slots=True)
class WrittenRun:
    """The parts of a stored run, and whether they hold the rows that were to be stored."""

    parts: tuple[WrittenPart, ...]
    differences: tuple[Difference, ...]


def write_run(
    store: Blob, task: IngestTask, tables: Sequence[pa.Table], number: int = 0
) -> WrittenRun:
    """Sort, consolidate and store updates as one run; `number` counts the runs of the task.

    Tasks do not see each other, and two may hold the same rows. The run's number in the batch is
    made from the task's and the run's number, so that a batch never names a part twice.
    """
    updates = pa.concat_tables(tables or [updates_schema(task.relation).empty_table()])
    run = consolidate(sort_updates(updates, task.relation), task.relation)
    parts = write_parts(
        store,
        keys.part_prefix(task.spec.name, task.generation),
        iter([run]),
        task.relation,
        layout=task.layout,
        description=Description(task.lower, task.upper, MIN_TIME),
        part_bytes=task.spec.part_bytes,
        row_group_bytes=task.spec.group_bytes,
        stats_spec=task.spec.stats,
        run=task.number * RUNS + number,
        worth=task.worth,
    )
    found = verify_stored(task.verify, store, task.relation, updates, parts)
    return WrittenRun(tuple(parts), found)
