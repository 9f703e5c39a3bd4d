"""What reading a shard through Spark costs, beside Spark's own reading of the same files.

Run: python benchmarks/spark_read.py [PARTS [ROUNDS [ROWS_A_PART]]]. Builds a shard of events in
time order in a temporary folder, then reads, A B C A B C: all of it by `spark.read.parquet` from
the parts themselves, by `snapshot`, by the data source; and the last 1 % of time, by a filter.
Wall seconds are the action's; CPU seconds are those of the JVM and of all workers.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from benchmarks.cpu import cpu_seconds
from strata.decide.plan import plan_read
from strata.format.columns import D, T
from strata.format.part import Description
from strata.machine.machine import Machine
from strata.model.settings import Settings, SparkSettings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.read.scan import scan
from strata.spark import snapshot, spark_session
from strata.spark.front.catalyst import analyse
from strata.store import keys
from strata.store.open import open_stores
from tests.support.climb import standing

NAME: Final = "ticks"
SPAN: Final = 100 * 86_400_000_000  # microseconds from the first event to the last
START: Final = 1_356_998_400_000_000
LAST: Final = "at >= timestamp'2013-04-10 00:00:00'"  # the last of 100 days
COLUMNS: Final = {
    "at": "timestamptz",
    "host": "string",
    "value": "float64",
    "count": "int64",
    "level": "int32",
    "price": "numeric(12,2)",
    "day": "date",
    "flag": "bool",
    "note": "string",
}


def updates(first: int, rows: int, total: int) -> pa.Table:
    """Return the events numbered `first` and following, of `total`."""
    random = np.random.default_rng(first)
    micros = START + (first + np.arange(rows)) * (SPAN // total)
    names = pa.array([f"host{n:03d}" for n in range(50)])
    words = pa.array([f"word{n:05d}" for n in range(20_000)])
    notes = [words.take(pa.array(random.integers(0, 20_000, rows))) for _ in range(3)]
    prices = pa.array(random.integers(0, 10**7, rows) / 100)
    columns = [
        pa.array(micros, pa.timestamp("us", "UTC")),
        names.take(pa.array(random.integers(0, 50, rows))),
        pa.array(random.random(rows)),
        pa.array(random.integers(0, 10**6, rows)),
        pa.array(random.integers(0, 5, rows).astype(np.int32)),
        prices.cast(pa.decimal128(12, 2)),
        pa.array((micros // 86_400_000_000).astype(np.int32)).cast(pa.date32()),
        pa.array(random.random(rows) < 0.5),
        pc.binary_join_element_wise(*notes, " "),
    ]
    zeros, ones = np.zeros(rows, np.int64), np.ones(rows, np.int64)
    names_of = [*(str(i + 1) for i in range(len(columns))), T, D]
    return pa.table([*columns, pa.array(zeros), pa.array(ones)], names=names_of)


def build(settings: Settings, parts: int, rows: int) -> None:
    """Write a shard of `parts` parts with `rows` events each."""
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    spec = parse_spec({"name": NAME, "columns": columns, "key": ["at", "host"]})
    stores = open_stores(settings.store)
    state = Machine(stores).create(spec)
    written = []
    for number in range(parts):
        written += write_parts(
            stores.blob,
            keys.part_prefix(NAME),
            [updates(number * rows, rows, parts * rows)],
            state.relation,
            layout="structured",
            description=Description(0, 1, MIN_TIME),
            part_bytes=1 << 30,
            row_group_bytes=1 << 20,
            stats_spec=spec.stats,
        )
    batch = write_batch(stores.blob, NAME, written, MIN_TIME, 1, MIN_TIME)
    Machine(stores).append(NAME, token="bench", lower=0, upper=1, batch=batch)
    on = partial(standing, mode="on", percent=0)
    Machine(stores).apply(NAME, on)


@dataclass
class Times:
    """Seconds of one way of reading, a figure a round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, call: Callable[[], Any]) -> None:
        """Run once."""
        cpu, start = cpu_seconds(), time.perf_counter()
        call()
        self.wall.append(time.perf_counter() - start)
        self.cpu.append(cpu_seconds() - cpu)


def compare(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Times]:
    """Return the times of each way after one round that does not count, interleaved; print them."""
    found = {name: Times() for name in ways}
    for call in ways.values():
        call()
    for _ in range(rounds):
        for name, call in ways.items():
            found[name].add(call)
    base = next(iter(found.values()))
    print(f"{'':34} {'wall':>7} {'':17} {'ratio':>6} {'CPU':>7} {'ratio':>6}")
    for name, times in found.items():
        wall, cpu = statistics.median(times.wall), statistics.median(times.cpu)
        print(
            f"{name:34} {wall:7.2f} ({min(times.wall):6.2f} -{max(times.wall):6.2f})"
            f" {wall / statistics.median(base.wall):6.2f} {cpu:7.2f}"
            f" {cpu / statistics.median(base.cpu):6.2f}"
        )
    return found


def sink(frame: DataFrame) -> None:
    """Run a query and throw its rows away."""
    frame.write.format("noop").mode("overwrite").save()


def total(frame: DataFrame, value: str = "value") -> None:
    """Run a query that needs few columns."""
    frame.selectExpr("sum(d) n", f"sum({value}) v").collect()


def run(spark: SparkSession, settings: Settings, config: str, folder: str, rounds: int) -> None:
    """Read in all ways and print."""
    files = f"{folder}/blob/{keys.part_prefix(NAME)}"
    stores = open_stores(settings.store)
    state = Machine(stores).load(NAME)
    plan = plan_read(stores, state)
    source = spark.read.format("strata").options(shard=NAME, config=config)
    narrow = source.schema("value double, d bigint")
    shard = partial(snapshot, spark, NAME, config=settings)
    everything = {
        "spark.read.parquet": lambda: sink(spark.read.parquet(files)),
        "snapshot": lambda: sink(shard()),
        "data source": lambda: sink(
            spark.read.format("strata").options(shard=NAME, config=config).load()
        ),
        "Arrow scan, no Spark": lambda: sum(b.num_rows for b in scan(stores, state, plan)),
    }
    print("everything, rows thrown away")
    compare(everything, rounds)
    print("sums of two columns")
    compare(
        {
            "spark.read.parquet": lambda: total(spark.read.parquet(files), "v_s.`3`"),
            "snapshot": lambda: total(shard(columns=["value"])),
            "data source": lambda: total(narrow.load()),
        },
        rounds,
    )
    print("the last 1 % of time")
    part = plan_read(stores, state, filter=analyse(spark, state.relation, LAST), mode="on")
    holding = plan.bytes_total / 100
    print(
        f"parts {part.parts_fetched} of {part.parts_total}, bytes / bytes that hold it "
        f"{part.bytes_fetched / holding:.3f}"
    )
    compare(
        {
            "snapshot, all": lambda: sink(shard()),
            "snapshot, filter": lambda: sink(shard(where=LAST, pushdown="on")),
            "plan alone": lambda: plan_read(
                stores, state, filter=analyse(spark, state.relation, LAST), mode="on"
            ),
        },
        rounds,
    )


def main() -> None:
    """Build, read, print."""
    given = [int(a) for a in sys.argv[1:]]
    parts, rounds, rows = given + [1000, 5, 6000][len(given) :]
    with tempfile.TemporaryDirectory() as folder:
        store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
        settings = Settings(store)
        start = time.perf_counter()
        build(settings, parts, rows)
        stores = open_stores(store)
        plan = plan_read(stores, Machine(stores).load(NAME))
        print(
            f"{parts * rows} rows, {plan.parts_total} parts, {plan.bytes_total >> 20} MiB, "
            f"built in {time.perf_counter() - start:.0f} s, load {os.getloadavg()[0]:.1f}"
        )
        config = Path(folder) / "strata.toml"
        config.write_text(
            f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n', encoding="utf-8"
        )
        extra = {"spark.ui.enabled": "false"}
        with spark_session("benchmark", SparkSettings(), extra) as spark:
            run(spark, settings, str(config), folder, rounds)
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
