"""Files to a committed shard, against Spark reading, sorting and writing the same rows.

    python -m benchmarks.ingest_spark [--rows 1000000] [--files 8] [--rounds 3] [--source csv]

The rows are like TPC-H's lineitem. Contenders take turns in one process and one Spark session of
two cores; a round is one of each. CPU seconds are those of this process, the JVM and all Python
workers together, so that a noisy machine troubles them little; the wall clock is shown as well.
The baseline is `spark.read (declared schema) … sortWithinPartitions(key) … write.parquet`.

    --upsert    instead: what an upsert of 1 % of the keys reads of a compacted shard, clustered
                and spread
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from benchmarks.cpu import cpu_seconds
from strata.compact import compact_shard
from strata.ingest.change import key_bytes, key_ids
from strata.ingest.engine import ingest
from strata.ingest.lookup import rows_of_keys
from strata.machine import Machine
from strata.model.runner import threads
from strata.model.settings import IngestSettings, Settings, SparkSettings, StoreSettings
from strata.model.spec import parse_spec
from strata.store.open import open_stores

COLUMNS = {
    "l_orderkey": "int64", "l_linenumber": "int32", "l_partkey": "int64", "l_suppkey": "int64",
    "l_quantity": "numeric(12,2)", "l_extendedprice": "numeric(12,2)", "l_discount": "float64",
    "l_returnflag": "string", "l_shipdate": "date", "l_shipmode": "string", "l_comment": "string",
}  # fmt: skip
SPARK_TYPES = {
    "int64": "bigint",
    "int32": "int",
    "float64": "double",
    "numeric(12,2)": "decimal(12,2)",
}
KEY = ["l_orderkey", "l_linenumber"]
WORDS = np.array(["carefully", "final", "deposits", "sleep", "furiously", "regular", "even"])
MONEY = pa.decimal128(12, 2)


def money(values: npt.NDArray[np.int64]) -> pa.Array:
    """Return whole numbers as decimals."""
    return pa.array(values).cast(pa.decimal128(21, 2)).cast(MONEY)


def lineitem(rows: int, seed: int) -> pa.Table:
    """Return rows like those of TPC-H, in no order."""
    draw = np.random.default_rng(seed)
    numbers = draw.permutation(rows) + seed * rows
    days = draw.integers(8000, 10_500, rows).astype(np.int32)
    words = WORDS[draw.integers(0, len(WORDS), (rows, 5))]
    comments = words[:, 0]
    for n in range(1, 5):
        comments = np.char.add(np.char.add(comments, " "), words[:, n])
    return pa.table(
        {
            "l_orderkey": numbers // 4,
            "l_linenumber": (numbers % 4).astype(np.int32),
            "l_partkey": draw.integers(0, 200_000, rows),
            "l_suppkey": draw.integers(0, 10_000, rows),
            "l_quantity": money(draw.integers(1, 51, rows)),
            "l_extendedprice": money(draw.integers(1, 100_000, rows)),
            "l_discount": draw.integers(0, 11, rows) / 100,
            "l_returnflag": np.array(["A", "N", "R"])[draw.integers(0, 3, rows)],
            "l_shipdate": pa.array(days).cast(pa.date32()),
            "l_shipmode": np.array(["AIR", "RAIL", "SHIP", "TRUCK"])[draw.integers(0, 4, rows)],
            "l_comment": comments,
        }
    )


def lay_out(root: Path, rows: int, files: int, kind: str) -> None:
    """Write the source files."""
    (root / "in").mkdir()
    for number in range(files):
        table = lineitem(rows // files, number)
        path = root / f"in/{number}.{kind}"
        pacsv.write_csv(table, path) if kind == "csv" else pq.write_table(table, path)


def settings_of(root: Path, rows: int) -> tuple[Settings, Any]:
    """Return new, empty stores."""
    home = Path(tempfile.mkdtemp(dir=root))
    store = StoreSettings(f"file://{home}/blob", f"sqlite:///{home}/state.db", str(root))
    size = sum(path.stat().st_size for path in (root / "in").iterdir())
    return Settings(store=store, ingest=IngestSettings(size // 2 + 1)), home


def strata(root: Path, spark: Any, kind: str, layout: str, rows: int) -> None:
    """Ingest the files as one batch with Spark's tasks."""
    from strata.spark.runner import spark_runner

    settings, home = settings_of(root, rows)
    stores = open_stores(settings.store)
    columns = [{"name": name, "type": type_} for name, type_ in COLUMNS.items()]
    Machine(stores).create(
        parse_spec({"name": "lineitem", "columns": columns, "key": KEY, "source": {"format": kind}})
    )
    report = ingest(
        stores, settings, "lineitem", paths=[str(root / "in")], lower=0, upper=1,
        write_format=layout, runner=spark_runner(spark),
    )  # fmt: skip
    assert report.updates == rows, report
    shutil.rmtree(home)


def baseline(root: Path, spark: Any, kind: str, rows: int) -> None:
    """Read, sort and write the files with Spark alone."""
    schema = ", ".join(f"{name} {SPARK_TYPES.get(t, t)}" for name, t in COLUMNS.items())
    reader = spark.read.schema(schema).option("header", True)
    found = reader.csv(str(root / "in")) if kind == "csv" else reader.parquet(str(root / "in"))
    out = root / "out"
    found.coalesce(2).sortWithinPartitions(*KEY).write.mode("overwrite").option(
        "compression", "zstd"
    ).parquet(str(out))
    assert pq.ParquetDataset(out).read(["l_linenumber"]).num_rows == rows


def compare(root: Path, rows: int, rounds: int, kind: str) -> None:
    """Let the contenders take turns; print medians and ratios."""
    from strata.spark.session import spark_session

    contenders: dict[str, Callable[[Any], None]] = {
        "spark": lambda spark: baseline(root, spark, kind, rows),
        "structured": lambda spark: strata(root, spark, kind, "structured", rows),
        "both": lambda spark: strata(root, spark, kind, "both", rows),
    }
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    with spark_session("ingest benchmark", SparkSettings(master="local[2]")) as spark:
        for turn in range(rounds + 1):  # the first one warms up
            for name, contender in contenders.items():
                began, started = cpu_seconds(), time.monotonic()
                contender(spark)
                if turn:
                    cpu[name].append(cpu_seconds() - began)
                    wall[name].append(time.monotonic() - started)
    print(f"{kind}, {rows:,} rows, medians of {rounds}; load {psutil.getloadavg()[0]:.0f}")
    print(f"{'':12}{'CPU s':>8}{'ratio':>7}{'wall s':>8}{'ratio':>7}")
    for name in contenders:
        one, other = statistics.median(cpu[name]), statistics.median(wall[name])
        by, wall_by = (statistics.median(found["spark"]) for found in (cpu, wall))
        print(f"{name:12}{one:>8.2f}{one / by:>7.2f}{other:>8.2f}{other / wall_by:>7.2f}")


def upsert(root: Path, rows: int) -> None:
    """Print what share of a compacted shard's bytes is read to find the rows of 1 % of its keys."""
    settings, _ = settings_of(root, rows)
    stores = open_stores(settings.store)
    columns = [{"name": name, "type": type_} for name, type_ in COLUMNS.items()]
    declared = {
        "name": "lineitem", "columns": columns, "key": KEY, "source": {"format": "parquet"},
        "part_bytes": 1 << 23, "row_group_bytes": 1 << 20, "write_format": "structured",
    }  # fmt: skip
    Machine(stores).create(parse_spec(declared))
    for number, path in enumerate(sorted((root / "in").iterdir())):
        ingest(stores, settings, "lineitem", paths=[str(path)], lower=number, upper=number + 1)
    compact_shard(stores, "lineitem", settings, threads(2), full=True)
    state = Machine(stores).load("lineitem")
    draw, few = np.random.default_rng(0), rows // 100
    for name, keys in (
        ("clustered", np.arange(rows // 2, rows // 2 + few)),
        (
            "ten clusters",
            np.concatenate([np.arange(few // 10) + n * rows // 10 for n in range(10)]),
        ),
        ("spread", draw.choice(rows, few, replace=False)),
    ):
        table = pa.table({"1": keys // 4, "2": (keys % 4).astype(np.int32)})
        started = time.process_time()
        found = rows_of_keys(stores, state, key_bytes(table, key_ids(state.relation)))
        took = time.process_time() - started
        assert found.rows.num_rows == len(np.unique(keys))
        share, whole = found.bytes_read / found.bytes_in_shard, found.bytes_in_shard
        print(f"{name:14}{len(keys):>9,} keys {share:>7.1%} of {whole:,} bytes, {took:.2f} CPU s")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--source", choices=["csv", "parquet"], default="csv")
    parser.add_argument("--upsert", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        kind = "parquet" if args.upsert else args.source
        lay_out(root, args.rows, args.files, kind)
        run = partial(upsert, root, args.rows) if args.upsert else None
        if run is not None:
            run()
        else:
            compare(root, args.rows, args.rounds, kind)


if __name__ == "__main__":
    main()
