"""How long a read through Spark takes: analysis of a filter, plan, rows, by way of reading.

Run: python benchmarks/spark_read.py [ROWS]. Builds a shard in a temporary folder, one part an
hour of events, and reads it as a snapshot, through the data source and by the Arrow scan.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from strata.format.columns import D, T
from strata.format.part import Description
from strata.machine import Machine
from strata.model.settings import Settings, SparkSettings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.read import plan_read, scan
from strata.spark import snapshot, spark_session
from strata.spark.catalyst import analyse
from strata.store import keys
from strata.store.open import open_stores
from strata.write import write_batch, write_parts

NAME = "ticks"
WHERE = "date_trunc('day', at) >= timestamp'2013-03-01 00:00:00' and value > 0.5"


def build(settings: Settings, rows: int) -> None:
    """Write `rows` events in time order, in parts of about 2 MiB."""
    columns = [
        {"name": "at", "type": "timestamptz"}, {"name": "host", "type": "string"},
        {"name": "value", "type": "float64"}, {"name": "note", "type": "string"},
    ]  # fmt: skip
    spec = parse_spec({"name": NAME, "columns": columns, "key": ["at", "host"]})
    stores = open_stores(settings.store)
    state = Machine(stores).create(spec)
    micros = 1_356_998_400_000_000 + np.arange(rows) * (90 * 86_400_000_000 // rows)
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "1": pa.array(micros, pa.timestamp("us", "UTC")),
            "2": pa.array([f"host{n % 50:03d}" for n in range(rows)]),
            "3": pa.array(random.random(rows)),
            "4": pa.array([f"note {n} {n * 7919 % 104729}" for n in range(rows)]),
            T: pa.array(np.zeros(rows, np.int64)),
            D: pa.array(np.ones(rows, np.int64)),
        }
    )
    parts = write_parts(
        stores.blob, keys.part_prefix(NAME), [table], state.relation, layout="structured",
        description=Description(0, 1, MIN_TIME), part_bytes=2 << 20, row_group_bytes=1 << 20,
        stats_spec=spec.stats,
    )  # fmt: skip
    batch = write_batch(stores.blob, NAME, parts, MIN_TIME, 1, MIN_TIME)
    Machine(stores).append(NAME, token="bench", lower=0, upper=1, batch=batch)


def timed(what: str, call: Callable[[], Any]) -> None:
    """Print the time of a first and a second call, and what came out."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    print(f"{what:42} {times[0]:8.2f} s {times[1]:8.2f} s   {result}")


def main() -> None:
    """Build, read, print."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
        settings = Settings(store)
        build(settings, rows)
        stores = open_stores(store)
        state = Machine(stores).load(NAME)
        config = Path(folder) / "strata.toml"
        config.write_text(
            f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n', encoding="utf-8"
        )
        plan = plan_read(stores, state)
        print(f"{rows} rows, {plan.parts_total} parts, {plan.bytes_total >> 20} MiB")
        print(f"{'':42} {'first':>10} {'second':>10}")
        timed("scan, Arrow", lambda: sum(b.num_rows for b in scan(stores, state, plan)))
        with spark_session("benchmark", SparkSettings()) as spark:
            source = spark.read.format("strata").options(shard=NAME, config=str(config))
            relation = state.relation
            timed("analyse", lambda: bool(analyse(spark, relation, WHERE)))
            timed("snapshot, all columns", lambda: _sum(snapshot(spark, NAME, config=settings)))
            timed(
                "snapshot, one column",
                lambda: _sum(snapshot(spark, NAME, columns=["value"], config=settings)),
            )
            for pushdown in ("off", "on"):
                timed(
                    f"snapshot, filter, pushdown {pushdown}",
                    lambda p=pushdown: _sum(  # type: ignore[misc]
                        snapshot(spark, NAME, where=WHERE, pushdown=p, config=settings)
                    ),
                )
            timed(
                "snapshot, consolidated",
                lambda: _sum(snapshot(spark, NAME, consolidate=True, config=settings)),
            )
            timed("data source, all columns", lambda: _sum(source.load()))


def _sum(frame: Any) -> int:
    return int(frame.selectExpr("sum(d)", "max(struct(*))").collect()[0][0] or 0)


if __name__ == "__main__":
    main()
