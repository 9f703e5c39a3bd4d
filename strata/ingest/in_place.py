"""Parquet files of a source that stay where they are: parts of the shard refer to them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from strata.errors import Corrupt
from strata.format.layout import Description
from strata.format.splice import LAYOUT, NotSplicedError
from strata.ingest.counts import Counts
from strata.ingest.land.files import SourceFile
from strata.ingest.suppressed import without_suppressed
from strata.ingest.task import RUNS, IngestTask, JudgedRows
from strata.ingest.updates import FileUpdates
from strata.model.spec import IN_PLACE, ShardSpec
from strata.model.time import MIN_TIME
from strata.parts.refer import TAIL_SHARE, Referred, refer
from strata.parts.write import PartTarget, WrittenPart
from strata.store import keys
from strata.store.interface import Blob
from strata.store.reference import outside_address

MOST_BYTES: Final = 1 << 30  # of rows of a file in memory; a larger file is written anew
NOT_ALL: Final = "some of its rows are not taken in"


def why_not(spec: ShardSpec, layout: str) -> str:
    """Return why no part of a shard can refer to files; empty: it can."""
    if layout == "row" or spec.read_format == "row":
        return "the shard's parts are rows without columns"
    return ""


def refer_rows(  # noqa: PLR0913  one file of one batch
    store: Blob,
    task: IngestTask,
    address: str,
    read: Callable[[], FileUpdates],
    run: int,
    *,
    tail_share: float = TAIL_SHARE,
    called: Mapping[str, str] | None = None,
) -> tuple[Referred, JudgedRows]:
    """Return a part of the rows of a file, which stay in it, and what became of each row.

    `read` gives all rows of the file, in its order; `run` is the number of the part's run in its
    task; `called` has the file's names of columns, by ours, if the declaration does not say them.
    Raises: NotSplicedError if the file cannot stay.
    """
    judged: list[JudgedRows] = []

    def rows() -> pa.Table:
        found = read()
        updates, about = without_suppressed(store, task, found.updates, found.judged)
        if about.rejected or about.differences or about.counts.rows != updates.num_rows:
            raise NotSplicedError(NOT_ALL)
        judged.append(about)
        return updates

    target = PartTarget(
        store,
        keys.part_prefix(task.spec.name, task.generation),
        task.relation,
        LAYOUT,
        Description(task.lower, task.upper, MIN_TIME),
        task.spec.part_bytes,
        task.spec.group_bytes,
        task.spec.stats,
        task.number * RUNS + run,
        task.worth,
    )
    called = task.spec.source.names_of_source if called is None else called
    names = {column.id: called.get(column.name, column.name) for column in task.relation.columns}
    prefix = keys.reference_prefix(task.spec.name, task.generation)
    found = refer(target, prefix, address, rows, names, tail_share=tail_share)
    return found, judged[-1]


def as_one_file(some: Iterator[FileUpdates]) -> FileUpdates:
    """Return the updates of one file, which came in pieces. Raises: NotSplicedError if many."""
    tables: list[pa.Table] = []
    counts, rejected = Counts(), 0
    size = 0
    for one in some:
        tables.append(one.updates)
        size += one.updates.nbytes
        rejected += len(one.judged.rejected)
        counts += one.judged.counts
        if one.judged.differences or rejected:
            raise NotSplicedError(NOT_ALL)
        if size > MOST_BYTES:
            raise NotSplicedError("it is too large to be looked at as one run")
    if not tables:
        raise NotSplicedError("it has no rows")
    return FileUpdates(pa.concat_tables(tables), JudgedRows(counts, [], ()))


def refer_file(
    store: Blob,
    task: IngestTask,
    file: SourceFile,
    read: Callable[[], Iterator[FileUpdates]],
    run: int,
) -> tuple[WrittenPart, JudgedRows] | None:
    """Return a part that refers to a source file, and what became of its rows; None: it cannot."""
    asked = (task.spec.source.format, task.spec.source.envelope) == IN_PLACE
    if file.piece is not None or not asked or why_not(task.spec, task.layout):
        return None
    try:
        # On S3 the path is an address, as references have it.
        address = file.path if "://" in file.path else outside_address(file.path)
        found, judged = refer_rows(store, task, address, lambda: as_one_file(read()), run)
    except (NotSplicedError, Corrupt):
        return None
    return found.part, replace(judged, counts=judged.counts + Counts(in_place=1))
