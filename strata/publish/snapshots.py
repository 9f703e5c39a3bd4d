"""The metadata of a published table: its first version, its snapshots, and when they leave it."""

import uuid
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

import orjson
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from strata import __version__
from strata.errors import InvalidRequest
from strata.publish.catalogs import MAIN, MAPPING, mapping_of
from strata.publish.fields import Fields
from strata.publish.manifests import Files, Source
from strata.store.keys import content_hash

# In the summary of a snapshot: the state that it shows, and the identity of what it shows.
STATE: Final = "strata.state"
CONTENT: Final = "strata.content"
PLAIN: Final = "strata.plain"
_SHARD: Final = "strata.shard"  # these are properties of the table
_DATA: Final = "strata.data"
_GC: Final = "gc.enabled"  # false: the parts are Strata's, and nobody else deletes them
_UNPARTITIONED_LAST: Final = 999  # ids of partition fields begin after it


def empty_table(
    shard: str, address: str, location: str, fields: Fields, now_ms: int
) -> TableMetadata:
    """Return the metadata of a table without a snapshot; `address` is that of the parts."""
    return TableMetadataV2.model_validate(
        {
            "format-version": 2,
            "location": location,
            "table-uuid": uuid.uuid4(),
            "last-updated-ms": now_ms,
            "last-column-id": fields.schema.highest_field_id,
            "schemas": [fields.schema],
            "current-schema-id": fields.schema.schema_id,
            "partition-specs": [UNPARTITIONED_PARTITION_SPEC],
            "default-spec-id": UNPARTITIONED_PARTITION_SPEC.spec_id,
            "last-partition-id": _UNPARTITIONED_LAST,
            "sort-orders": [UNSORTED_SORT_ORDER],
            "default-sort-order-id": UNSORTED_SORT_ORDER.order_id,
            "properties": {
                **_mapping(fields),
                _SHARD: shard,
                _DATA: address,
                _GC: "false",
                "write.metadata.previous-versions-max": "100",
            },
        }
    )


def check_ours(base: TableMetadata, shard: str, address: str, location: str) -> None:
    """Refuse a table that shows something else, or that lies elsewhere.

    Raises: InvalidRequest.
    """
    if base.location != location:
        raise InvalidRequest(
            "this table lies in another folder", folder=base.location, wanted=location, cure="--to"
        )
    wanted = {_SHARD: shard, _DATA: address, _GC: "false"}
    for name, value in wanted.items():
        if base.properties.get(name) != value:
            raise InvalidRequest(
                "this table is not the publication of this shard",
                table=base.location,
                property=name,
                value=base.properties.get(name),
                wanted=value,
                cure="publish to another address, or drop what lies here",
            )


def check_unwritten(base: TableMetadata) -> None:
    """Refuse a table that another program has written to. Raises: InvalidRequest."""
    foreign = [one.snapshot_id for one in base.snapshots if not said_in(one, CONTENT)]
    if foreign:
        raise InvalidRequest(
            "another program has written to this table, which shows a shard",
            table=base.location,
            snapshot=foreign[0],
            cure="strata publish --drop, publish again, and give others the right to read only",
        )


def check_not_ahead(base: TableMetadata, shard: str, seqno: int) -> None:
    """Refuse a table that shows a state behind the newest of its shard. Raises: InvalidRequest."""
    current = base.current_snapshot()
    if current is not None and number_in(current, STATE) > seqno:
        raise InvalidRequest(
            "this table shows a state that the shard does not have: the shard was restored",
            shard=shard,
            table=base.location,
            state=number_in(current, STATE),
            newest=seqno,
            cure=f"`strata publish {shard} --iceberg --drop` and publish again; parts stay",
        )


def content_of(source: Source) -> str:
    """Return the identity of what a snapshot shows: two of the same are one."""
    state = source.state
    digests = [source.digest(batch) for batch in state.batches if batch.manifest is not None]
    digests = digests or [source.fields.schema.model_dump_json()]  # a digest says the columns, too
    return content_hash(repr((state.since, state.upper, digests, source.fields.mapping)).encode())


def snapshot_summary(source: Source, files: Files, content: str) -> Summary:
    """Return what a snapshot says of itself; the times are milliseconds since 1970."""
    added, deleted = files.added, files.deleted
    said = {
        "added-data-files": len(added),
        "added-records": sum(one.record_count for one in added),
        "added-files-size": sum(one.file_size_in_bytes for one in added),
        "deleted-data-files": len(deleted),
        "deleted-records": sum(one.record_count for one in deleted),
        "removed-files-size": sum(one.file_size_in_bytes for one in deleted),
        "total-data-files": files.files,
        "total-records": files.rows,
        "total-files-size": files.size_bytes,
        "total-delete-files": 0,
        "total-position-deletes": 0,
        "total-equality-deletes": 0,
        "strata.since": source.state.since,
        "strata.upper": source.state.upper,
        STATE: source.state.seqno,
        CONTENT: content,
        PLAIN: str(files.plain).lower(),
        "strata.version": __version__,
    }
    operation = Operation.OVERWRITE if deleted else Operation.APPEND
    return Summary(operation, **{name: str(value) for name, value in said.items()})


def snapshot_updates(
    base: TableMetadata, fields: Fields, snapshot_id: int, now_ms: int, files: str, said: Summary
) -> tuple[Snapshot, list[TableUpdate]]:
    """Return a new snapshot, and what makes it the newest; `files` is the list of manifests."""
    updates, schema_id = _schema_updates(base, fields)
    parent = base.current_snapshot()
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": None if parent is None else parent.snapshot_id,
            "sequence-number": next_sequence(base),
            "timestamp-ms": now_ms,
            "schema-id": schema_id,
            "manifest-list": files,
            "summary": said,
        }
    )
    newest = {"ref-name": MAIN, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot_id}
    updates += [
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate.model_validate(newest),
    ]
    return snapshot, updates


def next_sequence(base: TableMetadata) -> int:
    """Return the sequence number of the next snapshot."""
    assert isinstance(base, TableMetadataV2), base.format_version
    return base.last_sequence_number + 1


def expired(base: TableMetadata, first: int, before_ms: int) -> list[Snapshot]:
    """Return the snapshots to remove: replaced before that time, or of states no longer kept.

    `first` is the first state that the hold keeps. The newest snapshot is not among them.
    """
    ordered = sorted(base.snapshots, key=lambda one: one.sequence_number or 0)
    return [
        one
        for one, after in pairwise(ordered)
        if after.timestamp_ms <= before_ms or number_in(one, STATE) < first
    ]


def removal(gone: Iterable[Snapshot]) -> TableUpdate:
    """Return the update that removes snapshots."""
    return RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [one.snapshot_id for one in gone]})


def said_in(snapshot: Snapshot, name: str) -> str:
    """Return an entry of the summary of a snapshot; "" if there is none."""
    summary = snapshot.summary
    return "" if summary is None else str(summary.additional_properties.get(name, ""))


def number_in(snapshot: Snapshot, name: str) -> int:
    """Return a number in the summary of a snapshot; 0 if there is none."""
    return int(said_in(snapshot, name) or 0)


def _mapping(fields: Fields) -> Mapping[str, str]:
    return {MAPPING: orjson.dumps(fields.mapping).decode()}


def _schema_updates(base: TableMetadata, fields: Fields) -> tuple[list[TableUpdate], int]:
    """Return what brings the table to these columns, and the id of its schema then."""
    updates: list[TableUpdate] = []
    if mapping_of(base) != fields.mapping:
        updates.append(SetPropertiesUpdate(updates=dict(_mapping(fields))))
    known = next((one for one in base.schemas if one.fields == fields.schema.fields), None)
    if known is not None and known.schema_id == base.current_schema_id:
        return updates, known.schema_id
    if known is None:
        schema_id = max(one.schema_id for one in base.schemas) + 1
        updates.append(AddSchemaUpdate(schema=Schema(*fields.schema.fields, schema_id=schema_id)))
    else:
        schema_id = known.schema_id
    current: dict[str, Any] = {"schema-id": schema_id}
    return [*updates, SetCurrentSchemaUpdate.model_validate(current)], schema_id
