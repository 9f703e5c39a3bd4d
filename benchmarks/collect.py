"""What a sweep of a large shard's garbage costs: `python -m benchmarks.collect [PARTS ...]`.

The synthetic shards of `benchmarks.metadata`, and besides the parts that the state names a tenth
as many that nobody names any more. The listing is invented, as a store would give it: in key order,
a blob after the other. Only metadata is at work; deletes are counted, and not done. CPU time of
all threads, in seconds, and the memory that the sweep needs on top, as `tracemalloc` counts it in
a second run, and the peak of the process.
"""

import argparse
import resource
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from heapq import merge
from operator import attrgetter

import numpy as np

from benchmarks.metadata import SHARD, build
from strata import gc
from strata.machine.machine import Machine
from strata.model.settings import GcSettings, Settings, StoreSettings
from strata.parts.manifests import load_manifest_of
from strata.state.generations import begin_sweep
from strata.store.interface import BlobInfo
from strata.store.keys import shard_prefix
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import Stores

HOUR_MS, PART_BYTES = 3_600_000, 128 << 20


class Listed(MemoryBlob):
    """A store that lists parts which it does not hold, and forgets what is deleted."""

    def __init__(self) -> None:
        """Start with no such part."""
        super().__init__()
        self.parts: np.ndarray = np.array([], "S")
        self.deleted_parts = 0

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """Yield what is stored and what is invented, in key order."""
        parts = f"{shard_prefix(SHARD)}parts/"
        return merge(super().list(prefix), self._invented(prefix, parts), key=attrgetter("key"))

    def _invented(self, prefix: str, parts: str) -> Iterator[BlobInfo]:
        if not parts.startswith(prefix):
            return
        for start in range(0, len(self.parts), 1000):  # a page of a bucket's listing
            for key in self.parts[start : start + 1000].tolist():
                yield BlobInfo(key.decode(), PART_BYTES, 0)

    def delete(self, key: str) -> int | None:
        """Count it."""
        self.deleted_parts += 1
        return PART_BYTES


def large(parts: int) -> tuple[Stores, Listed, list[int]]:
    """Return a shard with `parts` live parts and a tenth as many dead ones, and its clock."""
    blob, clock = Listed(), [1_000_000_000_000]
    stores = Stores(blob, MemoryConsensus(), lambda: clock[0], StoreSettings())
    build(stores, parts)
    state = Machine(stores).load(SHARD)
    named = [
        np.array(load_manifest_of(blob, SHARD, batch, ["key"])["key"].to_pylist(), "S")
        for batch in state.batches
        if batch.manifest is not None
    ]
    hashes = np.random.default_rng(99).bytes(20 * (parts // 10)).hex()
    dead = [
        f"{shard_prefix(SHARD)}parts/{hashes[40 * i : 40 * i + 40]}.parquet"
        for i in range(parts // 10)
    ]
    blob.parts = np.sort(np.concatenate([*named, np.array(dead, "S")]))
    for _ in range(2):
        clock[0] += HOUR_MS
        Machine(stores).apply(SHARD, partial(begin_sweep, grace_ms=HOUR_MS))
    return stores, blob, clock


def measure(parts: int) -> None:
    """Print the figures of one shard."""
    stores, blob, _ = large(parts)
    settings = replace(Settings(), gc=GcSettings(grace_ms=HOUR_MS))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall, cpu = time.perf_counter(), time.process_time()
    report = gc.plan(stores, SHARD, settings)
    planned = time.process_time() - cpu, time.perf_counter() - wall
    assert len(report.dead) == parts // 10
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall, cpu = time.perf_counter(), time.process_time()
    done = gc.collect(stores, SHARD, settings)
    collected = time.process_time() - cpu, time.perf_counter() - wall
    assert done.deleted == blob.deleted_parts == parts // 10
    del report, done
    tracemalloc.start()
    gc.plan(stores, SHARD, settings)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(f"{parts:>9}  plan, s                {planned[0]:>8.2f} ({planned[1]:.2f})")
    print(f"{parts:>9}  collect, s             {collected[0]:>8.2f} ({collected[1]:.2f})")
    print(f"{parts:>9}  memory of a plan, MiB  {peak:>8.1f}")
    print(f"{parts:>9}  peak of process, MiB   {after:>8.0f} (before: {before:.0f})")


def main() -> None:
    """Print the table: CPU seconds, wall seconds behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", type=int, default=[10_000, 100_000, 1_000_000])
    for parts in parser.parse_args().parts:
        measure(parts)


if __name__ == "__main__":
    main()
