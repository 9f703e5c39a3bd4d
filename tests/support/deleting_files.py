"""Adds files that delete rows to an Iceberg table, as Spark does; PyIceberg only reads them."""

import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

POSITIONS, EQUALITY = DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_positions(
    table: Table, which: int, rows: list[int], content: DataFileContent = POSITIONS
) -> None:
    """Delete rows of a data file by their numbers, in a snapshot of its own."""
    base = table.current_snapshot()
    tasks = sorted(table.scan().plan_files(), key=lambda task: task.file.file_path)
    if base is None or not tasks:
        return
    data = tasks[which % len(tasks)].file
    some = sorted({row for row in rows if row < data.record_count})
    if not some:
        return
    folder, name, number = table.location(), uuid.uuid4(), uuid.uuid4().int >> 66
    path = f"{folder}/data/{name}-deletes.parquet"
    places = pa.table(
        {"file_path": [data.file_path] * len(some), "pos": pa.array(some, pa.int64())}
    )
    with table.io.new_output(path).create() as out:
        pq.write_table(places, out)
    size = len(table.io.new_input(path))
    file = DataFile.from_args(
        2,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(some),
        file_size_in_bytes=size,
        equality_ids=None,
        sort_order_id=None,
    )
    output = table.io.new_output(f"{folder}/metadata/{name}-m0.avro")
    with _DeletesWriter(table.spec(), table.schema(), output, number, "null") as writer:
        writer.add_entry(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file
            )
        )
    sequence = table.metadata.last_sequence_number + 1
    listed = table.io.new_output(f"{folder}/metadata/snap-{number}.avro")
    with write_manifest_list(2, listed, number, base.snapshot_id, sequence, "null") as listing:
        listing.add_manifests([*base.manifests(table.io), writer.to_manifest_file()])
    _commit(table, base, number, sequence, listed.location)


def _commit(table: Table, base: Snapshot, number: int, sequence: int, listed: str) -> None:
    snapshot = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=base.snapshot_id,
        sequence_number=sequence,
        timestamp_ms=table.metadata.last_updated_ms + 1,
        manifest_list=listed,
        summary=Summary(operation=Operation.DELETE),
        schema_id=table.schema().schema_id,
    )
    newest: dict[str, Any] = {
        "ref-name": "main",
        "type": SnapshotRefType.BRANCH,
        "snapshot-id": number,
    }
    table.catalog.commit_table(
        table,
        (AssertTableUUID(uuid=table.metadata.table_uuid),),
        (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(newest)),
    )
    table.refresh()
