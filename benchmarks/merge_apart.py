"""Merges whose parts partly stand apart, beside reading and rewriting them: what is kept.

    PYTHONPATH=. python benchmarks/merge_apart.py [SHARE …] [--rows 2000000] [--runs 8] [--rounds 3]

The plain rows of `benchmarks/merge.py`, with no time to move. Of the key space a share is dealt
out to the runs in stretches, so that there no two runs meet; in the rest their rows alternate.
Parts are 1 MiB. The whole compaction is timed: its plan from manifests, every task, and the
manifest of the result. The floor reads the same parts and writes their rows again.

What is kept by reference is neither read nor written: with nothing in common the merge costs what
its manifests do, below the floor.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.merge import LAST, MEMORY, Bench, floor, spec, updates
from strata.compact import manifests_of
from strata.compact.tasks import merge_slice, merge_tasks
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.state.spine import full_request
from strata.store.keys import part_prefix
from strata.store.open import open_stores
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates

PART_BYTES = 1024 * 1024
SHARES = {"none": 0.0, "half": 0.5, "nine tenths": 0.9, "all": 1.0}  # of the keys, apart


@dataclass(frozen=True)
class Merged:
    """What a merge left."""

    rows: int
    parts: int
    kept: int


def owners(rows: int, runs: int, apart: float) -> npt.NDArray[np.int64]:
    """Return the run of each of some sorted rows."""
    alone = int(rows * apart)
    stretches = np.arange(alone) * runs // max(alone, 1)
    mixed = np.random.default_rng(2).integers(0, runs, rows - alone)
    return np.concatenate([stretches, mixed])


def build(folder: Path, rows: int, runs: int, apart: float) -> Bench:
    """Write the shard: one batch of sorted runs."""
    blob = folder / "blob"
    stores = open_stores(StoreSettings(f"file://{blob}", f"sqlite:///{folder}/consensus.db"))
    machine = Machine(stores)
    state = machine.create(replace(spec(False), part_bytes=PART_BYTES))
    relation = state.relation
    table = updates(rows, updates_schema(relation), mixed=False)
    whole = consolidate(sort_updates(table, relation), relation)
    owner = owners(whole.num_rows, runs, apart)
    parts, files = [], []
    for run in range(runs):
        written = write_parts(
            stores.blob,
            part_prefix("bench"),
            [whole.filter(pa.array(owner == run))],
            relation,
            layout="structured",
            description=Description(0, LAST, MIN_TIME),
            part_bytes=PART_BYTES,
            row_group_bytes=state.spec.group_bytes,
            stats_spec=state.spec.stats,
            run=run,
        )
        parts += written
        files.append([blob / part.ref.key for part in written])
    batch = write_batch(stores.blob, "bench", parts, 0, LAST, MIN_TIME)
    machine.append("bench", token="bench", lower=0, upper=LAST, batch=batch)
    state = machine.load("bench")
    request = full_request(state.spine, state.since)
    assert request is not None
    return Bench(stores, state, request, files, folder)


def engine(bench: Bench) -> Merged:
    """Plan and run the merge, and write its manifest; what it wrote is removed again."""
    stores, state, request = bench.stores, bench.state, bench.request
    manifests = manifests_of(stores, state, request)
    cut = merge_tasks(state, request, manifests, stores.settings, MEMORY)
    parts = [part for task in cut for part in merge_slice(task).parts]
    batch = write_batch(stores.blob, "bench", parts, request.lower, request.upper, request.since)
    kept = {ref.ref.key for task in cut for ref in task.kept}
    assert batch.digest == sum(b.digest for b in request.batches) % 2**64
    for key in [batch.manifest, *(p.ref.key for p in parts if p.ref.key not in kept)]:
        if key is not None:
            stores.blob.delete(key)
    return Merged(batch.updates, batch.parts, len(kept))


def timed(contender: Callable[[Bench], object], bench: Bench) -> float:
    """Return the CPU seconds of one round."""
    used = time.process_time()
    contender(bench)
    return time.process_time() - used


def main() -> None:
    """Measure each share, floor and engine in turn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("shares", nargs="*", default=list(SHARES), help=", ".join(SHARES))
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    pa.set_cpu_count(1)
    print(f"{'apart':12} {'parts':>6} {'kept':>6} {'floor s':>8} {'merge s':>8} {'ratio':>6}")
    for name in asked.shares:
        share = SHARES[name]
        with tempfile.TemporaryDirectory() as folder:
            bench = build(Path(folder), asked.rows, asked.runs, share)
            found = engine(bench)
            pairs = [(timed(floor, bench), timed(engine, bench)) for _ in range(asked.rounds)]
            base, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
            given = sum(map(len, bench.files))
        print(
            f"{name:12} {given:6,} {found.kept:6,} {base:8.2f} {ours:8.2f} {ours / base:6.2f}",
            flush=True,
        )
    print(f"{asked.rows:,} rows in {asked.runs} runs, load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
