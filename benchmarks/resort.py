"""A merge into another sort order, in one pass and in two: `python -m benchmarks.resort`.

    python -m benchmarks.resort [--rows 10000000] [--rounds 3]

The plain rows of `benchmarks.merge`, in 8 runs, have to be sorted by their second column. In one
pass a single task reads all of them; in two (`strata.compact.rewrite`) each task sorts some parts,
and tasks merge slices of what they write. Each round begins with a copy of the same store. Both run
as tasks of Spark, in turn; the parts of both hold the same rows. CPU is that of all processes.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

from benchmarks.cpu import cpu_seconds
from benchmarks.merge import build, session
from strata.compact import compact_shard, rewrite
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.spark.runner import spark_runner
from strata.state.schema import SortBy
from strata.store.open import open_stores


def once(source: Path, two: bool) -> tuple[float, float, tuple[int, int, int]]:
    """Return seconds and CPU seconds of a merge of a copy, and tasks, rows and digest."""
    with tempfile.TemporaryDirectory(prefix="strata-resort-") as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        stores = open_stores(
            StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
        )
        began, used = time.perf_counter(), cpu_seconds()
        with nullcontext() if two else mock.patch.object(rewrite, "_to_rewrite", return_value=[]):
            report = compact_shard(stores, "bench", Settings(), spark_runner(session()), full=True)
        took = time.perf_counter() - began, cpu_seconds() - used
        (batch,) = (b for b in Machine(stores).load("bench").batches if b.manifest)
        assert len(batch.runs) == 1
        tasks = sum(request.tasks for request in report.requests)
        return *took, (tasks, batch.updates, batch.digest)


def main() -> None:
    """Print medians of both, and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="strata-resort-") as folder:
        bench = build(Path(folder), asked.rows, 8)
        Machine(bench.stores).evolve("bench", SortBy(("hex",)))
        size = sum(batch.size_bytes for batch in bench.state.batches)
        session().range(1).collect()
        took: dict[str, list[tuple[float, float]]] = {"one pass": [], "two passes": []}
        found = {}
        for _ in range(asked.rounds):
            for name, times in took.items():
                wall, cpu, found[name] = once(Path(folder), name == "two passes")
                times.append((wall, cpu))
        assert len({rows[1:] for rows in found.values()}) == 1
    sys.stdout.write(f"{asked.rows:,} rows, {size / 2**20:.0f} MiB\n")
    medians = {
        name: [statistics.median(one[i] for one in times) for i in (0, 1)]
        for name, times in took.items()
    }
    for name, (wall, cpu) in medians.items():
        sys.stdout.write(f"{name:12} {found[name][0]:4} tasks {wall:7.1f} s {cpu:7.1f} CPU s\n")
    one, two = medians.values()
    sys.stdout.write(f"one pass beside two: {one[0] / two[0]:.2f} s, {one[1] / two[1]:.2f} CPU s\n")


if __name__ == "__main__":
    main()
