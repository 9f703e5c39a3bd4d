"""One key's row out of a thousand parts, end to end: `python -m benchmarks.point [LOOKUPS]`.

Ten batches of a hundred parts hold ids in any order: one part of each batch may have a key.
Each look-up is of another key that is there, in a warm program and a warm Spark session:
A B C D, A B C D. The peers read the same rows from Parquet files, one a batch, which are
sorted by id and have row groups as small as the parts.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import strata
from strata.format.columns import D, T
from strata.format.part import Description
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.spark import snapshot, spark_session
from strata.store import keys
from strata.store.open import open_stores
from tests.support.climb import standing

NAME: Final = "people"
BATCHES, PARTS, ROWS = 10, 100, 5000  # parts of a batch, rows of a part
WARM: Final = 2  # look-ups that do not count
NO_PAGES: Final = {"spark.ui.enabled": "false"}
COLUMNS: Final = {"id": "int64", "name": "string", "value": "float64"}


def build(settings: Settings, files: str) -> np.ndarray[Any, Any]:
    """Write the shard and the peers' files; return all ids."""
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    spec = parse_spec({"name": NAME, "columns": columns, "key": ["id"]})
    stores = open_stores(settings.store)
    state = Machine(stores).create(spec)
    ids = np.random.default_rng(1).choice(1 << 40, BATCHES * PARTS * ROWS, replace=False)
    for number, some in enumerate(np.sort(ids.reshape(BATCHES, -1), axis=1)):
        names = pa.array(np.char.add("name ", (some % 9973).astype(str)))
        table = pa.table([pa.array(some), names, pa.array(some / 7)], names=list(COLUMNS))
        pq.write_table(table, f"{files}/{number}.parquet", row_group_size=ROWS)
        t, d = np.full(len(some), number), np.ones(len(some), np.int64)
        updates = pa.table([*table.columns, t, d], names=["1", "2", "3", T, D])
        written = []
        for run in range(PARTS):
            written += write_parts(
                stores.blob,
                keys.part_prefix(NAME),
                [updates.slice(run * ROWS, ROWS)],
                state.relation,
                layout="both",
                description=Description(number, number + 1, MIN_TIME),
                part_bytes=1 << 30,
                row_group_bytes=1 << 20,
                stats_spec=spec.stats,
            )
        batch = write_batch(stores.blob, NAME, written, number, number + 1, MIN_TIME)
        token = f"batch {number}"
        Machine(stores).append(NAME, token=token, lower=number, upper=number + 1, batch=batch)
    Machine(stores).apply(NAME, partial(standing, mode="on", percent=0))
    return ids


def ways(
    spark: SparkSession, settings: Settings, files: str
) -> dict[str, Callable[[int], list[Any]]]:
    """Return how a key's rows may be found."""
    shard = strata.open(settings)[NAME]

    def plain(key: int) -> list[Any]:
        return [row for batch in shard.scan(where=f"id = {key}") for row in batch.to_pylist()]

    def engine(key: int) -> list[Any]:
        frame = snapshot(spark, NAME, config=settings, where=f"id = {key}")
        return list(frame.collect())

    def arrow(key: int) -> list[Any]:
        there = pads.dataset(files)  # made anew, as a shard's newest state is read anew
        return list(there.to_table(filter=pads.field("id") == key).to_pylist())

    def parquet(key: int) -> list[Any]:
        return list(spark.read.parquet(files).where(f"id = {key}").collect())

    return {
        "strata": plain,
        "strata in Spark": engine,
        "pyarrow.dataset": arrow,
        "spark.read.parquet": parquet,
    }


def in_turn(
    ways: dict[str, Callable[[int], list[Any]]], asked: np.ndarray[Any, Any]
) -> dict[str, list[float]]:
    """Return how many milliseconds each way took for each key, but for the first ones."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number, key in enumerate(asked):
        for name, look in ways.items():
            began = time.perf_counter()
            rows = look(int(key))
            if number >= WARM:
                took[name].append(1000 * (time.perf_counter() - began))
            if len(rows) != 1:
                raise SystemExit(f"{name} finds {len(rows)} rows of {key}")
    return took


def main() -> None:
    """Build, look up in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lookups", type=int, nargs="?", default=40)
    lookups = parser.parse_args().lookups
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as files:
        store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
        settings = Settings(store=store)
        ids = build(settings, files)
        asked = np.random.default_rng(2).choice(ids, lookups + WARM)
        with spark_session("point look-ups", settings.spark, NO_PAGES) as spark:
            took = in_turn(ways(spark, settings, files), asked)
    for name, times in took.items():
        spread = f"{min(times):.0f} to {max(times):.0f}"
        sys.stdout.write(f"{name}: {statistics.median(times):.0f} ms ({spread})\n")


if __name__ == "__main__":
    main()
