"""What a slow store costs, in round trips: `python -m benchmarks.latency [BATCHES] [PARTS]`.

Each request waits a while before it is answered, as it does on object storage. How much longer an
operation takes when each request waits longer is the number of round trips that follow one upon
another; requests side by side are one. Full reads are timed beside a bare fetch of the same blobs
by as many threads.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from strata.decide.plan import plan_count, plan_read
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.settings import ReadSettings, StoreSettings
from strata.model.spec import ColumnSpec, ShardSpec, StatsSpec
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.parts import unions
from strata.parts.write import write_batch, write_parts
from strata.plain.parse import plain_filter
from strata.read.scan import scan
from strata.state.state import State
from strata.state.transitions import append
from strata.store.interface import Blob, BlobInfo
from strata.store.keys import part_prefix
from strata.store.open import Stores, open_stores
from strata.updates.order import sort_updates

WAITS = (0.01, 0.06)  # seconds a request
SHARD, ROWS = "far", 2_000


class FarBlob:
    """A store whose answers take a while; counts requests."""

    def __init__(self, blob: Blob) -> None:
        """Wrap a store; it answers at once until `wait` is set."""
        self._blob, self.wait, self.requests = blob, 0.0, 0

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Wait, then return what the store has."""
        self.requests += 1
        time.sleep(self.wait)
        return self._blob.get(key, start, length)

    def set(self, key: str, data: bytes) -> None:
        """Store at once."""
        self._blob.set(key, data)

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """Wait, then list."""
        time.sleep(self.wait)
        return self._blob.list(prefix)

    def delete(self, key: str) -> int | None:
        """Delete at once."""
        return self._blob.delete(key)

    def restore(self, key: str) -> None:
        """Restore at once."""
        self._blob.restore(key)

    def draft(self) -> Any:
        """Draft at once."""
        return self._blob.draft()  # type: ignore[attr-defined]


def declared() -> ShardSpec:
    """Return a shard that is sorted by an id; its texts have bloom filters."""
    columns = (("id", "int64"), ("day", "int64"), ("name", "string"), ("value", "float64"))
    return ShardSpec(
        SHARD,
        tuple(ColumnSpec(name, parse_type(kind)) for name, kind in columns),
        ("id",),
        ("id",),
        stats=StatsSpec(blooms=("name",)),
        part_bytes=64 * 1024,
    )


def filled(batches: int, parts: int) -> tuple[Stores, FarBlob, State]:
    """Return a shard of batches that are not merged, each with some parts."""
    near = open_stores(StoreSettings("memory://latency", "memory://latency"))
    machine = Machine(near)
    state = machine.create(declared())
    rng = np.random.default_rng(5)
    for number in range(batches):
        runs = [_part(state.relation, rng, number, one) for one in range(parts)]
        made = [
            part
            for run in runs
            for part in write_parts(
                near.blob,
                part_prefix(SHARD, state.generation),
                [sort_updates(run, state.relation)],
                state.relation,
                layout="both",
                description=Description(number * 10, number * 10 + 10, MIN_TIME),
                part_bytes=1 << 30,
                row_group_bytes=state.spec.group_bytes,
                stats_spec=state.spec.stats,
            )
        ]
        lower, upper = (MIN_TIME if number == 0 else number * 10), number * 10 + 10
        batch = write_batch(near.blob, SHARD, made, lower, upper, MIN_TIME)

        def move(found: State, now_ms: int, batch: Any = batch, n: int = number) -> Any:
            lower, upper = batch.lower, batch.upper
            return append(found, now_ms, token=f"b{n}", lower=lower, upper=upper, batch=batch)

        machine.apply(SHARD, move)
    far = FarBlob(near.blob)
    address = replace(near.settings, blob="s3://bench/far")  # is said to be remote
    return replace(near, blob=far, settings=address), far, machine.load(SHARD)


def _part(relation: Relation, rng: np.random.Generator, batch: int, part: int) -> pa.Table:
    ids = np.sort(rng.integers(part * 10**6, (part + 1) * 10**6, ROWS))
    fields: list[Any] = [
        ids,
        np.full(ROWS, batch),
        [f"n{number:08d}" for number in rng.integers(0, 10**8, ROWS)],
        rng.random(ROWS),
    ]
    schema = updates_schema(relation)
    times = [np.full(ROWS, batch * 10 + 1), np.ones(ROWS, np.int64)]
    arrays = [pa.array(v).cast(f.type) for v, f in zip([*fields, *times], schema, strict=True)]
    return pa.table(arrays, schema=schema)


def trips(far: FarBlob, run: Callable[[], object], rounds: int) -> tuple[float, float, int]:
    """Return round trips, seconds at no wait, and requests of an operation; medians."""
    seconds: list[list[float]] = [[], []]
    requests = 0
    for _ in range(rounds):
        for wait, found in zip(WAITS, seconds, strict=True):
            unions._KNOWN.clear()  # as in a new process
            far.wait, far.requests = wait, 0
            began = time.perf_counter()
            run()
            found.append(time.perf_counter() - began)
            requests = far.requests
    low, high = (statistics.median(found) for found in seconds)
    slope = (high - low) / (WAITS[1] - WAITS[0])
    return slope, low - slope * WAITS[0], requests


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("batches", nargs="?", type=int, default=25)
    parser.add_argument("parts", nargs="?", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    stores, far, state = filled(args.batches, args.parts)
    name = _some_name(stores, state)
    filters = {
        "no filter": None,
        "a day": f"day = {args.batches // 2}",
        "an id": "id = 1234567",
        "a name": f"name = '{name}'",
    }

    def planned(where: str | None) -> Callable[[], object]:
        filter = None if where is None else plain_filter(state.relation, where)
        return lambda: plan_read(stores, state, filter=filter, mode="on")

    work: dict[str, Callable[[], object]] = {f"plan, {n}": planned(w) for n, w in filters.items()}
    day = plain_filter(state.relation, "day > 3")
    work["plan of a count"] = lambda: plan_count(stores, state, filter=day, mode="on")
    plan = plan_read(stores, state, mode="on")
    keys = [ref.key for run in plan.runs for ref in run.parts]
    settings = ReadSettings()
    work["read everything"] = lambda: _drained(scan(stores, state, plan, settings=settings))
    few = ["day"]
    work["read one column"] = lambda: _drained(
        scan(stores, state, plan, settings=settings, columns=few)
    )
    work["bare fetch"] = lambda: _fetched(far, keys, settings.fetchers)
    sys.stdout.write(f"{'':22}{'round trips':>12}{'requests':>10}{'seconds beside':>16}\n")
    for what, run in work.items():
        slope, rest, requests = trips(far, run, args.rounds)
        sys.stdout.write(f"{what:22}{slope:>12.1f}{requests:>10}{rest:>16.3f}\n")


def _some_name(stores: Stores, state: State) -> str:
    rows = scan(stores, state, plan_read(stores, state, as_of=5), columns=["name"])
    return str(next(iter(rows)).column("name")[7].as_py())


def _drained(batches: Iterator[pa.RecordBatch]) -> None:
    for _ in batches:
        pass


def _fetched(far: FarBlob, keys: list[str], threads: int) -> None:
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(far.get, keys))


if __name__ == "__main__":
    main()
