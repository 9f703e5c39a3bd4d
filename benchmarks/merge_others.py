"""The merge by other kernels: what each costs on the same runs, beside the floor and ours.

    make merge-others        # ROWS=1000000

Run in `.venv-benchmarks`, which has DataFusion. The data, the floor and the kernel are those of
`benchmarks/merge.py`. The first four read and write with the floor's reader and writer, so that
they differ in how rows are brought into order only:

    floor         read the files and write their rows again
    kernel        ours: 64-bit words of the keys, then texts by what neighbours share
    sort_indices  each round sorted by Arrow's `sort_indices`, lists as bytes
    scan          each round merged by a compiled scan over the runs' heads, whole keys as bytes
    duckdb        GROUP BY all columns, ORDER BY them, all cores
    datafusion    the same
    polars        the same on its streaming engine

Medians of interleaved rounds, CPU of all threads; all must agree on rows, sum of d and sum of t.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import datafusion
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.merge import (
    SINCE,
    Bench,
    Found,
    Result,
    build,
    counted,
    duck,
    floor,
    kernel,
    sides_of,
)
from strata.format.values.sortable import flat_columns, sortable_bytes
from strata.kernels.arrays import Bools, Bytes, Ints
from strata.kernels.jit import lean
from strata.kernels.merge_words import compare_texts
from strata.updates.order import equal_adjacent, one_chunk

Arranged = tuple[Ints, Bools]
Arrange = Callable[[Sequence[pa.ChunkedArray]], Arranged]


def by_sort_indices(columns: Sequence[pa.ChunkedArray]) -> Arranged:
    """Arrange rows as `strata.updates.arrange` does, by Arrow."""
    flat = [one for column in columns for one in flat_columns(one_chunk(column))]
    names = [str(i) for i in range(len(flat))]
    rows = pa.record_batch(flat, names)
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names])
    equal = equal_adjacent(rows.take(order), names)
    return order.to_numpy().astype(np.int64), np.r_[False, equal]


def by_scan(columns: Sequence[pa.ChunkedArray]) -> Arranged:
    """Arrange rows by one pass over the heads of their runs, comparing whole keys."""
    keys = [sortable_bytes(one_chunk(column)) for column in columns]
    whole = pc.binary_join_element_wise(*keys, b"")
    _, ends, data = whole.buffers()
    offsets = np.frombuffer(ends, np.int32)[whole.offset :][: len(whole) + 1].astype(np.int64)
    order, equal = np.empty(len(whole), np.int64), np.zeros(len(whole), np.bool_)
    starts, heads = np.empty(len(whole) + 1, np.int64), np.empty(len(whole) + 1, np.int64)
    scan(offsets, np.frombuffer(data, np.uint8), starts, heads, order, equal)
    return order, equal


@lean
def scan(offsets: Ints, data: Bytes, starts: Ints, heads: Ints, order: Ints, equal: Bools) -> None:
    """Find the ascending runs of keys, and merge them by the least of their heads."""
    count, runs = len(order), 0
    for i in range(count):
        if i == 0 or compare_texts(offsets, data, 0, i, i - 1) < 0:
            starts[runs], heads[runs] = i, i
            runs += 1
    starts[runs] = count
    for place in range(count):
        least = -1
        for run in range(runs):
            if heads[run] < starts[run + 1] and (
                least < 0 or compare_texts(offsets, data, 0, heads[run], heads[least]) < 0
            ):
                least = run
        order[place] = heads[least]
        heads[least] += 1
        equal[place] = (
            place > 0 and compare_texts(offsets, data, 0, order[place], order[place - 1]) == 0
        )


def ours_with(arrange: Arrange) -> Callable[[Bench], Found]:
    """Return the kernel with another way to bring the rows of a round into order."""

    def merge(bench: Bench) -> Found:
        with mock.patch("strata.updates.arrange.arrange", arrange):
            return kernel(bench)

    return merge


def by_datafusion(bench: Bench) -> Found:
    """Let DataFusion do it in SQL; nested columns cannot be declared as sorted."""
    names = [f"c{i}" for i in range(1, 7)]
    columns = ", ".join(f"{s}['{i}'] AS c{i}" for i, s in enumerate(sides_of(bench), 1))
    keys = ", ".join([*names, "t"])
    context = datafusion.SessionContext(
        datafusion.SessionConfig().with_target_partitions(os.cpu_count() or 1)
    )
    files = [str(file) for run in bench.files for file in run]
    tables = []
    for number, file in enumerate(files):
        context.register_parquet(f"f{number}", file)
        tables.append(f"SELECT {columns}, greatest(t, {SINCE}) AS t, d FROM f{number}")
    rows = context.sql(
        f"SELECT {keys}, total AS d FROM (SELECT {keys}, sum(d) AS total "
        f"FROM ({' UNION ALL '.join(tables)}) GROUP BY {keys}) WHERE total <> 0 ORDER BY {keys}"
    )
    out = bench.out("datafusion")
    out.unlink(missing_ok=True)
    rows.write_parquet(str(out), compression="zstd", compression_level=1)
    return lambda: counted([out])


def by_polars(bench: Bench) -> Found:
    """Let Polars do it, streaming."""
    names = [f"c{i}" for i in range(1, 7)]
    columns = [
        pl.col(side).struct.field(str(i)).alias(f"c{i}")
        for i, side in enumerate(sides_of(bench), 1)
    ]
    files = [file for run in bench.files for file in run]
    rows = pl.scan_parquet(files).select(*columns, pl.col("t").clip(lower_bound=SINCE), "d")
    rows = rows.group_by(*names, "t").agg(pl.col("d").sum()).filter(pl.col("d") != 0)
    rows = rows.sort(*names, "t", nulls_last=True)
    out = bench.out("polars")
    rows.sink_parquet(out, compression="zstd", compression_level=1, engine="streaming")
    return lambda: counted([out])


CONTENDERS: dict[str, Callable[[Bench], Found]] = {
    "floor": floor,
    "kernel": kernel,
    "sort_indices": ours_with(by_sort_indices),
    "scan": ours_with(by_scan),
    "duckdb": duck,
    "datafusion": by_datafusion,
    "polars": by_polars,
}


def main() -> None:
    """Build the data, run the rounds, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    pa.set_cpu_count(1)
    for data in ("plain", "mixed"):
        with tempfile.TemporaryDirectory() as folder:
            bench = build(Path(folder), asked.rows, 8, data == "mixed")
            run(bench, asked.rounds, f"{asked.rows:,} {data} rows in 8 runs")


def run(bench: Bench, rounds: int, title: str) -> None:
    """Time the contenders in turn; one that refuses the data is named and left out."""
    contenders = dict(CONTENDERS)
    results: dict[str, Result] = {}
    for name, contender in CONTENDERS.items():
        try:
            results[name] = contender(bench)()
        except Exception as error:  # each engine has errors of its own
            print(f"{name} refuses: {str(error).splitlines()[0][:120]}")
            del contenders[name]
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            began, used = time.monotonic(), time.process_time()
            contender(bench)
            cpu[name].append(time.process_time() - used)
            wall[name].append(time.monotonic() - began)
    base = statistics.median(cpu["floor"])
    print(f"{title}, {rounds} rounds, load {os.getloadavg()[0]:.0f}")
    for name in contenders:
        used = statistics.median(cpu[name])
        print(
            f"{name:13} wall {statistics.median(wall[name]):6.2f} s  CPU {used:6.2f} s  "
            f"{used / base:5.2f} of the floor"
        )
    merged = {name: result for name, result in results.items() if name != "floor"}
    if len(set(merged.values())) > 1:
        raise SystemExit(f"they do not agree: {merged}")


if __name__ == "__main__":
    main()
