"""Strata, DuckDB and Spark as they do what `benchmarks.peers` asks."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from benchmarks.peers_contenders import FILE_BYTES, FILES, Contender, Sizes, bytes_below
from benchmarks.peers_data import Condition
from strata.compact.run import compact_shard
from strata.decide.read_plan import ReadPlan
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.runner import threads
from strata.model.settings import Settings, SparkSettings, StoreSettings
from strata.model.spec import parse_spec
from strata.plain.parse import plain_filter
from strata.shard import Shard
from strata.store.open import open_stores
from tests.support.climb import standing

CORES: Final = 2


def words(conditions: Sequence[Condition]) -> str:
    """Return conditions as Spark and Strata read them."""
    return " and ".join(f"{c.column} {c.sign} {_constant(c.value)}" for c in conditions)


def _constant(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        return f"timestamp'{value:%Y-%m-%d %H:%M:%S}'"
    return f"date'{value}'"


class Strata(Contender):
    """The engine without Spark, columns alone, as the peers store them; the shard's mode is on.

    Rows are consolidated when they are read, which a table with upserts needs.
    """

    version = "strata-shards"
    layout: ClassVar[str] = "structured"

    @cached_property
    def settings(self) -> Settings:
        """Return the settings of a home in the folder."""
        blob, state = f"file://{self.folder}/blob", f"sqlite:///{self.folder}/state.db"
        return Settings(store=StoreSettings(blob, state, str(self.folder.parent)))

    @cached_property
    def stores(self) -> Any:
        """Return the stores of the folder."""
        return open_stores(self.settings.store)

    def _create(self, envelope: str) -> None:
        columns = [
            {"name": n, "type": t, "nullable": n != "id"} for n, t in self.shape.columns.items()
        ]
        # As after a source's first week; what looking twice costs is in `benchmarks/verify.py`.
        source = {"format": "csv", "envelope": envelope, "verify": "never"}
        spec = {
            "name": "t",
            "columns": columns,
            "key": ["id"],
            "source": source,
            "write_format": self.layout,
            "part_bytes": FILE_BYTES,
            "row_group_bytes": FILE_BYTES // 4,
        }
        Machine(self.stores).create(parse_spec(spec))

    def _take(self, paths: Sequence[Path]) -> None:
        upper = max(0, Machine(self.stores).load("t").upper) + 1
        report = ingest(
            self.stores,
            self.settings,
            "t",
            paths=[str(path) for path in paths],
            lower=upper - 1,
            upper=upper,
            runner=threads(CORES),
        )
        counts = report.counts
        assert (counts.rejected, counts.contradictions, counts.repeated) == (0, 0, 0), report

    def ingest(self, paths: Sequence[Path]) -> None:
        """Make the table of these files."""
        self._create("upsert")
        self._take(paths)
        Machine(self.stores).apply("t", partial(standing, mode="on", percent=0))

    def append(self, path: Path) -> None:
        """Add the rows of a file, or make the table of it."""
        if not (self.folder / "blob").exists():
            self._create("append")
        self._take([path])

    def upsert(self, path: Path) -> None:
        """Replace or add rows by id."""
        self._take([path])

    @property
    def _shard(self) -> Shard:
        return Shard(self.stores, "t", self.settings.read)

    def plan(self, conditions: Sequence[Condition]) -> int:
        """Plan a read."""
        shard = self._shard
        relation = shard.state().relation
        plan: ReadPlan = shard.plan(filter=plain_filter(relation, words(conditions)), pushdown="on")
        return plan.parts_fetched

    def rows(self, conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that satisfy all conditions."""
        yield from self._shard.scan(where=words(conditions) or None, consolidate=True)

    def count(self, conditions: Sequence[Condition]) -> int:
        """Count the rows that satisfy all conditions."""
        return self._shard.count(where=words(conditions))

    def compact(self) -> bool:
        """Make large files of small ones."""
        compact_shard(self.stores, "t", self.settings, threads(CORES), full=True)
        return True

    def sizes(self) -> Sizes:
        """Return the bytes of the table."""
        data = bytes_below(self.folder, "parts/**/*.parquet")
        staged = bytes_below(self.folder, "staged/**/*")  # changes on their way, of a past ingest
        return Sizes(data, bytes_below(self.folder, "*") - data - staged, staged)


class StrataBoth(Strata):
    """The same with the row layout beside the columns, Strata's own default."""

    layout = "both"


class DuckDb(Contender):
    """DuckDB's own table in its own file, without a primary key, in the order of ids."""

    version = "duckdb"

    def _run(self, text: str, *values: object) -> Any:
        import duckdb

        with duckdb.connect(str(self.folder / "t.duckdb"), config={"threads": CORES}) as opened:
            opened.execute("set timezone = 'UTC'")
            return opened.execute(text, list(values)).fetchall()

    def _source(self, paths: Sequence[Path]) -> str:
        kinds = {
            "int64": "bigint",
            "float64": "double",
            "string": "varchar",
            "bool": "boolean",
            "jsonb": "json",
        }
        columns = {n: kinds.get(k, k) for n, k in self.shape.columns.items()}
        files = [str(path) for path in paths]
        return f"read_csv({files}, header = true, columns = {columns})"

    def ingest(self, paths: Sequence[Path]) -> None:
        """Make the table of these files."""
        self._run(f"create table t as select * from {self._source(paths)} order by id; checkpoint")

    def append(self, path: Path) -> None:
        """Add the rows of a file, or make the table of it."""
        some = f"select * from {self._source([path])} order by id"
        there = (self.folder / "t.duckdb").exists()
        self._run(f"insert into t {some}" if there else f"create table t as {some}")

    def upsert(self, path: Path) -> None:
        """Replace or add rows by id."""
        self._run(
            f"merge into t using (select * from {self._source([path])}) s on t.id = s.id "
            "when matched then update when not matched then insert; checkpoint"
        )

    def _where(self, conditions: Sequence[Condition]) -> str:
        told = [
            f'"{c.column}" {c.sign} {_constant(c.value).replace("timestamp", "timestamptz")}'
            for c in conditions
        ]
        return f" where {' and '.join(told)}" if told else ""

    def plan(self, conditions: Sequence[Condition]) -> None:
        """Plan a read."""
        self._run(f"explain select * from t{self._where(conditions)}")

    def rows(self, conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that satisfy all conditions."""
        import duckdb

        with duckdb.connect(str(self.folder / "t.duckdb"), config={"threads": CORES}) as opened:
            opened.execute("set timezone = 'UTC'")
            found = opened.sql(f"select * from t{self._where(conditions)}")
            yield from found.to_arrow_reader()

    def count(self, conditions: Sequence[Condition]) -> int:
        """Count the rows that satisfy all conditions."""
        return int(self._run(f"select count(*) from t{self._where(conditions)}")[0][0])

    def sizes(self) -> Sizes:
        """Return the bytes of the table."""
        return Sizes(bytes_below(self.folder, "t.duckdb*"))


class Spark(Contender):
    """Plain Spark over a folder of Parquet, on two cores in this process."""

    version = "pyspark"
    opened: ClassVar[ExitStack] = ExitStack()

    @property
    def spark(self) -> Any:
        """Return the one session of the process."""
        from pyspark.sql import SparkSession

        from strata.session.session import spark_session

        extra = {
            "spark.sql.shuffle.partitions": str(FILES),
            "spark.sql.parquet.compression.codec": "zstd",
            "spark.hadoop.parquet.block.size": str(FILE_BYTES // 4),
        }
        active = SparkSession.getActiveSession()
        if active is None:
            settings = SparkSettings(master=f"local[{CORES}]")
            active = self.opened.enter_context(spark_session("peers", settings, extra))
        return active

    def _source(self, paths: Sequence[Path]) -> Any:
        kinds = {
            "int64": "bigint",
            "float64": "double",
            "timestamptz": "timestamp",
            "bool": "boolean",
            "jsonb": "string",
        }
        ddl = ", ".join(f"{n} {kinds.get(k, k)}" for n, k in self.shape.columns.items())
        reader = self.spark.read.schema(ddl).option("header", True).option("escape", '"')
        return reader.csv([str(path) for path in paths])

    def _table(self) -> Any:
        return self.spark.read.parquet(str(self.folder / "t"))

    def ingest(self, paths: Sequence[Path]) -> None:
        """Make the table of these files."""
        self._source(paths).orderBy("id").write.parquet(str(self.folder / "t"))

    def append(self, path: Path) -> None:
        """Add the rows of a file, or make the table of it."""
        some = self._source([path]).coalesce(1).sortWithinPartitions("id")
        some.write.mode("append").parquet(str(self.folder / "t"))

    def _replace(self, frame: Any) -> None:
        frame.orderBy("id").write.parquet(str(self.folder / "new"))
        shutil.rmtree(self.folder / "t")
        (self.folder / "new").rename(self.folder / "t")

    def upsert(self, path: Path) -> None:
        """Replace or add rows by id."""
        some = self._source([path])
        kept = self._table().join(some.select("id"), "id", "left_anti").select(some.columns)
        self._replace(kept.unionByName(some))

    def _found(self, conditions: Sequence[Condition]) -> Any:
        return self._table().where(words(conditions)) if conditions else self._table()

    def plan(self, conditions: Sequence[Condition]) -> None:
        """Plan a read."""
        self._found(conditions)._jdf.queryExecution().executedPlan().toString()

    def rows(self, conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that satisfy all conditions."""
        yield from self._found(conditions).toArrow().to_batches()

    def full(self) -> int:
        """Throw the rows away where they are read."""
        self._table().write.format("noop").mode("overwrite").save()
        return -1  # rows are thrown away where they are read

    def count(self, conditions: Sequence[Condition]) -> int:
        """Count the rows that satisfy all conditions."""
        return int(self._found(conditions).count())

    def compact(self) -> bool:
        """Make large files of small ones."""
        self._replace(self._table())
        return True

    def sizes(self) -> Sizes:
        """Return the bytes of the table."""
        return Sizes(bytes_below(self.folder / "t", "*.parquet"))
