"""TPC-H through ingest, against Spark reading, sorting and writing the same rows.

    python -m benchmarks.tpch [--scale 0.3] [--rounds 3] [lineitem-csv lineitem-parquet orders ...]

`make tpch` installs the generator (requirements/benchmarks.txt) and runs this. Contenders take
turns in one process and one Spark session of two cores; a round is one of each; CPU seconds are
those of this process, the JVM and all Python workers together.

* `lineitem-csv`, `lineitem-parquet`: all sixteen columns in 8 files, appended as one batch.
* `orders`: Debezium's events (JSON) of a table. All orders were inserted, then a fifth of them
  updated and a fiftieth deleted: two batches, the second of which finds the old rows.
* `orders-upsert`: the same as whole rows and tombstones in Parquet.

The baseline is `spark.read (declared schema) ... sortWithinPartitions(key) ... write.parquet`
(zstd). Of the change stream it takes the fields out of the events, and neither finds the old rows
nor checks that the stream fits them.
"""

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import psutil
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from benchmarks.cpu import cpu_seconds
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.settings import IngestSettings, Settings, SparkSettings, StoreSettings
from strata.model.spec import parse_spec
from strata.session.session import spark_session
from strata.spark.runner import spark_runner
from strata.store.open import open_stores

GENERATOR: Final = Path(__file__).parents[1] / ".venv-benchmarks" / "bin" / "tpchgen-cli"
LINEITEM: Final = {
    "l_orderkey": "int64", "l_partkey": "int64", "l_suppkey": "int64", "l_linenumber": "int32",
    "l_quantity": "decimal(15,2)", "l_extendedprice": "decimal(15,2)",
    "l_discount": "decimal(15,2)", "l_tax": "decimal(15,2)", "l_returnflag": "string",
    "l_linestatus": "string", "l_shipdate": "date", "l_commitdate": "date",
    "l_receiptdate": "date", "l_shipinstruct": "string", "l_shipmode": "string",
    "l_comment": "string",
}  # fmt: skip
ORDERS: Final = {
    "o_orderkey": "int64",
    "o_custkey": "int64",
    "o_orderstatus": "string",
    "o_totalprice": "decimal(15,2)",
    "o_orderdate": "date",
    "o_orderpriority": "string",
    "o_clerk": "string",
    "o_shippriority": "int32",
    "o_comment": "string",
}
SPARK: Final = {"int64": "bigint", "int32": "int"}
EVENT: Final = 20_000  # a file of changes
UPDATED, DELETED = 5, 50  # one order in five, and one in fifty


@dataclass(frozen=True)
class Case:
    """One source and how both sides take it in."""

    name: str
    spec: dict[str, Any]
    batches: tuple[str, ...]  # folders, in order
    rows: int  # of the source
    baseline: Callable[[Any, list[str]], Any]  # the DataFrame that is written


def generate(root: Path, table: str, kind: str, scale: float, parts: int) -> Path:
    """Let the generator write a table and return its folder."""
    subprocess.run(
        [
            str(GENERATOR),
            kind,
            "-s",
            str(scale),
            f"--tables={table}",
            f"--parts={parts}",
            f"--output-dir={root / kind}",
            "--quiet",
        ],
        check=True,
    )
    return root / kind / table


def declared(name: str, columns: dict[str, str], key: list[str], **source: Any) -> dict[str, Any]:
    """Return the declaration of a shard."""
    told = [{"name": n, "type": t, "nullable": n not in key} for n, t in columns.items()]
    # As after a source's first week; what looking twice costs is in `benchmarks/verify.py`.
    source = {**source, "verify": "never"}
    return {"name": name, "columns": told, "key": key, "source": source}


def ddl(columns: dict[str, str]) -> str:
    """Return the columns as Spark declares them."""
    return ", ".join(f"{name} {SPARK.get(kind, kind)}" for name, kind in columns.items())


def lineitem(root: Path, scale: float, kind: str) -> Case:
    """Return the case of lineitem."""
    folder = generate(root, "lineitem", kind, scale, 8)
    paths = sorted(folder.iterdir())
    reads = pacsv.read_csv if kind == "csv" else pq.read_table
    rows = sum(reads(path).num_rows for path in paths)
    key = ["l_orderkey", "l_linenumber"]

    def read(spark: Any, folders: list[str]) -> Any:
        reader = spark.read.schema(ddl(LINEITEM)).option("header", True)
        found = reader.csv(folders) if kind == "csv" else reader.parquet(*folders)
        return found.coalesce(2).sortWithinPartitions(*key)

    spec = declared("lineitem", LINEITEM, key, format=kind)
    return Case(f"lineitem-{kind}", spec, (str(folder),), rows, read)


def changes(orders: pa.Table) -> pa.Table:
    """Return the later changes: updated orders, and deleted ones (`gone`), in the order of keys."""
    number = np.arange(orders.num_rows)
    gone = number % DELETED == 7
    some = orders.append_column("gone", pa.array(gone)).filter(
        pa.array((number % UPDATED == 0) | gone)
    )
    shipped = pa.array(["F"] * some.num_rows, some.schema.field("o_orderstatus").type)
    return some.set_column(some.column_names.index("o_orderstatus"), "o_orderstatus", shipped)


def orders_of(root: Path, scale: float) -> pa.Table:
    """Return the generated orders."""
    folder = generate(root, "orders", "parquet", scale, 1)
    table = pq.read_table(folder)
    strings = [pa.string() if str(f.type) == "string_view" else f.type for f in table.schema]
    return table.cast(pa.schema([(f.name, t) for f, t in zip(table.schema, strings, strict=True)]))


def orders_upsert(root: Path, scale: float) -> Case:
    """Return the case of orders as whole rows and tombstones."""
    orders = orders_of(root, scale)
    first = orders.append_column("gone", pa.array(np.zeros(orders.num_rows, bool)))
    later = changes(orders)
    for name, table in (("first", first), ("later", later)):
        (root / name).mkdir()
        for number in range(8):
            size = -(-table.num_rows // 8)
            pq.write_table(table.slice(number * size, size), root / f"{name}/{number}.parquet")

    def read(spark: Any, folders: list[str]) -> Any:
        found = spark.read.schema(f"{ddl(ORDERS)}, gone boolean").parquet(*folders)
        return found.coalesce(2).sortWithinPartitions("o_orderkey")

    spec = declared(
        "orders", ORDERS, ["o_orderkey"], format="parquet", envelope="upsert", deleted_column="gone"
    )
    batches = (str(root / "first"), str(root / "later"))
    return Case("orders-upsert", spec, batches, first.num_rows + later.num_rows, read)


def orders_debezium(root: Path, scale: float) -> Case:
    """Return the case of orders: Debezium's events."""
    orders = orders_of(root, scale)
    later = changes(orders)
    lsn = write_events(
        root / "first", orders.append_column("op", pa.array(["c"] * len(orders))), 1 << 20
    )
    ops = ["d" if gone else "u" for gone in later["gone"].to_pylist()]
    write_events(root / "later", later.drop(["gone"]).append_column("op", pa.array(ops)), lsn)

    def read(spark: Any, folders: list[str]) -> Any:
        from pyspark.sql import functions as f

        days = {**ORDERS, "o_orderdate": "int"}  # since 1970
        row = ", ".join(f"{name}: {SPARK.get(kind, kind)}" for name, kind in days.items())
        event = f"before: struct<{row}>, after: struct<{row}>, op: string"
        schema = f"value struct<{event}, source: struct<lsn: bigint>>"
        found = spark.read.schema(schema).json(folders)
        events = found.select("value.*")
        told = f.coalesce("after", "before")
        columns = [
            f.date_from_unix_date(told[n]).alias(n) if t == "date" else told[n].alias(n)
            for n, t in ORDERS.items()
        ]
        picked = events.select(*columns, "op", f.col("source.lsn").alias("lsn"))
        return picked.coalesce(2).sortWithinPartitions("o_orderkey", "lsn")

    spec = declared("orders", ORDERS, ["o_orderkey"], format="jsonl", envelope="debezium")
    batches = (str(root / "first"), str(root / "later"))
    return Case("orders", spec, batches, len(orders) + len(later), read)


def write_events(folder: Path, rows: pa.Table, lsn: int) -> int:
    """Write change events, a file for each `EVENT` of them; return the next place in the log."""
    folder.mkdir()
    days = rows["o_orderdate"].cast(pa.int32())
    rows = rows.set_column(rows.column_names.index("o_orderdate"), "o_orderdate", days)
    for number, start in enumerate(range(0, rows.num_rows, EVENT)):
        lines = []
        for row in rows.slice(start, EVENT).to_pylist():
            op = row.pop("op")
            row["o_totalprice"] = str(row["o_totalprice"])
            places = [str(lsn - 8), str(lsn)]
            source = {
                "version": "3.6.3.Final", "connector": "postgresql", "name": "source",
                "ts_ms": 1_700_000_000_000 + lsn, "snapshot": "false", "db": "postgres",
                "ts_us": 1_700_000_000_000_000 + lsn, "ts_ns": 1_700_000_000_000_000_000 + lsn,
                "sequence": orjson.dumps(places).decode(), "schema": "public", "table": "orders",
                "txId": lsn // 8, "lsn": lsn, "xmin": None, "origin": None, "origin_lsn": None,
            }  # fmt: skip
            key = {"o_orderkey": row["o_orderkey"]}
            event = {
                "before": {**dict.fromkeys(row), **key} if op == "d" else None,
                "after": None if op == "d" else row,
                "source": source,
                "transaction": None,
                "op": op,
                "ts_ms": 1_700_000_000_100 + lsn,
                "ts_us": 1_700_000_000_100_000 + lsn,
            }
            lines.append(orjson.dumps({"key": key, "value": event}))
            lsn += 8
        (folder / f"{number:05}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return lsn


def strata(root: Path, spark: Any, case: Case, layout: str) -> None:
    """Take the batches in with Spark's tasks."""
    home = Path(tempfile.mkdtemp(dir=root))
    store = StoreSettings(f"file://{home}/blob", f"sqlite:///{home}/state.db", str(root))
    size = sum(p.stat().st_size for folder in case.batches for p in Path(folder).iterdir())
    settings = Settings(store=store, ingest=IngestSettings(max(1 << 20, size // 2 + 1)))
    stores = open_stores(store)
    Machine(stores).create(parse_spec(case.spec))
    for number, folder in enumerate(case.batches):
        report = ingest(
            stores,
            settings,
            case.spec["name"],
            paths=[folder],
            lower=number,
            upper=number + 1,
            write_format=layout,
            runner=spark_runner(spark),
        )
        counts = report.counts
        assert (counts.rejected, counts.contradictions, counts.repeated) == (0, 0, 0), report
    if len(case.batches) == 1:
        assert report.updates == case.rows, report
    shutil.rmtree(home)


def baseline(root: Path, spark: Any, case: Case) -> None:
    """Read, sort and write the files with Spark alone."""
    out = root / "out"
    frame = case.baseline(spark, list(case.batches))
    frame.write.mode("overwrite").option("compression", "zstd").parquet(str(out))
    found = sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet"))
    assert found == case.rows, (found, case.rows)
    shutil.rmtree(out)


def compare(root: Path, spark: Any, case: Case, rounds: int) -> None:
    """Let the contenders take turns; print medians and ratios."""
    contenders: dict[str, Callable[[], None]] = {
        "spark": lambda: baseline(root, spark, case),
        "structured": lambda: strata(root, spark, case, "structured"),
        "both": lambda: strata(root, spark, case, "both"),
    }
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):  # the first one warms up
        for name, contender in contenders.items():
            began, started = cpu_seconds(), time.monotonic()
            contender()
            if turn:
                cpu[name].append(cpu_seconds() - began)
                wall[name].append(time.monotonic() - started)
    size = sum(p.stat().st_size for f in case.batches for p in Path(f).iterdir())
    print(
        f"{case.name}: {case.rows:,} rows, {size / 2**20:,.0f} MiB, medians of {rounds}; "
        f"load {psutil.getloadavg()[0]:.1f}"
    )
    print(f"{'':12}{'CPU s':>8}{'ratio':>7}{'wall s':>8}{'ratio':>7}")
    for name in contenders:
        one, other = statistics.median(cpu[name]), statistics.median(wall[name])
        by, wall_by = (statistics.median(found["spark"]) for found in (cpu, wall))
        print(
            f"{name:12}{one:>8.2f}{one / by:>7.2f}{other:>8.2f}{other / wall_by:>7.2f}", flush=True
        )


CASES: Final[dict[str, Callable[[Path, float], Case]]] = {
    "lineitem-csv": lambda root, scale: lineitem(root, scale, "csv"),
    "lineitem-parquet": lambda root, scale: lineitem(root, scale, "parquet"),
    "orders": orders_debezium,
    "orders-upsert": orders_upsert,
}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--scale", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    settings = SparkSettings(master="local[2]")
    with spark_session("TPC-H", settings) as spark:
        for name in args.cases:
            with tempfile.TemporaryDirectory() as folder:
                compare(Path(folder), spark, CASES[name](Path(folder), args.scale), args.rounds)


if __name__ == "__main__":
    main()
