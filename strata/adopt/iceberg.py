"""Tables of Iceberg, read by the library PyIceberg.

What changed between two snapshots comes from their data files: rows of files that only the earlier
one has leave, rows of files that only the later one has come. A file whose rows were deleted by
another file counts as both.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import FileScanTask, StaticTable, Table

from strata.adopt.calendar import by_this_calendar
from strata.adopt.checked_pages import check_pages
from strata.adopt.inner import field_paths
from strata.adopt.kept_nulls import keep_nulls
from strata.adopt.peer import (
    REPLACE,
    DataFile,
    Flow,
    PeerVersion,
    VersionDifference,
    reading_peer,
    without_secrets,
)
from strata.errors import InvalidRequest
from strata.store.reference import outside_address

FIELD_ID: Final = b"PARQUET:field_id"
EMPTY: Final = 0  # stands for the snapshot of a table that has none
# Errors of PyIceberg that no retry mends; the last one says what the library cannot read.
KNOWN: Final = (NoSuchTableError, NoSuchNamespaceError, NotImplementedError)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A table as it was loaded, one of its snapshots, and the schema to read it by."""

    table: Table
    snapshot: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class IcebergPeer:
    """A table of Iceberg."""

    at: str  # as it was asked for: may hold secrets
    catalog: str  # name or address; empty: `at` is a folder or a file of metadata
    identity: str
    format: str = "iceberg"

    @property
    def address(self) -> str:
        """See `Peer.address`."""
        return without_secrets(self.at)

    @staticmethod
    def open(address: str, catalog: str = "") -> "IcebergPeer":
        """Return the table NAMESPACE.TABLE of a catalog, or that of a folder or metadata file.

        Raises: InvalidRequest if there is none.
        """
        with reading_peer("PyIceberg", without_secrets(address), KNOWN):
            return IcebergPeer(address, catalog, str(_load(address, catalog).metadata.table_uuid))

    def version(self, wanted: int | None) -> PeerVersion:
        """See `Peer.version`."""
        return self._at(wanted, None)

    def recall(self, name: str) -> PeerVersion:
        """See `Peer.recall`."""
        snapshot, schema = map(int, name.split("-"))
        return self._at(snapshot, schema)

    def overtaken(self, held: str, wanted: PeerVersion) -> bool:
        """See `Peer.overtaken`."""
        loaded: _Loaded = wanted.handle
        metadata, at = loaded.table.metadata, int(held.split("-", maxsplit=1)[0])
        if loaded.snapshot in (at, metadata.current_snapshot_id or EMPTY):
            return False
        while (found := metadata.snapshot_by_id(at)) is not None:
            if found.parent_snapshot_id == loaded.snapshot:
                return True
            at = found.parent_snapshot_id or EMPTY
        return False

    def whole(self, version: PeerVersion) -> Iterator[pa.RecordBatch]:
        """See `Peer.whole`."""
        with reading_peer("PyIceberg", self.address, KNOWN):
            yield from _batches(version.handle, _tasks(version.handle), judged=True)

    def files(self, version: PeerVersion) -> Sequence[DataFile]:
        """See `Peer.files`."""
        with reading_peer("PyIceberg", self.address, KNOWN):
            return self._as_files(version.handle, _tasks(version.handle))

    def _as_files(self, loaded: _Loaded, tasks: Sequence[FileScanTask]) -> list[DataFile]:
        return [
            DataFile(
                ""
                if task.delete_files or task.file.file_format is not FileFormat.PARQUET
                else outside_address(task.file.file_path),
                partial(self._some, loaded, [task], judged=True),
            )
            for task in tasks
        ]

    def changes(
        self, old: PeerVersion, new: PeerVersion, *, feed: bool = True
    ) -> VersionDifference:
        """See `Peer.changes`."""
        with reading_peer("PyIceberg", self.address, KNOWN):
            before, after = _tasks(old.handle), _tasks(new.handle)
        removed, added = _more(before, after), _more(after, before)
        flows = []
        if removed:
            flows.append(Flow(old, True, -1, partial(self._some, old.handle, removed)))
        if added:
            rows = partial(self._some, new.handle, added, judged=True)
            flows.append(Flow(new, False, 1, rows, partial(self._as_files, new.handle, added)))
        return VersionDifference("files", tuple(flows), len(added), len(removed))

    def _some(
        self, loaded: _Loaded, tasks: Sequence[FileScanTask], *, judged: bool = False
    ) -> Iterator[pa.RecordBatch]:
        with reading_peer("PyIceberg", self.address, KNOWN):
            yield from _batches(loaded, tasks, judged=judged)

    def _at(self, snapshot: int | None, schema_id: int | None) -> PeerVersion:
        with reading_peer("PyIceberg", self.address, KNOWN):
            table = _load(self.at, self.catalog)
        metadata = table.metadata
        if str(metadata.table_uuid) != self.identity:
            raise InvalidRequest(
                "another table has taken the place of this one",
                table=self.address,
                cure="run again",
            )
        current = metadata.current_snapshot_id or EMPTY
        number = current if snapshot is None else snapshot
        found = metadata.snapshot_by_id(number) if number != EMPTY else None
        schema = _schema(table, number, current, schema_id)
        if (found is None and number != EMPTY) or schema is None:
            raise InvalidRequest(
                "the table does not know this snapshot any more, or not yet",
                table=self.address,
                snapshot=number,
                schema=schema_id,
                cure=f"newer metadata of the table; if it has expired: {REPLACE}",
            )
        fields = field_paths(schema_to_pyarrow(schema))
        ids = {path: int(field.metadata[FIELD_ID]) for path, field in fields.items()}
        known = index_by_id(schema).items()
        defaults = {n for n, field in known if field.initial_default is not None}
        return PeerVersion(
            f"{number}-{schema.schema_id}",
            str(number) if number else "none",
            found.timestamp_ms if found else metadata.last_updated_ms,
            schema_to_pyarrow(schema, include_field_ids=False),
            ids,
            frozenset(path for path, number in ids.items() if number in defaults),
            _Loaded(table, number, schema),
        )


def _schema(table: Table, number: int, current: int, schema_id: int | None) -> Schema | None:
    """Return the schema to read a snapshot by: the newest for the newest, as readers do."""
    if schema_id is None:
        if number == current:
            return table.schema()
        found = table.metadata.snapshot_by_id(number)
        schema_id = None if found is None else found.schema_id
    return table.schemas().get(schema_id) if schema_id is not None else None


def _load(address: str, catalog: str) -> Table:
    if not catalog:
        return StaticTable.from_metadata(address.rstrip("/"))
    if "://" in catalog:
        return load_catalog("strata", type="sql", uri=catalog).load_table(address)
    return load_catalog(catalog).load_table(address)


def _tasks(loaded: _Loaded) -> list[FileScanTask]:
    """Return the data files of a snapshot, each with the files that delete rows of it.

    Raises: InvalidRequest where rows are deleted in a way that the library does not know.
    """
    if loaded.snapshot == EMPTY:
        return []
    try:
        return list(loaded.table.scan(snapshot_id=loaded.snapshot).plan_files())
    except ValueError as error:
        raise InvalidRequest(
            "PyIceberg cannot read this snapshot",
            snapshot=loaded.snapshot,
            reason=" ".join(str(error).split())[:300],
            cure="rewrite the table's files, so that none deletes by equality",
        ) from error


def _more(some: Sequence[FileScanTask], others: Sequence[FileScanTask]) -> list[FileScanTask]:
    """Return the tasks that others lack; a file that is named twice counts twice."""
    left = Counter(map(_key, others))
    more = []
    for task in some:
        left[_key(task)] -= 1
        if left[_key(task)] < 0:
            more.append(task)
    return more


def _key(task: FileScanTask) -> Any:
    """Return what decides the rows of a task."""
    deletes = ((one.file_path, getattr(one, "content_offset", None)) for one in task.delete_files)
    return task.file.file_path, frozenset(deletes)


def _batches(
    loaded: _Loaded, tasks: Sequence[FileScanTask], *, judged: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, one file after the other: the library reads files whole.

    `judged`: their calendar is; retractions are what the shard once took in.
    """
    keep_nulls()
    check_pages()
    scan = ArrowScan(loaded.table.metadata, loaded.table.io, loaded.schema, AlwaysTrue())
    for task in tasks:
        rows = scan.to_record_batches([task])
        if judged and task.file.file_format is FileFormat.PARQUET:
            at = task.file.file_path
            opened = [(at, loaded.table.io.new_input(at).open)]
            rows = by_this_calendar(rows, partial(iter, opened))
        yield from rows
