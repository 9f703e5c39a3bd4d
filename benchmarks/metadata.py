"""What the metadata of a large shard costs: `python -m benchmarks.metadata [PARTS ...]`.

Synthetic shards: a spine of batches, each half as large as the one before
or of a million parts, whose manifests name
parts that do not exist, with the statistics of `benchmarks.prune`. Times are CPU time of all
threads, medians, in milliseconds: a commit is load, transition, encode and compare-and-set of an
append of one part, without its blobs; a plan is of a fresh process's first look (the manifests come
from the local folder's page cache), then again. Peak memory is of the whole process.
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.prune import NOW_US, RELATION, filters, statistics_of
from strata.compact.plan import plan as plan_compaction
from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.format.manifest import PartRef, manifest_table
from strata.machine.machine import Machine
from strata.model.settings import CompactSettings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.pages import PageTarget
from strata.shard import describe
from strata.state.codec import encode_state
from strata.state.state import Batch, RunSummary, State
from strata.store.keys import BlobKind, parse_key, state_key
from strata.store.open import Stores, open_stores

SHARD, ROWS, BYTES = "large", 10_000, 128 << 20
SPEC = parse_spec(
    {
        "name": SHARD,
        "columns": [{"name": c.name, "type": str(c.type)} for c in RELATION.columns],
        "key": ["ts"],
    }
)
ORDER = tuple(range(1, len(RELATION.columns) + 1))
BATCH_PARTS = 1_000_000  # at most: a batch is built in memory


def manifest_of(parts: int, seed: int) -> pa.Table:
    """Return a manifest of one run with invented parts."""
    numbers = range(parts)
    model = PartRef("", BYTES, ROWS, 0, "structured", 0, ORDER, 0, 9, ROWS, 7, False, b"", b"")
    table = manifest_table([model]).take(pa.array(np.zeros(parts, np.int64)))
    hashes = np.random.default_rng(seed).bytes(20 * parts).hex()
    keys = [f"shards/{SHARD}/parts/{hashes[40 * i : 40 * i + 40]}.parquet" for i in numbers]
    bounds = [i.to_bytes(9) for i in range(parts + 1)]
    columns = {
        "key": pa.array(keys),
        "key_low": pa.array(bounds[:-1]),
        "key_high": pa.array(bounds[1:]),
        "stats_version": pa.array(np.ones(parts, np.int32)),
        "stats_bytes": pa.array(np.full(parts, 900, np.int64)),
    }
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), values)
    stats = statistics_of(parts, seed)
    for name in stats.column_names:
        if name != "rows":
            table = table.append_column(name, exact(stats[name].combine_chunks()))
    return table


def exact(column: pa.StructArray) -> pa.StructArray:
    """Return the column with its bounds said to be exact, as collected ones say."""
    names, values = [f.name for f in column.type], column.flatten()
    flags = (
        ("low", "low_exact"),
        ("high", "high_exact"),
        ("num_low", "num_exact"),
        ("str_low", "str_exact"),
    )
    for low, flag in flags:
        if low in names:
            names.append(flag)
            values.append(pa.array(np.ones(len(column), bool)))
    return pa.StructArray.from_arrays(values, names)


def batch_of(stores: Stores, parts: int, lower: int, upper: int, seed: int) -> Batch:
    """Store a batch of invented parts."""
    manifest = manifest_of(parts, seed)
    for name, time_of_all in (("t_low", lower), ("t_high", upper - 1)):
        at = manifest.schema.get_field_index(name)
        times = pa.array(np.full(parts, time_of_all, np.int64))
        manifest = manifest.set_column(at, manifest.schema.field(at), times)
    key, rows = PageTarget(stores.blob, SHARD, 0).put(manifest)
    sink = pa.BufferOutputStream()
    if rows is not None:
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
    return Batch(
        lower, upper, MIN_TIME, parts * ROWS, parts * BYTES, parts,
        (RunSummary(parts, parts * ROWS, parts * BYTES, ORDER),), key, (("structured", parts),),
        parts, 900 * parts, sink.getvalue().to_pybytes() if rows is not None else None,
        parts * ROWS, 7 * parts % 2**64,
    )  # fmt: skip


def build(stores: Stores, parts: int) -> int:
    """Fill a shard with `parts` parts; return the bytes of its manifests."""
    machine = Machine(stores)
    machine.create(SPEC)
    at, left = 0, parts
    while left:
        some = min(max(left // 2, 1), BATCH_PARTS)
        batch = batch_of(stores, some, at, at + 10, at)
        machine.append(SHARD, token=f"t{at}", lower=at, upper=at + 10, batch=batch)
        at, left = at + 10, left - some
    for number in range(128):  # as many commits as a state remembers
        low = at + number
        machine.append(SHARD, token=f"{number:032}", lower=low, upper=low + 1)
    kinds = (BlobKind.MANIFEST, BlobKind.PAGE)
    return sum(i.size_bytes for i in stores.blob.list("") if parse_key(i.key).kind in kinds)


def timed(work: Callable[[], Any], runs: int) -> str:
    """Return the median of the CPU time, and of the wall time, of `work`."""
    times = []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = (statistics.median(t) * 1e3 for t in zip(*times, strict=True))
    return f"{cpu:>9.1f} ({wall:.1f})"


class Commits:
    """Appends of one part each, one behind the other."""

    def __init__(self, stores: Stores) -> None:
        """Prepare the batch, which is not what is measured."""
        self.machine, self.at = Machine(stores), Machine(stores).load(SHARD).upper
        self.batch = batch_of(stores, 1, self.at, self.at + 1, 1)

    def __call__(self) -> None:
        """Commit one."""
        low = self.at
        new = replace(self.batch, lower=low, upper=low + 1, manifest=f"shards/{SHARD}/m/{low}")
        self.machine.append(SHARD, token=f"c{low}", lower=low, upper=low + 1, batch=new)
        self.at += 1


def measure(stores: Stores, parts: int, runs: int, everything: int) -> None:
    """Print the figures of one shard."""
    manifests = build(stores, parts)
    state = Machine(stores).load(SHARD)
    keep_few = Filter(filters()["three leaves"], "", NOW_US, NOW_US)
    filtered = partial(plan_read, stores, state, filter=keep_few, mode="on")
    first = timed(filtered, 1)
    plan = filtered()
    rows = {
        "state, KiB": f"{len(encode_state(state)) / 1024:>9.1f}",
        "batches": f"{len(state.batches):>9}",
        "manifests, MiB": f"{manifests / 2**20:>9.1f}",
        "bytes a part": f"{manifests / parts:>9.1f}",
        "parts kept by the filter": f"{plan.parts_fetched:>9}",
        "plan a filtered read, first": first,
        "plan a filtered read, again": timed(filtered, runs),
        "plan a read of everything": "skipped"
        if parts > everything
        else timed(partial(plan_read, stores, state), 1),
        "plan a compaction": timed(partial(plan_compaction, state, CompactSettings()), runs),
        "inspect": timed(lambda: describe(_fresh(stores)), runs),
        "commit": timed(Commits(stores), 5 * runs),
        "peak memory, MiB": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:>9.0f}",
    }
    for name, figure in rows.items():
        print(f"{parts:>9}  {name:28} {figure}", flush=True)


def _fresh(stores: Stores) -> State:
    assert stores.consensus.head(state_key(SHARD)) is not None
    return Machine(stores).load(SHARD)


def main() -> None:
    """Print the table: CPU milliseconds, wall milliseconds behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--everything", type=int, default=100_000, help="parts to plan without a filter"
    )
    parser.add_argument("--consensus", help="address; default: SQLite in a temporary folder")
    options = parser.parse_args()
    for parts in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            consensus = options.consensus or f"sqlite:///{folder}/consensus.db"
            stores = open_stores(StoreSettings(f"file://{folder}/blob", consensus))
            measure(stores, parts, options.runs, options.everything)


if __name__ == "__main__":
    main()
