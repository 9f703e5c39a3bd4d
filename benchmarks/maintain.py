"""How fast parts get statistics afterwards, and lose them: `python benchmarks/maintain.py [ROWS]`.

Backfill is compared with the least it must do: reading and decoding the same parts (A B A B,
medians). Trim is measured end to end, looking, weighing by filters and committing, against
writing the same manifest once more. One process, stores in memory; the machine's other work shows.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pyarrow as pa

from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.columns import updates_schema
from strata.format.manifest import encode_manifest, part_refs, stats_rows
from strata.format.part import Description
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.trim import trim_shard
from strata.maintain.trim_report import Named
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.fetch import part_batches, source_of
from strata.parts.manifests import load_manifest_of
from strata.parts.write import WrittenPart, write_batch, write_parts
from strata.store import keys
from strata.store.open import Stores, open_stores

ROUNDS = 5
PARTS = 2000  # of the manifest that is trimmed
NUMBERS = count()
SPEC = parse_spec(
    {
        "name": "bench",
        "columns": [
            {"name": "id", "type": "int64", "nullable": False},
            {"name": "at", "type": "timestamptz"},
            {"name": "price", "type": "float64"},
            {"name": "city", "type": "string"},
            {"name": "code", "type": "string"},
        ],
        "key": ["id"],
        "part_bytes": 4 * 1024 * 1024,
        "row_group_bytes": 1024 * 1024,
    }
)
RELATION = SPEC.relation()


def main(rows: int) -> None:
    """Print one line for each measurement."""
    updates = some_rows(rows)
    for layout in ("row", "both"):
        plain, filled = [], []
        for _ in range(ROUNDS):
            stores, size = shard([updates], layout)
            plain.append(seconds(lambda s=stores: read(s)))
            filled.append(seconds(lambda s=stores: backfill_shard(s, "bench")))
        a, b = statistics.median(plain), statistics.median(filled)
        say(f"{layout}: read and decode", f"{size / a / 1e6:9.0f} MB/s {rows / a:12,.0f} rows/s")
        say(f"{layout}: backfill", f"{size / b / 1e6:9.0f} MB/s {rows / b:12,.0f} rows/s")
        say(f"{layout}: backfill / read", f"{b / a:9.2f}")
    trims()


def trims() -> None:
    """Measure trimming a manifest of many parts, half of its statistics to be lost."""
    parts = many_parts()
    expr = Call("greater_than", (Column(4, "city", "string"), Literal("m", "string")), "boolean")
    filters = [Named("city", "registered", Filter(expr, "city > 'm'", 0, 0))]
    plain, trimmed = [], []
    for _ in range(ROUNDS):
        stores = empty()
        batch = write_batch(stores.blob, "bench", parts, 0, 100, MIN_TIME)
        Machine(stores).append("bench", token="t", lower=0, upper=100, batch=batch)
        table = load_manifest_of(stores.blob, "bench", batch)
        plain.append(seconds(lambda t=table: encode_manifest(t)))
        work = lambda s=stores: trim_shard(s, "bench", budget_bytes=50, registered=filters)  # noqa: E731
        trimmed.append(seconds(work))
    a, b = statistics.median(plain), statistics.median(trimmed)
    say("encode a manifest", f"{len(parts) / a:12,.0f} parts/s")
    say("trim, one filter", f"{len(parts) / b:12,.0f} parts/s")


def many_parts() -> list[WrittenPart]:
    """Return parts of a manifest, made of the parts of a small run under other keys."""
    stores, _ = shard([some_rows(2000)], "structured", replace(SPEC, part_bytes=4096))
    batch = next(b for b in Machine(stores).load("bench").batches if b.manifest)
    table = load_manifest_of(stores.blob, "bench", batch)
    some = list(zip(part_refs(table), stats_rows(table), strict=True))
    return [
        WrittenPart(replace(ref, key=f"{ref.key[:-20]}{n:012}.parquet"), stats)
        for n, (ref, stats) in zip(range(PARTS), some * (PARTS // len(some) + 1), strict=False)
    ]


def read(stores: Stores) -> int:
    """Read and decode every part."""
    state = Machine(stores).load("bench")
    source, rows = source_of(stores.blob, state), 0
    for batch in state.batches:
        if batch.manifest is not None:
            for ref in part_refs(load_manifest_of(stores.blob, "bench", batch)):
                rows += sum(b.num_rows for b in part_batches(source, ref))
    return rows


def shard(chunks: list[pa.Table], layout: str, spec=SPEC) -> tuple[Stores, int]:  # type: ignore[no-untyped-def]
    """Return a shard of one batch whose parts have no statistics, and its size."""
    stores = empty()
    parts = write_parts(
        stores.blob,
        keys.part_prefix("bench"),
        chunks,
        RELATION,
        layout=layout,
        description=Description(0, 100, MIN_TIME),
        part_bytes=spec.part_bytes,
        row_group_bytes=spec.group_bytes,
        stats_spec=spec.stats,
    )
    if layout != "structured":
        parts = [
            WrittenPart(replace(p.ref, stats_version=None, stats_bytes=0), None) for p in parts
        ]
    batch = write_batch(stores.blob, "bench", parts, 0, 100, MIN_TIME)
    Machine(stores).append("bench", token="t", lower=0, upper=100, batch=batch)
    return stores, batch.size_bytes


def empty() -> Stores:
    """Return stores with an empty shard."""
    name = f"memory://bench {next(NUMBERS)}"
    stores = open_stores(StoreSettings(name, name))
    Machine(stores).create(SPEC)
    return stores


def some_rows(rows: int) -> pa.Table:
    """Return sorted updates."""
    draw = random.Random(3)
    cities = ["berlin", "lima", "oslo", "quito", "rome", "tokyo"]
    columns = {
        "1": range(rows),
        "2": [1_356_998_400_000_000 + n * 1000 for n in range(rows)],
        "3": [draw.random() for _ in range(rows)],
        "4": [draw.choice(cities) for _ in range(rows)],
        "5": [f"{draw.randrange(10**9):09}" for _ in range(rows)],
        "t": [0] * rows,
        "d": [1] * rows,
    }
    return pa.table(columns, schema=updates_schema(RELATION))


def seconds(work: Callable[[], object]) -> float:
    """Return how long the work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def say(name: str, figures: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{name:28} {figures}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
