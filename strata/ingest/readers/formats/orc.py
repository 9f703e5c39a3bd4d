"""Reads ORC files: columns by name, cast without loss; a row has a number instead of a line."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as po

from strata.errors import InvalidRequest
from strata.ingest.land.files import FileRange, SourceFile, open_file
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import GroupedFormat, grouped
from strata.ingest.readers.guess import Guess
from strata.ingest.readers.old_calendar import ICEBERG, IN_ORC, check_days, has_old_days
from strata.ingest.readers.orc_tail import OrcTail, orc_tail
from strata.ingest.readers.source import RawFile, check_columns
from strata.ingest.readers.spread import gathered
from strata.ingest.readers.table import (
    DAMAGED,
    PART_BYTES,
    UNREADABLE,
    WHOLE_BYTES,
    check_count,
    groups_of,
    guess_schema,
    raw_table,
)
from strata.model.types import ColumnType, Kind

JAVA: Final = "ORC_JAVA"
UTC: Final = ("UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "Zulu", "Etc/Zulu", "Universal", "UCT")
NO_TYPES: Final[Mapping[str, ColumnType]] = MappingProxyType({})
UNREAD: Final = (
    "fetch it again; a file with times before 1677 or after 2262, which the library for ORC does "
    "not read, has to be written as Parquet"
)
ORC_ROWS: Final = 512  # read at once, however large they are


def read_orc(
    source: SourceFile,
    names: Sequence[str],
    optional: Collection[str] = (),
    types: Mapping[str, ColumnType] = NO_TYPES,
) -> Iterator[RawFile]:
    """Yield the columns `names`; otherwise as `read_parquet`.

    A whole file is read a few rows at a time, because a repeated text takes no room in it. For a
    piece, one stripe is held.

    Raises: InvalidRequest also for times by the clock of a zone, in a column whose declared type
    (`types`) is a moment, and if fewer rows of a whole file are returned than it has.
    """
    with orc_file(source) as file:
        check_columns(source.name, file.schema.names, names, optional=optional)
        check_zone(source, file, types)
        before, rows = source.before, file.nrows
        stripes = groups_of(source, file.nstripes)
        if source.is_whole:
            found = _few_rows_at_a_time(source, file.schema)
        else:
            found = (pa.Table.from_batches([file.read_stripe(number)]) for number in stripes)
        for table in found:
            check_orc_days(source, file, table, names)
            whole = source.is_whole and table.num_rows == rows
            yield raw_table(source, table, names, optional, before=before, whole=whole)
            before += table.num_rows
        if source.is_whole:
            check_count(source, before - source.before, rows)


def check_orc_days(source: SourceFile, file: Any, table: pa.Table, names: Sequence[str]) -> None:
    """Refuse days that a Java writer has counted by the Julian calendar.

    ORC's library for Java does so unless the file says otherwise. Those of other languages and
    Iceberg's do not.
    """
    if file.writer != JAVA or ICEBERG in (file.schema.metadata or {}):
        return
    there = {name: table.column(name).chunks for name in table.column_names if name in names}
    if any(has_old_days(chunks, days=True) for chunks in there.values()):
        if _tail(source, file).proleptic:
            return
        for name, chunks in there.items():
            check_days(source.name, name, chunks, IN_ORC, days=True)


def check_zone(source: SourceFile, file: Any, types: Mapping[str, ColumnType]) -> None:
    """Refuse times by the clock of a zone where moments are declared.

    ORC's TIMESTAMP shows what the clock of the writer's zone showed. Spark writes its moments as
    such, too. In the hour that a clock repeats nothing says which moment is meant.
    """
    for name, kind in types.items():
        at = file.schema.get_field_index(name)
        if at < 0 or not _is_moment(kind) or not _has_clock(file.schema.field(at).type):
            continue
        zones = [zone for zone in _tail(source, file).zones if zone not in UTC]
        if zones:
            raise InvalidRequest(
                "the times of this column are by the clock of a zone, and moments are declared",
                file=source.name,
                column=name,
                declared=str(kind),
                zone=", ".join(zones),
                cure="declare the column as timestamp; or write the file in UTC (Spark: "
                "-Duser.timezone=UTC for driver and executors), or as Parquet",
            )


def _tail(source: SourceFile, file: Any) -> OrcTail:
    with open_file(source) as stream:
        return orc_tail(stream, file)


def _is_moment(kind: ColumnType) -> bool:
    inner = [*([kind.element] if kind.element else []), *(field.type for field in kind.fields)]
    return kind.kind is Kind.TIMESTAMPTZ or any(map(_is_moment, inner))


def _has_clock(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_has_clock(kind.field(n).type) for n in range(kind.num_fields))


def _few_rows_at_a_time(source: SourceFile, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of an ORC file: up to WHOLE_BYTES as one table, more in PART_BYTES each."""
    with open_file(source) as stream:
        fragment = ds.OrcFileFormat().make_fragment(stream)
        batches = fragment.to_batches(batch_size=ORC_ROWS, batch_readahead=0, use_threads=False)
        yield from gathered(batches, schema, WHOLE_BYTES, PART_BYTES)


@contextmanager
def orc_file(source: SourceFile) -> Iterator[Any]:
    """Open an ORC file. Raises: InvalidRequest if it is not ORC, also while it is read."""
    cure = UNREADABLE
    try:
        with open_file(source) as stream:
            file = po.ORCFile(stream)
            cure = UNREAD
            yield file
    except DAMAGED as error:
        raise InvalidRequest(
            "not a readable ORC file",
            file=source.name,
            reason=str(error),
            cure=cure,
        ) from error


class Orc(GroupedFormat):
    """ORC files."""

    suffixes = (".orc",)

    def read(self, file: SourceFile, columns: SourceColumns) -> Iterator[RawFile]:
        """See `Format`."""
        return read_orc(file, columns.names, columns.optional, columns.types)

    def ranges(self, file: SourceFile, size_bytes: int) -> Sequence[FileRange]:
        """See `Format`: stripes, assumed to be of equal size; a column gives their rows."""
        with orc_file(file) as opened:
            column, stripes = opened.schema.names[:1], max(1, opened.nstripes)
            sizes = [
                (file.size_bytes // stripes, opened.read_stripe(n, columns=column).num_rows)
                for n in range(opened.nstripes)
            ]
        return grouped(sizes, size_bytes)

    def guesses(self, file: SourceFile, envelope: str) -> tuple[Mapping[str, Guess], int]:
        """See `Format`."""
        with orc_file(file) as opened:
            return guess_schema(file.name, opened.schema)


FORMAT = Orc()
