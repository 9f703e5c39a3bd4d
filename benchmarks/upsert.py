"""What an upsert of 1 % of the keys of a large, compacted shard reads, and what it takes.

    python -m benchmarks.upsert [--rows 50000000] [--folder DIR]

The shard is written as compaction would leave it: one sorted run of parts of the default size, 40
bytes a row before encoding. Each upsert then goes through ingest: a Parquet file of whole rows
(every tenth is a tombstone) for keys in one cluster, in ten, or spread evenly, each on a process of
its own. Counted are the bytes that the store gave, of data and manifests.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.runner import threads
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import WrittenPart, write_batch, write_parts
from strata.store.interface import Blob, BlobInfo
from strata.store.keys import part_prefix
from strata.store.open import open_stores

SPEC: Final = parse_spec(
    {
        "name": "orders",
        "columns": [
            {"name": "id", "type": "int64", "nullable": False},
            {"name": "customer", "type": "int64"},
            {"name": "status", "type": "string"},
            {"name": "total", "type": "decimal(12,2)"},
            {"name": "placed", "type": "date"},
        ],
        "key": ["id"],
        "source": {
            "format": "parquet",
            "envelope": "upsert",
            "deleted_column": "gone",
            "verify": "never",
        },
        "write_format": "structured",
    }
)
CHUNK: Final = 250_000  # rows made at once
SLICES: Final = 8  # of the shard, written two at a time
SHAPES: Final = ("one cluster", "ten clusters", "spread")
WORDS: Final = np.array(["open", "paid", "shipped", "returned"])


@dataclass
class Counting:
    """A blob store that counts the bytes that it gives."""

    blob: Blob
    given: int = 0
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Return bytes and count them."""
        data = self.blob.get(key, start, length)
        with self.lock:
            self.given += len(data or b"")
            self.calls += 1
        return data

    def set(self, key: str, data: bytes) -> None:
        """Store a blob."""
        self.blob.set(key, data)

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """List blobs."""
        return self.blob.list(prefix)

    def delete(self, key: str) -> int | None:
        """Remove a blob."""
        return self.blob.delete(key)

    def restore(self, key: str) -> None:
        """Bring a blob back."""
        self.blob.restore(key)


def values(ids: npt.NDArray[np.int64], seed: int) -> list[pa.Array]:
    """Return the columns of rows with these keys."""
    draw, count = np.random.default_rng(seed), len(ids)
    totals = pa.array(draw.integers(100, 1_000_000, count)).cast(pa.decimal128(21, 2))
    days = (ids // 7_000 % 9_000).astype(np.int32)
    return [
        pa.array(ids),
        pa.array(draw.integers(0, 1_000_000, count)),
        pa.array(WORDS[draw.integers(0, len(WORDS), count)]),
        totals.cast(pa.decimal128(12, 2)),
        pa.array(days).cast(pa.date32()),
    ]


def settings_of(folder: Path) -> Settings:
    """Return the settings of the shard in a folder."""
    store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/state.db", str(folder))
    return Settings(store=store)


def build(folder: Path, rows: int) -> None:
    """Write the shard: every other number is a key."""
    stores = open_stores(settings_of(folder).store)
    relation = SPEC.relation()
    Machine(stores).create(SPEC)
    schema = updates_schema(relation)

    def chunks(start: int, stop: int) -> Iterator[pa.Table]:
        for first in range(start, stop, CHUNK):
            ids = 2 * np.arange(first, min(stop, first + CHUNK))
            ones = pa.array(np.ones(len(ids), np.int64))
            yield pa.Table.from_arrays(
                [*values(ids, first), pa.array(np.zeros(len(ids), np.int64)), ones], schema=schema
            )

    def write(number: int) -> list[WrittenPart]:
        edges = [n * rows // SLICES for n in (number, number + 1)]
        return write_parts(
            stores.blob,
            part_prefix("orders", 0),
            chunks(*edges),
            relation,
            layout="structured",
            description=Description(0, 1, MIN_TIME),
            part_bytes=SPEC.part_bytes,
            row_group_bytes=SPEC.row_group_bytes,
            stats_spec=SPEC.stats,
        )

    parts = [part for some in threads(2)(write, range(SLICES)) for part in some]
    batch = write_batch(stores.blob, "orders", parts, 0, 1, MIN_TIME)
    Machine(stores).append("orders", token="made", lower=0, upper=1, batch=batch)


def keys_of(shape: str, rows: int) -> npt.NDArray[np.int64]:
    """Return 1 % of the keys, sorted."""
    few = rows // 100
    if shape == "one cluster":
        return 2 * np.arange(rows // 3, rows // 3 + few)
    if shape == "ten clusters":
        starts = (np.arange(10) * 2 + 1) * rows // 20
        return 2 * (starts[:, None] + np.arange(few // 10)).ravel()
    return 2 * np.arange(0, rows, 100)


def upsert(folder: Path, shape: str, rows: int, upper: int) -> dict[str, float]:
    """Take in new rows of some keys, and return what it took."""
    ids = keys_of(shape, rows)
    table = pa.Table.from_arrays(values(ids, -upper % 2**31), [c.name for c in SPEC.columns])
    gone = np.arange(len(ids)) % 10 == 3
    path = folder / f"{shape.replace(' ', '-')}.parquet"
    pq.write_table(table.append_column("gone", pa.array(gone)), path)
    settings = settings_of(folder)
    stores = open_stores(settings.store)
    counting = Counting(stores.blob)
    before = Machine(stores).load("orders")
    stored = sum(batch.size_bytes for batch in before.batches)
    cpu, began = time.process_time(), time.monotonic()
    report = ingest(
        replace(stores, blob=counting),
        settings,
        "orders",
        paths=[str(path)],
        lower=upper - 1,
        upper=upper,
    )
    took = time.monotonic() - began
    updates = 2 * len(ids) - int(gone.sum())  # each old row goes, nine of ten new ones come
    counts = report.counts
    assert (report.updates, counts.contradictions, counts.rejected) == (updates, 0, 0), report
    return {
        "keys": len(ids),
        "read": counting.given,
        "calls": counting.calls,
        "stored": stored,
        "seconds": took,
        "cpu": time.process_time() - cpu,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Build the shard, measure each upsert in a process of its own, delete all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", type=int, help="(of a child)")
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(upsert(args.folder, SHAPES[args.one], args.rows, args.one + 2)))
        return
    folder = Path(tempfile.mkdtemp(prefix="upsert-", dir=args.folder))
    try:
        began, cpu = time.monotonic(), time.process_time()
        build(folder, args.rows)
        print(
            f"{args.rows:,} rows written in {time.monotonic() - began:.0f} s "
            f"({time.process_time() - cpu:.0f} of processors); load {psutil.getloadavg()[0]:.1f}"
        )
        for number, shape in enumerate(SHAPES):
            command = [
                sys.executable,
                "-m",
                "benchmarks.upsert",
                "--one",
                str(number),
                "--rows",
                str(args.rows),
                "--folder",
                str(folder),
            ]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            one = json.loads(told)
            print(
                f"{shape:13}{one['keys']:>9,} keys {one['read'] / one['stored']:>7.1%} of "
                f"{one['stored'] / 2**20:,.0f} MiB in {one['calls']:,} calls, "
                f"{one['seconds']:.1f} s, {one['cpu']:.1f} CPU s, peak {one['peak']:,.0f} MiB",
                flush=True,
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
