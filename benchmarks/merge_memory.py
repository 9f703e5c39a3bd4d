"""The merge's memory: how much a compaction task takes at its peak, beside what it was allowed.

    python benchmarks/merge_memory.py [CASE …] [--cap-mib 512] [--gib 2]

Each case runs in a process of its own, and so does the making of its data. A case's peak is the
growth of resident memory over a merge of a few rows in the same process, read from the kernel, so
that libraries and compiled code do not count. A peak above the cap ends the program with 1. Cases:

    large       2 GiB of updates in 8 runs
    runs        200 runs that all overlap
    rows        rows of 50 MiB, in 4 runs
    among       rows of 50 MiB among small ones, in 4 runs
    cancel      all retractions stand before all additions, run by run: nothing is left
    repeat      6 runs of a few texts of 900 bytes, which are read as codes, and 2 of random ones
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from strata.compact.run import manifests_of
from strata.compact.tasks import MergeTask, merge_slice, merge_tasks, runs_of
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.state.spine import full_request
from strata.store.keys import part_prefix
from strata.store.open import open_stores
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates
from strata.updates.slices import WHOLE
from strata.updates.warm import warm

MIB = 1024 * 1024
CHUNK = 100_000  # rows made at once
LAST = 1000

Chunks = Iterator[pa.Table]


def rows(relation: Relation, keys: object, payload: list[bytes], t: int, d: int) -> pa.Table:
    """Return updates of the given keys and payloads."""
    count = len(payload)
    return pa.Table.from_arrays(
        [
            pa.array(keys, pa.int64()),
            pa.array(payload, pa.binary()),
            pa.array(np.full(count, t), pa.int64()),
            pa.array(np.full(count, d), pa.int64()),
        ],
        schema=updates_schema(relation),
    )


def random_run(relation: Relation, seed: int, count: int, size: int, t: int) -> Chunks:
    """Yield a run of rows with random payloads, sorted by key, a chunk at a time."""
    chance = np.random.default_rng(seed)
    for start in range(0, count, CHUNK):
        some = min(CHUNK, count - start)
        keys = np.sort(chance.integers(start * 1000, (start + some) * 1000, some))
        data = chance.bytes(some * size)
        payload = [data[i * size : (i + 1) * size] for i in range(some)]
        yield consolidate(sort_updates(rows(relation, keys, payload, t, 1), relation), relation)


def large(relation: Relation, gib: float) -> list[Chunks]:
    """2 GiB in 8 runs, 150 bytes a row."""
    count = int(gib * 1024 * MIB / 8 / 170)
    return [random_run(relation, n, count, 150, n) for n in range(8)]


def runs(relation: Relation, gib: float) -> list[Chunks]:
    """200 runs that all overlap."""
    count = int(gib * 1024 * MIB / 8 / 200 / 170)
    return [random_run(relation, n, count, 150, n) for n in range(200)]


def huge_rows(relation: Relation, _: float) -> list[Chunks]:
    """Rows of 50 MiB: 3 in each of 4 runs."""

    def run(number: int) -> Chunks:
        chance = np.random.default_rng(number)
        for key in range(3):
            yield rows(relation, [key * 4 + number], [chance.bytes(50 * MIB)], 0, 1)

    return [run(number) for number in range(4)]


def among(relation: Relation, gib: float) -> list[Chunks]:
    """Four runs of small rows, and two rows of 50 MiB somewhere in each."""
    count = int(gib * 1024 * MIB / 4 / 170)

    def run(number: int) -> Chunks:
        chance = np.random.default_rng(number)
        for n, table in enumerate(random_run(relation, number, count, 150, number)):
            yield table
            if n < 2:
                key = (n + 1) * CHUNK * 1000 - number - 1  # the last ones of this chunk
                yield rows(relation, [key], [chance.bytes(50 * MIB)], 0, 1)

    return [run(number) for number in range(4)]


def cancelling(relation: Relation, gib: float) -> list[Chunks]:
    """Four runs of retractions, then four of the same additions."""
    count = int(gib * 1024 * MIB / 8 / 170)

    def signed(number: int, diff: int) -> Chunks:
        for table in random_run(relation, number, count, 150, 0):
            yield table.set_column(
                3, table.schema.field(3), pa.array(np.full(table.num_rows, diff), pa.int64())
            )

    return [signed(n % 4, -1 if n < 4 else 1) for n in range(8)]


def repeating(relation: Relation, gib: float) -> list[Chunks]:
    """Six runs with one of 60 texts in each row, and two with texts that never repeat."""
    count = int(gib * 1024 * MIB / 8 / 920)
    texts = [bytes([65 + n]) * 900 for n in range(60)]

    def coded(number: int) -> Chunks:
        chance = np.random.default_rng(number)
        for start in range(0, count, CHUNK):
            some = min(CHUNK, count - start)
            keys = np.sort(chance.integers(start * 1000, (start + some) * 1000, some))
            payload = [texts[i] for i in chance.integers(0, len(texts), some)]
            table = rows(relation, keys, payload, number, 1)
            yield consolidate(sort_updates(table, relation), relation)

    plain = [random_run(relation, n, count, 900, n) for n in range(6, 8)]
    return [*map(coded, range(6)), *plain]


CASES: dict[str, Callable[[Relation, float], list[Chunks]]] = {
    "large": large,
    "runs": runs,
    "rows": huge_rows,
    "among": among,
    "cancel": cancelling,
    "repeat": repeating,
}


def settings_of(folder: Path) -> StoreSettings:
    """Return where the shard is."""
    return StoreSettings(f"file://{folder / 'blob'}", f"sqlite:///{folder}/consensus.db")


def build(folder: Path, case: str, gib: float) -> None:
    """Write the shard of a case."""
    stores = open_stores(settings_of(folder))
    columns = [{"name": "id", "type": "int64"}, {"name": "payload", "type": "bytes"}]
    part_bytes = 32 * MIB
    state = Machine(stores).create(
        parse_spec(
            {
                "name": "bench",
                "columns": columns,
                "key": ["id"],
                "write_format": "structured",
                "part_bytes": part_bytes,
                "row_group_bytes": 8 * MIB,
            }
        )
    )
    parts = [
        part
        for run, chunks in enumerate(CASES[case](state.relation, gib))
        for part in write_parts(
            stores.blob,
            part_prefix("bench"),
            chunks,
            state.relation,
            layout="structured",
            description=Description(0, LAST, MIN_TIME),
            part_bytes=part_bytes,
            row_group_bytes=8 * MIB,
            stats_spec=state.spec.stats,
            run=run,
        )
    ]
    batch = write_batch(stores.blob, "bench", parts, 0, LAST, MIN_TIME)
    Machine(stores).append("bench", token="bench", lower=0, upper=LAST, batch=batch)


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def task_of(folder: Path, cap_bytes: int) -> MergeTask:
    """Return one task for the shard's full compaction, however many it would be cut into."""
    stores = open_stores(settings_of(folder))
    state = replace(Machine(stores).load("bench"), since=LAST - 1)
    request = full_request(state.spine, LAST - 1)
    assert request is not None
    manifests = manifests_of(stores, state, request)
    first = merge_tasks(state, request, manifests, stores.settings, cap_bytes)[0]
    runs = runs_of(manifests[key] for key in request.manifests)
    return replace(first, runs=runs, within=WHOLE, memory_bytes=cap_bytes)


def load_code() -> None:
    """Merge a few rows, in one pass and in two, so that all code is in memory."""
    warm()
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), "large", 0.004)
        for cap_bytes in (1024 * MIB, MIB):
            merge_slice(task_of(Path(folder), cap_bytes))


def compact(folder: Path, cap_bytes: int) -> None:
    """Run the compaction's only task and print its peak; end the process with 1 above the cap."""
    pa.set_cpu_count(1)
    task = task_of(folder, cap_bytes)
    load_code()
    parts = [ref for run in task.runs for ref in run]
    base, peak, done = resident(), 0, False

    def watch() -> None:
        nonlocal peak
        while not done:
            peak = max(peak, resident())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    used = time.process_time()
    written = merge_slice(task).parts
    used = time.process_time() - used
    done = True
    watcher.join()
    print(
        f"{sum(p.size_bytes for p in parts) / MIB:9,.0f} MiB in {len(task.runs):3} runs, "
        f"{sum(p.rows for p in parts):11,} rows -> {sum(p.ref.rows for p in written):11,}; "
        f"cap {cap_bytes / MIB:5,.0f} MiB, peak {(peak - base) / MIB:6,.0f} MiB, CPU {used:5.1f} s",
        flush=True,
    )
    if peak - base > cap_bytes:
        sys.exit(1)


def main() -> int:
    """Build and run each case that was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--cap-mib", type=int, default=512)
    parser.add_argument("--gib", type=float, default=2.0)
    asked = parser.parse_args()
    failed = 0
    fresh = multiprocessing.get_context("spawn")
    for case in asked.cases:
        with tempfile.TemporaryDirectory() as folder:
            for target, args in (
                (build, (Path(folder), case, asked.gib)),
                (compact, (Path(folder), asked.cap_mib * MIB)),
            ):
                if target is compact:
                    print(f"{case:7}", end=" ", flush=True)
                process = fresh.Process(target=target, args=args)
                process.start()
                process.join()
                failed |= process.exitcode or 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
