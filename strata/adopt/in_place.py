"""Data files of a table that stay where they are: parts of the shard refer to them.

    file -> its rows as updates -> a run? -> part that refers to it; else its rows go on as ever

The table's owner may remove files, and does so once no version that he keeps has them. So each
adoption takes in the files that the version which it brings does not have any more.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from strata.adopt.columns import Fit, RowTally
from strata.adopt.peer import DataFile, Flow, PeerVersion
from strata.errors import Corrupt
from strata.format.layout import Description
from strata.format.splice import LAYOUT, NotSplicedError
from strata.ingest.run import RUNS
from strata.ingest.suppressed import without_suppressed
from strata.ingest.tables import NUMBERS, Opened, table_updates
from strata.ingest.task import IngestTask, JudgedRows, TaskResult
from strata.model.schema import Relation
from strata.model.spec import ShardSpec
from strata.model.time import MIN_TIME
from strata.parts.refer import TAIL_SHARE, Referred, refer
from strata.parts.write import PartTarget
from strata.store import keys
from strata.store.interface import Blob, Overwriting, Referring
from strata.store.retry import retry

MOST_BYTES: Final = 1 << 30  # of rows of a file in memory; a larger file is written anew


@dataclass
class InPlace:
    """What an adoption did with files one by one."""

    tail_share: float = TAIL_SHARE  # see `strata.parts.refer`
    files: int = 0  # that stayed where they are
    size_bytes: int = 0  # of these
    stored_bytes: int = 0  # what the store has of them
    reasons: Counter[str] = field(default_factory=Counter)  # why others did not

    def anew(self) -> "InPlace":
        """Return the same request before anything was done."""
        return InPlace(self.tail_share)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document of the command line."""
        return {
            "files_in_place": self.files,
            "bytes_in_place": self.size_bytes,
            "bytes_of_references": self.stored_bytes,
            "files_written_anew": self.reasons.total(),
            "why_anew": dict(self.reasons),
        }

    def refer(  # noqa: PLR0913, PLR0917  one flow of one adoption
        self,
        blob: Blob,
        opened: Opened,
        fit: Fit,
        flow: Flow,
        newest: PeerVersion,
        counted: RowTally,
        partition: int,
    ) -> tuple[list[TaskResult], Flow | None]:
        """Return what was made of the files of a flow, and the flow of the others' rows."""
        results: list[TaskResult] = []
        others: list[DataFile] = []
        why = why_not(opened.task.spec, opened.task.layout)
        files = () if why or flow.files is None or flow.sign != 1 else flow.files()
        if not files:
            self.reasons[why or "the table's files cannot be read one by one"] += 1
            return [], flow
        for file in files:
            task = replace(opened.task, number=partition * NUMBERS + len(results))
            alone = replace(flow, batches=file.batches)
            maker = _Maker(blob, task, fit, alone, newest, self.tail_share)
            try:
                found, judged, tally = maker.made(file)
            except NotSplicedError as error:
                self.reasons[str(error)] += 1
                others.append(file)
                continue
            counted.sum += tally.sum
            results.append(TaskResult(task.batch, task.number, parts=(found.part,)).plus(judged))
            self.files += 1
            self.size_bytes += found.file.size_bytes
            self.stored_bytes += found.stored_bytes
        rest = replace(flow, batches=partial(_all, others), files=None)
        return results, rest if others else None


def why_not(spec: ShardSpec, layout: str) -> str:
    """Return why no part of a shard can refer to files; empty: it can."""
    if layout == "row" or spec.read_format == "row":
        return "the shard's parts are rows without columns"
    return ""


def refers(blob: Blob, shard: str) -> bool:
    """Return whether a shard may have parts that refer to files. Cost: one listing."""
    return any(True for _ in retry(lambda: [*blob.list(keys.reference_prefix(shard))]))


def take_in(blob: Blob, shard: str, needed: Collection[str]) -> tuple[int, int]:
    """Copy files that parts refer to into the store, but for those at the `needed` addresses.

    Returns how many, and their bytes. The parts keep their names, so no state changes.
    Raises: Corrupt when a file is gone or has changed; Unavailable.
    """
    assert isinstance(blob, Referring)
    assert isinstance(blob, Overwriting)
    count = size = 0
    for info in retry(lambda: [*blob.list(keys.reference_prefix(shard))]):
        found = retry(partial(blob.referred, info.key))
        if found is None or found.file.address in needed:
            continue
        data = retry(partial(blob.get, info.key))
        if data is None:
            continue  # swept meanwhile
        if not keys.names_content(info.key, data):
            raise Corrupt(
                "a file that a part refers to has other bytes than it had",
                file=found.file.address,
                part=info.key,
                cure="bring it back from a backup; else adopt --replace",
            )
        retry(partial(blob.overwrite, info.key, data))
        count, size = count + 1, size + len(data)
    return count, size


@dataclass(frozen=True)
class _Maker:
    """Makes a part of one file."""

    blob: Blob
    task: IngestTask
    fit: Fit
    flow: Flow  # of the file's rows alone
    newest: PeerVersion
    tail_share: float

    def made(self, file: DataFile) -> tuple[Referred, JudgedRows, RowTally]:
        """Return the part. Raises: NotSplicedError."""
        if not file.address:
            raise NotSplicedError("some of its rows are deleted, or it is no Parquet file")
        task, judged, tally = self.task, list[JudgedRows](), RowTally()

        def rows() -> pa.Table:
            updates, about = self._rows(tally)
            judged.append(about)
            return updates

        target = PartTarget(
            self.blob,
            keys.part_prefix(task.spec.name, task.generation),
            task.relation,
            LAYOUT,
            Description(task.lower, task.upper, MIN_TIME),
            task.spec.part_bytes,
            task.spec.group_bytes,
            task.spec.stats,
            task.number * RUNS,
            task.worth,
        )
        names = _names(task.relation, self.flow.version)
        found = refer(
            target,
            keys.reference_prefix(task.spec.name, task.generation),
            file.address,
            rows,
            names,
            tail_share=self.tail_share,
        )
        return found, judged[-1], tally

    def _rows(self, tally: RowTally) -> tuple[pa.Table, JudgedRows]:
        """Return the rows of the file as updates. Raises: NotSplicedError if some are not taken."""
        schema = self.fit.schema(self.flow, None, self.newest)
        tables: list[pa.Table] = []
        size = 0
        for table in self.fit.tables(self.flow, None, schema, tally):
            tables.append(table)
            size += table.nbytes
            if size > MOST_BYTES:
                raise NotSplicedError("it is too large to be looked at as one run")
        found = table_updates(self.task, pa.concat_tables(tables or [schema.empty_table()]))
        updates, judged = without_suppressed(self.blob, self.task, found.updates, found.judged)
        if judged.rejected or updates.num_rows != sum(table.num_rows for table in tables):
            raise NotSplicedError("some of its rows are not taken in")
        return updates, judged


def _names(relation: Relation, version: PeerVersion) -> dict[int, str]:
    return {c.id: c.name for c in relation.columns if c.name in version.columns.names}


def _all(files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(file.batches() for file in files)
