"""Data files of a table that stay where they are: parts of the shard refer to them.

    file -> its rows as updates -> a run? -> part that refers to it; else its rows go on as ever

The table's owner may remove files, and does so once no version that he keeps has them. So each
adoption takes in the files that the version which it brings does not have (`strata.maintain.own`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from strata.adopt.columns import Fit, RowTally
from strata.adopt.peer import DataFile, Flow, PeerVersion
from strata.format.splice import NotSplicedError
from strata.ingest.in_place import as_one_file, refer_rows, why_not
from strata.ingest.tables import NUMBERS, Opened, table_updates
from strata.ingest.task import IngestTask, JudgedRows, TaskResult
from strata.ingest.updates import FileUpdates
from strata.parts.refer import TAIL_SHARE, Referred
from strata.store.interface import Blob


@dataclass
class InPlace:
    """What an adoption did with files one by one."""

    tail_share: float = TAIL_SHARE  # see `strata.parts.refer`
    # The table's names of columns that it calls otherwise, by the shard's
    called: Mapping[str, str] = field(default_factory=dict)
    files: int = 0  # that stayed where they are
    size_bytes: int = 0  # of these
    stored_bytes: int = 0  # what the store has of them
    reasons: Counter[str] = field(default_factory=Counter)  # why others did not

    def anew(self) -> "InPlace":
        """Return the same request before anything was done."""
        return InPlace(self.tail_share, self.called)

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
            maker = _Maker(blob, task, fit, alone, newest, self.called, self.tail_share)
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


@dataclass(frozen=True)
class _Maker:
    """Makes a part of one file."""

    blob: Blob
    task: IngestTask
    fit: Fit
    flow: Flow  # of the file's rows alone
    newest: PeerVersion
    called: Mapping[str, str]
    tail_share: float

    def made(self, file: DataFile) -> tuple[Referred, JudgedRows, RowTally]:
        """Return the part. Raises: NotSplicedError."""
        if not file.address:
            raise NotSplicedError("some of its rows are deleted, or it is no Parquet file")
        tally = RowTally()
        read = partial(self._rows, tally)
        found, judged = refer_rows(
            self.blob,
            self.task,
            file.address,
            read,
            0,
            tail_share=self.tail_share,
            called=self.called,
        )
        return found, judged, tally

    def _rows(self, tally: RowTally) -> FileUpdates:
        """Return the rows of the file as updates. Raises: NotSplicedError if they are many."""
        schema = self.fit.schema(self.flow, None, self.newest)
        tables = self.fit.tables(self.flow, None, schema, tally)
        return as_one_file(table_updates(self.task, table) for table in tables)


def _all(files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(file.batches() for file in files)
