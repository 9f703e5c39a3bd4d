"""What consolidation on read costs and gives: benchmarks/consolidated_read.py [--spark].

A shard of batches that overlap in their keys; each takes back a part of what the one before it
wrote. It is read as stored, as a plain scan (equal neighbours of a part add up) and consolidated,
before and after compaction, whole and with a filter on the key. CPU seconds of all threads, medians
of interleaved rounds; the first rows; the most Arrow bytes seen held when a batch is given out.

With `--spark` the same through Spark, beside Spark's own way: the plain snapshot, and `groupBy` of
all columns with `sum(d)`. CPU seconds of this process, the JVM and its workers, wall ones behind;
the first row is `limit(1)`; memory is the highest resident size of a Python worker, and of the JVM,
since the read began (Linux).
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.cpu import cpu_seconds
from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.columns import D, T
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.settings import Settings, SparkSettings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.read.scan import scan
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores, open_stores
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates

SPEC = parse_spec(
    {
        "name": "rows",
        "columns": [
            {"name": "id", "type": "int64"},
            {"name": "host", "type": "string"},
            {"name": "value", "type": "float64"},
        ],
        "key": ["id"],
    }
)
TAKEN_BACK = 0.4  # of the rows of the batch before
GROUPED = "groupBy sum(d)"


def updates(number: int, rows: int, before: pa.Table | None) -> pa.Table:
    """Return the updates of one batch: new rows, and some of `before` with the diff -1."""
    random = np.random.default_rng(number)
    ids = random.integers(0, 4 * rows, rows)
    hosts = pa.array([f"host{n:03d}" for n in range(200)])
    ones = np.ones(rows, np.int64)
    new = pa.table(
        {
            "1": pa.array(ids),
            "2": hosts.take(pa.array(random.integers(0, 200, rows))),
            "3": pa.array(random.random(rows)),
            T: pa.array(number * ones),
            D: pa.array(ones),
        }
    )
    if before is None:
        return new
    kept = before.filter(pa.array(before[D].to_numpy() > 0))
    gone = kept.slice(0, int(TAKEN_BACK * kept.num_rows))
    back = gone.set_column(3, T, pa.array(number * np.ones(len(gone), np.int64)))
    back = back.set_column(4, D, pa.array(-np.ones(len(gone), np.int64)))
    return pa.concat_tables([new, back])


def build(stores: Stores, batches: int, rows: int) -> None:
    """Write the shard."""
    state = Machine(stores).create(SPEC)
    before: pa.Table | None = None
    for number in range(batches):
        before = updates(number, rows, before)
        run = consolidate(sort_updates(before, state.relation), state.relation)
        parts = write_parts(
            stores.blob,
            keys.part_prefix("rows"),
            [run],
            state.relation,
            layout="structured",
            description=Description(number, number + 1, MIN_TIME),
            part_bytes=4 << 20,
            row_group_bytes=1 << 20,
            stats_spec=SPEC.stats,
        )
        batch = write_batch(stores.blob, "rows", parts, number, number + 1, MIN_TIME)
        Machine(stores).append(
            "rows", token=str(number), lower=number, upper=number + 1, batch=batch
        )


@dataclass
class Figures:
    """What one way of reading cost and gave."""

    rows: int
    cpu: float
    first: float  # CPU seconds until the first rows came
    held: int


def measure(batches: Iterator[pa.RecordBatch]) -> Figures:
    """Read everything once."""
    rows, held, first = 0, 0, 0.0
    start, base = time.process_time(), pa.total_allocated_bytes()
    for batch in batches:
        first = first or time.process_time() - start
        rows += batch.num_rows
        held = max(held, pa.total_allocated_bytes() - base)
    return Figures(rows, time.process_time() - start, first, held)


def compare(title: str, stores: Stores, state: State, plan: ReadPlan, rounds: int) -> None:
    """Read in both ways, in turn, and print."""
    found: dict[bool, list[Figures]] = {False: [], True: []}
    for _ in range(rounds + 1):
        for full, figures in found.items():
            figures.append(measure(scan(stores, state, plan, consolidate=full)))
    stored = sum(ref.rows for ref in plan.fetched)
    print(f"{title}: {stored:,} updates in {plan.parts_fetched} parts, {len(plan.runs)} runs")
    for full, figures in found.items():
        cpu, first = (
            statistics.median(f) for f in zip(*((f.cpu, f.first) for f in figures[1:]), strict=True)
        )
        held = max(f.held for f in figures[1:]) / 2**20
        name = "consolidated" if full else "plain"
        print(
            f"  {name:13} {figures[-1].rows:>10,} rows  CPU {cpu:6.2f} s  first rows {first:6.3f} s"
            f"  held {held:6.1f} MiB"
        )


def compare_in_spark(settings: Settings, rounds: int) -> None:
    """Read through Spark in three ways, in turn, as ingested and compacted, and print."""
    from pyspark.sql import functions as fn

    from strata.spark import snapshot, spark_session

    stores = open_stores(settings.store)
    with spark_session("consolidated reads", SparkSettings(master="local[2]")) as spark:
        for step in ("as ingested", "compacted"):
            if step == "compacted":
                compact_shard(stores, "rows", settings, full=True)
            plain = snapshot(spark, "rows", config=settings)
            names = [name for name in plain.columns if name != "d"]
            frames = {
                "plain": plain,
                "consolidated": snapshot(spark, "rows", consolidate=True, config=settings),
                GROUPED: plain.groupBy(*names).agg(fn.sum("d").alias("d")).where("d <> 0"),
            }
            emitted = {name: frame.count() for name, frame in frames.items()}
            found: dict[str, list[InSpark]] = {name: [] for name in frames}
            for turn in range(rounds + 1):  # the first one warms up
                for name, frame in frames.items():
                    found[name].append(in_spark(frame))
                    print(f"{step}, {name}, round {turn}: {found[name][-1]}", file=sys.stderr)
            for name, taken in found.items():
                print_in_spark(f"{step}: {name}", emitted[name], taken[1:])
            wall = {
                name: statistics.median(t.wall for t in taken[1:]) for name, taken in found.items()
            }
            print(
                f"{step}: groupBy / consolidated: wall {wall[GROUPED] / wall['consolidated']:.2f}"
            )


@dataclass
class InSpark:
    """What one read through Spark took; CPU and wall seconds, of all rows and of the first."""

    cpu: float
    wall: float
    first_cpu: float
    first_wall: float
    worker: int
    jvm: int


def in_spark(frame: Any) -> InSpark:
    """Read all rows, then the first one."""
    forget_peaks()
    cpu, wall = cpu_seconds(), time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    cpu, wall = cpu_seconds() - cpu, time.monotonic() - wall
    worker, jvm = peaks()
    first_cpu, first_wall = cpu_seconds(), time.monotonic()
    frame.limit(1).collect()
    return InSpark(cpu, wall, cpu_seconds() - first_cpu, time.monotonic() - first_wall, worker, jvm)


def print_in_spark(title: str, rows: int, taken: list[InSpark]) -> None:
    """Print medians, and the highest memory."""
    cpu, wall, first_cpu, first_wall = (
        statistics.median(getattr(one, name) for one in taken)
        for name in ("cpu", "wall", "first_cpu", "first_wall")
    )
    worker, jvm = (max(getattr(one, n) for one in taken) / 2**20 for n in ("worker", "jvm"))
    print(
        f"{title:30} {rows:>10,} rows  CPU {cpu:6.2f} s ({wall:.1f})  first row {first_cpu:6.2f} s"
        f" ({first_wall:.1f})  worker {worker:5.0f} MiB  JVM {jvm:5.0f} MiB",
        flush=True,
    )


def below() -> Iterator[psutil.Process]:
    """Yield the JVM and its Python workers."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, OSError):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def forget_peaks() -> None:
    """Let the highest resident sizes begin anew (Linux)."""
    for process in below():
        with suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def peaks() -> tuple[int, int]:
    """Return the highest resident size of a Python worker, and of the JVM, in bytes (Linux)."""
    worker, jvm = 0, 0
    for process in below():
        with suppress(psutil.NoSuchProcess, OSError):
            text = Path(f"/proc/{process.pid}/status").read_text()
            peak = int(text.partition("VmHWM:")[2].split()[0]) << 10
            if process.name().startswith("java"):
                jvm = max(jvm, peak)
            else:
                worker = max(worker, peak)
    return worker, jvm


def main() -> None:
    """Build, read, compact, read again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--rows", type=int, default=250_000, help="new ones of a batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark", action="store_true", help="through Spark, beside groupBy")
    options = parser.parse_args()
    if options.spark:
        with tempfile.TemporaryDirectory() as folder:
            store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
            build(open_stores(store), options.batches, options.rows)
            compare_in_spark(Settings(store), options.rounds)
        print(f"load {os.getloadavg()[0]:.1f}")
        return
    settings = Settings(StoreSettings("memory://consolidated", "memory://consolidated"))
    stores = open_stores(settings.store)
    build(stores, options.batches, options.rows)
    last = Literal(int(3.96 * options.rows), "long")
    filter = Filter(
        Call("greater_than_or_equal", (Column(1, "id", "long", True), last), "boolean"), "", 0, 0
    )
    for step in ("as ingested", "compacted"):
        if step == "compacted":
            compact_shard(stores, "rows", settings, full=True)
        state = Machine(stores).load("rows")
        compare(step, stores, state, plan_read(stores, state), options.rounds)
        few = plan_read(stores, state, filter=filter, mode="on")
        compare(f"{step}, the last 1 % of keys", stores, state, few, options.rounds)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
