"""The Iceberg manifests of a shard: one for each batch, which names the batch's parts.

A batch never changes, and so its manifest serves every snapshot that has the batch: its file is
named by what it was made from. Files of batches that are gone are entered once more, as deleted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from strata.errors import Corrupt, InvalidRequest
from strata.format.columns import D
from strata.format.manifest import PartRef, part_refs
from strata.format.part import read_footer
from strata.model.runner import Runner, threads
from strata.parts.fetch import BlobFile
from strata.parts.manifests import StoredManifest
from strata.publish.fields import Fields
from strata.publish.metrics import FileMetrics, metrics_of
from strata.publish.place import METADATA, SNAPSHOTS, TableFolder
from strata.state.state import Batch, State
from strata.store.interface import Blob, Referring
from strata.store.keys import content_hash, is_reference
from strata.store.retry import retry

VERSION: Final = 2  # of the Iceberg format
PLAIN: Final = "plain"  # in the name of a manifest: each row of its parts counts once
SUMS: Final = "sums"  # the diffs of its rows have to be added up
AT_ONCE: Final = 8  # footers under way: they wait for the store
CODEC: Final = "deflate"


@dataclass(frozen=True, slots=True)
class Source:
    """What manifests are made from."""

    blob: Blob  # of the shard
    address: str  # of the shard's blobs
    state: State
    fields: Fields
    trusted: bool  # whether readers of the shard may skip by its statistics
    quarantine: frozenset[str]

    def digest(self, batch: Batch) -> str:
        """Return the name of what the manifest of a batch says."""
        said = (
            batch.manifest,
            self.address,
            self.trusted,
            sorted(self.quarantine),
            self.fields.schema.model_dump_json(),
        )
        return content_hash(repr(said).encode())


@dataclass(slots=True)
class Files:
    """The manifests of a new snapshot, and what changed since the one before."""

    manifests: list[ManifestFile] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # keys of new files
    added: list[DataFile] = field(default_factory=list)
    deleted: list[DataFile] = field(default_factory=list)
    location: str = ""  # of the list of the manifests
    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    plain: bool = True  # each row of every file counts once


def is_made(manifest: ManifestFile, digest: str) -> bool:
    """Return whether a manifest is the one with this digest."""
    return manifest.manifest_path.rpartition("/")[2].startswith(f"m-{digest}-")


def check_layouts(state: State) -> None:
    """Refuse a shard with parts that have no columns. Raises: InvalidRequest."""
    bare = sum(
        parts for batch in state.batches for layout, parts in batch.layouts if layout == "row"
    )
    if bare:
        raise InvalidRequest(
            "parts in the row format have no columns that other engines could read",
            shard=state.name,
            parts=bare,
            cure="strata compact SHARD --migrate, for a shard with write_format: both or "
            "structured",
        )


def make_manifests(
    source: Source, place: TableFolder, base: TableMetadata, snapshot_id: int, sequence: int
) -> Files:
    """Write the manifests that a snapshot of a state needs beside those of the one before.

    Raises: Corrupt for a damaged manifest or part.
    Cost: reads the manifests of new batches, and the footer of each new part.
    """
    current = base.current_snapshot()
    before = current.manifests(place.io) if current else []
    files = Files()
    stored = [batch for batch in source.state.batches if batch.manifest is not None]
    wanted = {source.digest(batch): batch for batch in stored}
    if len(wanted) < len(stored):
        raise Corrupt("two batches of a shard have one manifest", shard=source.state.name)
    kept = (
        {digest: manifest for manifest in before for digest in wanted if is_made(manifest, digest)}
        if before
        else {}
    )
    gone: dict[str, ManifestEntry] = {}
    for manifest in before:
        if all(manifest.manifest_path != one.manifest_path for one in kept.values()):
            entries = manifest.fetch_manifest_entry(place.io, discard_deleted=True)
            gone |= {entry.data_file.file_path: entry for entry in entries}
    for digest, batch in wanted.items():
        if digest in kept:
            manifest = kept[digest]
            files.manifests.append(manifest)
            files.plain &= f"-{PLAIN}-" in manifest.manifest_path
            files.files += (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
            files.rows += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
            files.size_bytes += batch.size_bytes
        else:
            _write(source, place, batch, digest, snapshot_id, gone, files)
    if gone:
        _bury(source.fields, place, gone, snapshot_id, files)
    location = place.location(f"{SNAPSHOTS}{snapshot_id}.avro")
    parent = None if current is None else current.snapshot_id
    with write_manifest_list(
        VERSION, place.io.new_output(location), snapshot_id, parent, sequence, CODEC
    ) as listing:
        listing.add_manifests(files.manifests)
    files.location = location
    files.written.append(place.key(location))
    return files


def _write(  # noqa: PLR0913, PLR0917  what a manifest consists of
    source: Source,
    place: TableFolder,
    batch: Batch,
    digest: str,
    snapshot_id: int,
    gone: dict[str, ManifestEntry],
    files: Files,
) -> None:
    """Write the manifest of one batch. Files that were there before keep their snapshot."""
    found = [
        (ref, metrics)
        for table in _pieces(source, batch)
        for ref, metrics in zip(
            part_refs(table),
            metrics_of(table, source.fields, trusted=source.trusted, quarantine=source.quarantine),
            strict=True,
        )
        if ref.rows
    ]
    refs = [ref for ref, _ in found]
    plain = _examined(source, refs, threads(AT_ONCE))
    files.plain &= plain
    name = f"{METADATA}m-{digest}-{PLAIN if plain else SUMS}-{snapshot_id}.avro"
    with write_manifest(
        VERSION,
        UNPARTITIONED_PARTITION_SPEC,
        source.fields.schema,
        place.io.new_output(place.location(name)),
        snapshot_id,
        CODEC,
    ) as writer:
        for ref, metrics in found:
            data = _data_file(source.address, ref, metrics)
            old = gone.pop(data.file_path, None)
            if old is None:
                files.added.append(data)
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED
                    if old is None
                    else ManifestEntryStatus.EXISTING,
                    snapshot_id=snapshot_id if old is None else old.snapshot_id,
                    sequence_number=None if old is None else old.sequence_number,
                    file_sequence_number=None if old is None else old.file_sequence_number,
                    data_file=data,
                )
            )
    if found:
        files.manifests.append(writer.to_manifest_file())
    files.written.append(name)
    files.files += len(refs)
    files.rows += sum(ref.rows for ref in refs)
    files.size_bytes += batch.size_bytes


def _bury(
    fields: Fields,
    place: TableFolder,
    gone: dict[str, ManifestEntry],
    snapshot_id: int,
    files: Files,
) -> None:
    """Write the manifest of the files that this snapshot no longer has."""
    name = f"{METADATA}gone-{snapshot_id}.avro"
    with write_manifest(
        VERSION,
        UNPARTITIONED_PARTITION_SPEC,
        fields.schema,
        place.io.new_output(place.location(name)),
        snapshot_id,
        CODEC,
    ) as writer:
        for entry in gone.values():
            files.deleted.append(entry.data_file)
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.DELETED,
                    snapshot_id=snapshot_id,
                    sequence_number=entry.sequence_number,
                    file_sequence_number=entry.file_sequence_number,
                    data_file=entry.data_file,
                )
            )
    files.manifests.append(writer.to_manifest_file())
    files.written.append(name)


def _pieces(source: Source, batch: Batch) -> Iterator[pa.Table]:
    """Yield the rows of a batch's manifest. Raises: Corrupt for parts without columns."""
    stored = StoredManifest(source.blob, source.state.name, batch)
    for piece in stored.pieces():
        table = piece.read(None)
        bare = table.filter(pc.equal(table["layout"], "row"))
        if bare.num_rows:
            raise Corrupt(
                "a manifest lists parts in the row format, which the state does not count",
                shard=source.state.name,
                parts=bare.num_rows,
                first=bare["key"][0].as_py(),
            )
        _check_here(source, table["key"].to_pylist())
        yield table


def _check_here(source: Source, part_keys: Sequence[str]) -> None:
    """Refuse parts whose rows lie in files outside: other engines would find only their tails."""
    for key in filter(is_reference, part_keys):
        assert isinstance(source.blob, Referring)
        found = retry(partial(source.blob.referred, key))
        if found is not None:
            raise InvalidRequest(
                "a part refers to a file of another table, which other engines cannot read as ours",
                shard=source.state.name,
                part=key,
                file=found.file.address,
                cure=f"strata own {source.state.name}, then publish",
            )


def _data_file(address: str, ref: PartRef, metrics: FileMetrics) -> DataFile:
    return DataFile.from_args(
        VERSION, content=DataFileContent.DATA, file_path=f"{address}/{ref.key}",
        file_format=FileFormat.PARQUET, partition=Record(), record_count=ref.rows,
        file_size_in_bytes=ref.size_bytes, column_sizes=None,
        value_counts=metrics.value_counts, null_value_counts=metrics.null_value_counts,
        nan_value_counts=None, lower_bounds=metrics.lower_bounds,
        upper_bounds=metrics.upper_bounds, key_metadata=None, split_offsets=None,
        equality_ids=None, sort_order_id=None,
    )  # fmt: skip


def _examined(source: Source, refs: Sequence[PartRef], runner: Runner) -> bool:
    """Look into each part; return whether every row of all of them counts once.

    Raises: Corrupt for a part whose columns other engines must not believe.
    """
    where = partial(_examine, source.blob, source.state.name)
    return all(list(runner(where, refs)))


def _examine(blob: Blob, shard: str, ref: PartRef) -> bool:
    """Check that a part is as its manifest says; return whether each of its rows counts once."""
    file = BlobFile(blob, ref.key, ref.size_bytes)
    footer = read_footer(file)
    if not footer.has_columns or footer.rows != ref.rows:
        raise Corrupt(
            "a part has other columns or rows than its manifest says",
            shard=shard,
            part=ref.key,
            rows=footer.rows,
            recorded=ref.rows,
            migration=footer.migration,
            cure="strata validate lists every such part",
        )
    if ref.retractions or ref.diffs_sum != ref.rows:
        return False
    # The sum of diffs is known modulo 2**64 only; so they are read.
    stored = pq.ParquetFile(file, page_checksum_verification=True).read(columns=[D])
    return bool(pc.all(pc.equal(stored[D], 1)).as_py())
