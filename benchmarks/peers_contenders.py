"""What each contender of `benchmarks.peers` is asked to do, and Iceberg and Delta as they do it.

A contender opens its table anew for each operation and keeps nothing but its session. It takes CSV
files in with its own reader or, where it has none, with Arrow's, sorted by id, as zstd and as files
of about `FILE_BYTES`. An operation that a contender has no words for is None.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.csv as pacsv

from benchmarks.peers_data import ARROW, Condition, Shape

FILE_BYTES: Final = 1 << 20
GROUP_ROWS: Final = 16_384  # about a quarter of a file, where a contender counts rows
FILES: Final = 8  # where a contender counts a file's bytes in memory or only by number


@dataclass(frozen=True)
class Sizes:
    """Bytes of a table: of its data, and of metadata if those are in files of their own."""

    data: int
    metadata: int | None = None
    dead: int = 0  # waits for garbage collection


class Contender(ABC):
    """One format with the program that reads and writes it."""

    version: ClassVar[str]

    def __init__(self, folder: Path, shape: Shape) -> None:
        """Name a table, which need not exist."""
        self.folder, self.shape = folder, shape
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def ingest(self, paths: Sequence[Path]) -> None:
        """Make the table of these files."""

    @abstractmethod
    def append(self, path: Path) -> None:
        """Add the rows of a file to a table made by `ingest`, or make it."""

    @abstractmethod
    def upsert(self, path: Path) -> None:
        """Replace or add rows by id."""

    @abstractmethod
    def plan(self, conditions: Sequence[Condition]) -> int | None:
        """Return how many files a read opens; None: it has no words for it."""

    @abstractmethod
    def rows(self, conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that satisfy all conditions."""

    @abstractmethod
    def count(self, conditions: Sequence[Condition]) -> int:
        """Return how many rows satisfy all conditions."""

    def full(self) -> int:
        """Give all rows out, throw them away, and return how many there were."""
        return sum(batch.num_rows for batch in self.rows([]))

    def compact(self) -> bool:
        """Make large files of small ones; False: it has no words for it."""
        return False

    @abstractmethod
    def sizes(self) -> Sizes:
        """Return the bytes of the table."""


def bytes_below(folder: Path, *patterns: str) -> int:
    """Return the bytes of the files below a folder that match one of the patterns."""
    found = {path for pattern in patterns for path in folder.rglob(pattern)}
    return sum(path.stat().st_size for path in found if path.is_file())


def read_sorted(paths: Sequence[Path], shape: Shape) -> pa.Table:
    """Return the rows of CSV files by id, read by Arrow on both cores."""
    kinds = {name: ARROW[kind] for name, kind in shape.columns.items()}
    options = pacsv.ConvertOptions(column_types=kinds, include_columns=list(kinds))
    reading = pacsv.ReadOptions(block_size=8 << 20)
    tables = [pacsv.read_csv(path, reading, convert_options=options) for path in paths]
    return pa.concat_tables(tables).sort_by("id")


class Iceberg(Contender):
    """PyIceberg with a catalog in SQLite."""

    version = "pyiceberg"

    @cached_property
    def catalog(self) -> Any:
        """Return the catalog of the folder."""
        from pyiceberg.catalog.sql import SqlCatalog

        uri = f"sqlite:///{self.folder}/catalog.db"
        catalog = SqlCatalog("peers", uri=uri, warehouse=f"file://{self.folder}/warehouse")
        catalog.create_namespace_if_not_exists("peers")
        return catalog

    def _table(self) -> Any:
        return self.catalog.load_table("peers.t")

    def _create(self, table: pa.Table) -> Any:
        size = max(1 << 20, table.nbytes // FILES)  # it cuts by bytes in memory
        properties = {
            "write.parquet.compression-codec": "zstd",
            "write.target-file-size-bytes": str(size),
            "write.parquet.row-group-limit": str(GROUP_ROWS),
        }
        return self.catalog.create_table("peers.t", table.schema, properties=properties)

    def ingest(self, paths: Sequence[Path]) -> None:
        """Make the table of these files."""
        table = read_sorted(paths, self.shape)
        self._create(table).append(table)

    def append(self, path: Path) -> None:
        """Add the rows of a file, or make the table of it."""
        table = read_sorted([path], self.shape)
        there = self.catalog.table_exists("peers.t")
        (self._table() if there else self._create(table)).append(table)

    def upsert(self, path: Path) -> None:
        """Replace or add rows by id."""
        self._table().upsert(read_sorted([path], self.shape), join_cols=["id"])

    def _scan(self, conditions: Sequence[Condition]) -> Any:
        from pyiceberg.expressions import AlwaysTrue

        words = " and ".join(
            f"{c.column} {c.sign} {c.value if isinstance(c.value, int) else repr(_iso(c.value))}"
            for c in conditions
        )
        return self._table().scan(row_filter=words or AlwaysTrue())

    def plan(self, conditions: Sequence[Condition]) -> int:
        """Plan a read."""
        return len({task.file.file_path for task in self._scan(conditions).plan_files()})

    def rows(self, conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that satisfy all conditions."""
        yield from self._scan(conditions).to_arrow().to_batches()

    def count(self, conditions: Sequence[Condition]) -> int:
        """Count the rows that satisfy all conditions."""
        return int(self._scan(conditions).count())

    def sizes(self) -> Sizes:
        """Return the bytes of the table."""
        data = bytes_below(self.folder, "data/**/*.parquet")
        return Sizes(data, bytes_below(self.folder, "metadata/*", "catalog.db"))


class Delta(Contender):
    """delta-rs, read by its own SQL."""

    version = "deltalake"

    @cached_property
    def _properties(self) -> Any:
        from deltalake import WriterProperties

        return WriterProperties(compression="ZSTD", max_row_group_size=GROUP_ROWS)

    def _write(self, table: pa.Table, mode: Any) -> None:
        from deltalake import write_deltalake

        write_deltalake(
            self.folder / "t",
            table,
            mode=mode,
            target_file_size=FILE_BYTES,
            writer_properties=self._properties,
        )

    def _table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.folder / "t")

    def ingest(self, paths: Sequence[Path]) -> None:
        """Make the table of these files."""
        self._write(read_sorted(paths, self.shape), "error")

    def append(self, path: Path) -> None:
        """Add the rows of a file, or make the table of it."""
        self._write(read_sorted([path], self.shape), "append")

    def upsert(self, path: Path) -> None:
        """Replace or add rows by id."""
        merge = self._table().merge(
            read_sorted([path], self.shape),
            "t.id = s.id",
            source_alias="s",
            target_alias="t",
            writer_properties=self._properties,
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _query(self, text: str, conditions: Sequence[Condition]) -> Any:
        from deltalake import QueryBuilder

        words = " and ".join(f"{c.column} {c.sign} {_sql(c)}" for c in conditions)
        return (
            QueryBuilder()
            .register("t", self._table())
            .execute(f"{text} from t{f' where {words}' if words else ''}")
        )

    def plan(self, conditions: Sequence[Condition]) -> int:
        """Plan a read."""
        import re

        plan = pa.table(self._query("explain verbose select *", conditions).read_all())
        return len(set(re.findall(r"[\w-]+\.parquet", str(plan["plan"].to_pylist()[-1]))))

    def rows(self, conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that satisfy all conditions."""
        yield from map(pa.record_batch, self._query("select *", conditions))

    def count(self, conditions: Sequence[Condition]) -> int:
        """Count the rows that satisfy all conditions."""
        found = pa.table(self._query("select count(*)", conditions).read_all())
        return int(found.column(0)[0].as_py())

    def compact(self) -> bool:
        """Make large files of small ones."""
        optimizer = self._table().optimize
        optimizer.compact(target_size=FILE_BYTES, writer_properties=self._properties)
        return True

    def sizes(self) -> Sizes:
        """Return the bytes of the table."""
        log = bytes_below(self.folder / "t/_delta_log", "*")
        return Sizes(bytes_below(self.folder / "t", "*.parquet"), log)


def _iso(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _sql(condition: Condition) -> str:
    """Return a constant as DataFusion reads it."""
    value = condition.value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        return f"timestamp '{value:%Y-%m-%dT%H:%M:%SZ}'"
    return f"date '{value}'"
