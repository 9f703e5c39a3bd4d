"""The data files of a version of a Delta table, without the rows that its marks delete."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import (
    FileSystemDataset,
    Fragment,
    ParquetFileFormat,
    ParquetFragmentScanOptions,
    ParquetReadOptions,
)
from pyarrow.fs import LocalFileSystem

from strata.adopt.peer import REPLACE
from strata.errors import InvalidRequest

MARKED: Final = "deletionVectors"  # the feature of tables whose rows are deleted by marks
MAPPED: Final = "columnMapping"  # the feature of tables whose files have other names of columns
# Features that the library's reader of data files refuses, and that are not about these.
APART: Final = frozenset({MARKED, MAPPED, "v2Checkpoint"})
READ_AHEAD: Final = 2
# Spark writes INT96 times; in nanoseconds those far from now, as 9999-12-31, would overflow.
OPTIONS: Final = ParquetReadOptions(coerce_int96_timestamp_unit="us")
CHECKED: Final = ParquetFragmentScanOptions(page_checksum_verification=True)
Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """Some rows of a data file."""

    fragment: Fragment
    deleted: Marks  # of its first rows; no row behind them is deleted
    only: Marks | None = None  # None: all others; else of the first rows those that count

    @property
    def all_count(self) -> bool:
        """Return whether all rows of the file count."""
        return self.only is None and not self.deleted.any()

    def without(self, other: "DeltaFile | None") -> list["DeltaFile"]:
        """Return the rows that the same file of another version lacks, as no or one file."""
        if other is None:
            return [self]
        length = max(len(self.deleted), len(other.deleted))
        only = _padded(other.deleted, length) & ~_padded(self.deleted, length)
        return [DeltaFile(self.fragment, self.deleted, only)] if only.any() else []

    def batches(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the columns of a version."""
        at = 0
        for batch in _scanned([self.fragment], columns):
            end = at + batch.num_rows
            counting = self._counting(at, end)
            yield batch if counting.all() else batch.filter(pa.array(counting))
            at = end
            if self.only is not None and at >= len(self.only):
                return

    def _counting(self, at: int, end: int) -> Marks:
        if self.only is not None:
            return _padded(self.only[at:end], end - at)
        return ~_padded(self.deleted[at:end], end - at)


def live_rows(some: Sequence[DeltaFile], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, in the columns of a version: whole files first, some at a time."""
    if whole := [one.fragment for one in some if one.all_count]:
        yield from _scanned(whole, columns)
    for one in some:
        if not one.all_count:
            yield from one.batches(columns)


def _scanned(fragments: list[Fragment], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    files = FileSystemDataset(fragments, columns, ParquetFileFormat())
    found: Iterator[pa.RecordBatch] = files.to_batches(
        batch_readahead=READ_AHEAD, cache_metadata=False, fragment_scan_options=CHECKED
    )
    return found


def _padded(marks: Marks, length: int) -> Marks:
    return np.concatenate([marks, np.zeros(length - len(marks), bool)])


def data_files(address: str, table: DeltaTable) -> dict[str, DeltaFile]:
    """Return the files of the loaded version of the table at an address, by their paths.

    Raises: InvalidRequest for marks of files that are not found by them; errors of the library.
    """
    marks = _marks(table)
    found = {
        fragment.path: DeltaFile(fragment, marks.pop(fragment.path, np.zeros(0, bool)))
        for fragment in fragments_of(address, table)
    }
    if marks:
        raise InvalidRequest(
            "rows are deleted in files that the table does not name like this",
            file=sorted(marks)[0],
            cure="REORG TABLE … APPLY (PURGE), which rewrites such files",
        )
    return found


def fragments_of(address: str, table: DeltaTable) -> list[Fragment]:
    """Return the data files of the loaded version, with all the rows that they hold.

    Of a table with column mapping the columns have other names in them.
    """
    # The library refuses to show files of tables with these features, as it would ignore them.
    plain = _Unfeatured(address, version=table.version())
    columns = pa.schema(table.schema().to_arrow())
    files = plain.to_pyarrow_dataset(schema=columns, parquet_read_options=OPTIONS)
    return [_at_its_place(one, _root(table)) for one in files.get_fragments()]


def _at_its_place(fragment: Fragment, root: str) -> Fragment:
    """Return a data file that is opened where it is; the library looks for all below the table.

    A log may name a file by its whole path, as that of a clone does for those of another table.
    Raises: InvalidRequest for a file of another store, which only the library's own reader finds.
    """
    path = _named(fragment.path, root)
    if "://" in path:
        raise InvalidRequest(
            "the table has files of another table, and they do not show here what changed",
            file=path,
            cure=f"{REPLACE}; or make a deep clone of it",
        )
    if path == fragment.path and not path.startswith("/"):
        return fragment
    system = LocalFileSystem() if path.startswith("/") else fragment.filesystem
    return fragment.format.make_fragment(
        path, filesystem=system, partition_expression=fragment.partition_expression
    )


def _root(table: DeltaTable) -> str:
    return unquote(table.table_uri).rstrip("/") + "/"


def _named(path: str, root: str) -> str:
    """Return the path of a data file below its table, or all of that of one elsewhere.

    >>> _named("file:///lake/t/a.parquet", "file:///lake/t/"), _named("file:/x.parquet", "s3://b/")
    ('a.parquet', '/x.parquet')
    """
    local = re.compile("^file:(//)?(?=/)")
    return local.sub("", path).removeprefix(local.sub("", root))


def has_marks(table: DeltaTable) -> bool:
    """Return whether rows of the loaded version are deleted by marks, or may be."""
    declared = MARKED in (table.protocol().reader_features or ())
    return declared or pa.table(table.deletion_vectors()).num_rows > 0


def has_nanoseconds(fields: Iterable[pa.Field]) -> bool:
    """Return whether a time in some columns, or within them, is counted in nanoseconds."""
    return any(_is_fine(field.type) for field in fields)


def _is_fine(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return has_nanoseconds(kind.field(n) for n in range(kind.num_fields))


def _marks(table: DeltaTable) -> dict[str, Marks]:
    """Return which of the first rows of files are deleted, by the paths of the files.

    Whether the protocol mentions marks does not matter: the library obeys those that it does not.
    """
    root = _root(table)
    found = pa.table(table.deletion_vectors())
    pairs = zip(found.column("filepath").to_pylist(), found.column("selection_vector"), strict=True)
    return {
        _named(unquote(path), root): ~kept.values.to_numpy(zero_copy_only=False)
        for path, kept in pairs
    }


class _Unfeatured(DeltaTable):
    """A table whose protocol does not mention what its data files do not show."""

    def protocol(self) -> Any:
        found = super().protocol()
        features = {*(found.reader_features or ())} - APART
        return found._replace(reader_features=sorted(features))
