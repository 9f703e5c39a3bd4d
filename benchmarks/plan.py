"""Planning a read of a shard cold, from manifests on disk: `python -m benchmarks.plan [PARTS]`.

Writes the manifests of a shard of four batches whose parts have statistics of ten columns, then
plans one read in a fresh process for each round: the state is at hand, manifests are read from
files, checked against their names, decoded, decided. Prints wall and CPU time, the bytes read and
the most memory that the process ever had. Files are in the operating system's cache. Manifests in
one blob each and in pages take turns; no page can be ruled out.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.metadata import exact
from benchmarks.prune import NOW_US, RELATION, filters, statistics_of
from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.format.manifest import SCHEMA, VERSION_KEY
from strata.model.schema import Column, Relation
from strata.model.settings import StoreSettings
from strata.model.spec import ColumnSpec, ShardSpec
from strata.model.types import parse_type
from strata.parts.pages import PageSizes, PageTarget
from strata.state.state import Batch, Rollout, Spine, SpineBatch, State
from strata.store.open import open_stores

SHARD = "planned"
SHARES = (0.6, 0.25, 0.1, 0.05)  # of the parts, by batch, as a spine has them
MORE = tuple(
    Column(n, f"extra_{n}", parse_type("int64")) for n in range(len(RELATION.columns) + 1, 11)
)
WIDE = Relation(0, RELATION.columns + MORE, RELATION.key, RELATION.order)


def manifest_of(parts: int, seed: int) -> pa.Table:
    """Return a manifest with statistics of ten columns for invented parts."""
    rng = np.random.default_rng(seed)
    stats = statistics_of(parts, seed)
    names = [f"shards/{SHARD}/parts/{digest.hex()}.parquet" for digest in _digests(rng, parts)]
    first = rng.integers(0, 2**62, parts)
    split = pa.StructArray.from_arrays(
        [pa.array(np.zeros(parts, np.int64)), _binary(first)], ["row", "key"]
    )
    ones = pa.array(np.arange(parts + 1, dtype=np.int32))
    given = {
        "key": names,
        "size_bytes": rng.integers(10**8, 2**27, parts),
        "rows": stats["rows"],
        "run": np.zeros(parts, np.int32),
        "layout": ["both"] * parts,
        "relation_version": np.zeros(parts, np.int32),
        "order": pa.ListArray.from_arrays(ones, pa.array(np.ones(parts, np.int32))),
        "t_low": np.zeros(parts, np.int64),
        "t_high": np.ones(parts, np.int64),
        "diffs_sum": stats["rows"],
        "digest": first.astype(np.uint64),
        "retractions": np.zeros(parts, bool),
        "key_low": _binary(first),
        "key_high": _binary(first + 1),
        "splits": pa.ListArray.from_arrays(ones, split),
        "stats_version": np.ones(parts, np.int32),
        "stats_bytes": np.full(parts, 700),
    }
    fixed = [pa.chunked_array([pa.array(_one(given[f.name]))]).cast(f.type) for f in SCHEMA]
    table = pa.table(fixed, schema=SCHEMA)
    for name in stats.column_names[1:]:
        table = table.append_column(name, exact(stats[name].combine_chunks()))
    for column in MORE:
        low = rng.integers(-(2**40), 2**40, parts)
        bounds = [pa.array(np.zeros(parts, np.int64)), pa.array(low), pa.array(low + 1000)]
        extra = exact(pa.StructArray.from_arrays(bounds, ["nulls", "low", "high"]))
        table = table.append_column(f"s.{column.id}", extra)
    table = table.take(pa.array(rng.permutation(parts)))  # so that neighbours are not alike
    return table.replace_schema_metadata({VERSION_KEY: "1"})


def _one(values: object) -> object:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _digests(rng: np.random.Generator, parts: int) -> list[bytes]:
    data = rng.bytes(20 * parts)
    return [data[20 * i : 20 * i + 20] for i in range(parts)]


def _binary(numbers: np.ndarray) -> pa.Array:
    data = numbers.astype(">i8").tobytes()
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 8
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(numbers), buffers)


def store(folder: Path, parts: int, *, flat: bool = False) -> list[dict[str, object]]:
    """Write the manifests, in pages unless `flat`; return what `state_of` needs of each."""
    sizes = PageSizes(paged_parts=parts) if flat else PageSizes()
    target = PageTarget(open_stores(_settings(folder)).blob, SHARD, 0, sizes)
    found: list[dict[str, object]] = []
    for number, share in enumerate(SHARES):
        count = int(parts * share)
        key, _ = target.put(manifest_of(count, number))
        found.append({"manifest": key, "parts": count})
    stored = sum(info.size_bytes for info in target.blob.list(""))
    return [one | {"size": stored / len(found)} for one in found]


def state_of(manifests: list[dict[str, object]]) -> State:
    """Return the state of a shard with one batch for each manifest; their unions are unknown."""
    columns = tuple(ColumnSpec(c.name, c.type, c.nullable) for c in WIDE.columns)
    spec = ShardSpec(SHARD, columns, ("ts",), ("ts",))
    batches = [
        Batch(n, n + 1, 0, updates=1, parts=m["parts"], manifest=m["manifest"])  # type: ignore[arg-type]
        for n, m in enumerate(manifests)
    ]
    slots = tuple(SpineBatch(n, n + 1, 0, (batch,)) for n, batch in enumerate(batches))
    state = State(1, 1, spec, (WIDE,), since=0, upper=len(batches), spine=Spine(slots))
    return replace(state, rollout=Rollout(mode="on"))


def _settings(folder: Path) -> StoreSettings:
    return StoreSettings(blob=f"file://{folder}/blob", consensus=f"sqlite:///{folder}/state.db")


def plan_once(folder: Path) -> dict[str, float]:
    """Return what one plan costs in this process."""
    known = json.loads((folder / "manifests.json").read_text())
    stores, state = open_stores(_settings(folder)), state_of(known)
    filter = Filter(filters()["three leaves"], "", NOW_US, NOW_US)
    before = _most_kib()
    wall, cpu = time.perf_counter(), time.process_time()
    plan = plan_read(stores, state, filter=filter, mode="on")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "wall": wall,
        "cpu": cpu,
        "fetched": plan.parts_fetched,
        "skipped": plan.parts_skipped,
        "stored_mb": sum(m["size"] for m in known) / 1e6,
        "before_mib": before / 1024,
        "peak_mib": _most_kib() / 1024,
    }


def _most_kib() -> int:
    """Return the most memory that this process held; `ru_maxrss` would begin with its parent's."""
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="plan once, on the manifests that are there")
    options = parser.parse_args()
    if options.folder is not None:
        print(json.dumps(plan_once(options.folder)))
        return
    with tempfile.TemporaryDirectory() as name:
        runs: dict[str, list[dict[str, float]]] = {"one blob each": [], "in pages": []}
        for number in range(len(runs)):
            folder = Path(name) / str(number)
            folder.mkdir()
            found = store(folder, options.parts, flat=not number)
            (folder / "manifests.json").write_text(json.dumps(found))
        for _ in range(options.rounds):
            for number, kind in enumerate(runs):
                command = [sys.executable, "-m", "benchmarks.plan", "--folder", f"{name}/{number}"]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                runs[kind].append(json.loads(done.stdout))
    for kind, some in runs.items():
        for key in some[0]:
            values = [run[key] for run in some]
            median, best = statistics.median(values), min(values)
            print(f"{kind:14} {key:12} median {median:12.3f}  best {best:12.3f}")


if __name__ == "__main__":
    main()
