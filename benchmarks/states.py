"""What the states of a shard cost: `python -m benchmarks.states [--appends N]`.

Small appends that nobody merges, the worst for metadata: for each shape of rows the bytes of the
database of states, those of the last commits, of the whole state, of the blobs beside parts, and
what a commit, and a first look at the shard, take. Times are CPU time, medians, in milliseconds.
`--shapes` chooses among them.

`--day COMMITS` is a shard with a commit a second, merged every 64 and swept every 512 commits: what
its states and the blobs beside parts weigh at each eighth of the way, and what a day comes to if
what grew over the second half keeps growing.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from strata.compact.run import compact_shard
from strata.format.columns import D, T, updates_schema
from strata.format.part import Description
from strata.gc import collect
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import ShardSpec, StatsSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.state.codec import encode_state
from strata.store.keys import parse_key, part_prefix, state_key
from strata.store.open import Stores, open_stores

SHARD = "small"
ROWS = 2  # of a part


def narrow(number: int) -> dict[str, Any]:
    """Return a row of 8 columns."""
    return {"id": number, **{f"c{i}": f"value {number * i % 97}" for i in range(7)}}


def wide(number: int) -> dict[str, Any]:
    """Return a row of 200 columns."""
    return {"id": number, **{f"c{i}": number * i % 97 for i in range(199)}}


def nested(number: int) -> dict[str, Any]:
    """Return a row with 400 paths in a JSON column."""
    value = {f"g{i}": {f"k{j}": number * i + j for j in range(20)} for i in range(20)}
    return {"id": number, "payload": json.dumps(value)}


SHAPES = {"8 columns": narrow, "200 columns": wide, "400 JSON paths": nested}


def spec_of(row: dict[str, Any]) -> ShardSpec:
    """Return the declaration of a shard of such rows."""
    types = {int: "int64", str: "string"}
    columns = [
        {"name": name, "type": "jsonb" if name == "payload" else types[type(value)]}
        for name, value in row.items()
    ]
    return parse_spec({"name": SHARD, "columns": columns, "key": ["id"]})


def append(stores: Stores, number: int, shape: Callable[[int], dict[str, Any]], runs: int) -> float:
    """Append a batch of some runs of two rows; return the CPU milliseconds of its commit."""
    machine = Machine(stores)
    state = machine.load(SHARD)
    schema = updates_schema(state.relation)
    parts = []
    for run in range(runs):
        rows = [shape(number * 10 + run * ROWS + i) for i in range(ROWS)]
        arrays = []
        for field in schema:
            if field.name == T:
                arrays.append(pa.array([number] * ROWS, field.type))
            elif field.name == D:
                arrays.append(pa.array([1] * ROWS, field.type))
            else:
                column = state.relation.by_id[int(field.name)].name
                arrays.append(pa.array([row[column] for row in rows], field.type))
        parts += write_parts(
            stores.blob,
            part_prefix(SHARD),
            iter([pa.Table.from_arrays(arrays, schema=schema)]),
            state.relation,
            layout="structured",
            run=run,
            description=Description(number, number + 1, MIN_TIME),
            part_bytes=1 << 20,
            row_group_bytes=1 << 20,
            stats_spec=StatsSpec(),
        )
    batch = write_batch(stores.blob, SHARD, parts, number, number + 1, MIN_TIME)
    began = time.process_time()
    machine.append(SHARD, token=f"{number:032}", lower=number, upper=number + 1, batch=batch)
    return (time.process_time() - began) * 1e3


def documents(stores: Stores) -> Iterator[int]:
    """Yield the bytes of each stored document."""
    at = 0
    while page := stores.consensus.scan(state_key(SHARD), at, 64):
        yield from (len(one.data) for one in page)
        at = page[-1].seqno + 1


def measure(name: str, appends: int, runs: int) -> None:
    """Print the figures of one shape."""
    shape = SHAPES[name]
    with tempfile.TemporaryDirectory() as folder:
        settings = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/states.db")
        stores = open_stores(settings)
        Machine(stores).create(spec_of(shape(0)))
        took = [append(stores, number, shape, runs) for number in range(appends)]
        state = Machine(stores).load(SHARD)
        sizes = list(documents(stores))
        base = sum(path.stat().st_size for path in Path(folder).glob("states.db*"))
        kinds: Counter[str] = Counter()
        for info in stores.blob.list(""):
            kinds[parse_key(info.key).kind.value] += info.size_bytes
        began = time.process_time()
        first = open_stores(settings)
        Machine(first).load(SHARD)
        look = (time.process_time() - began) * 1e3
        rows = {
            "database of states, MiB": base / 2**20,
            "of one commit, KiB, median": statistics.median(sizes[-64:]) / 1024,
            "of one commit, KiB, mean": statistics.mean(sizes[-64:]) / 1024,
            "of one commit, KiB, most": max(sizes[-64:]) / 1024,
            "state, KiB": len(encode_state(state)) / 1024,
            "batches": len(state.batches),
            "commit, ms CPU": statistics.median(took[-64:]),
            "known look, ms CPU": look,
            **{f"{kind}, MiB": size / 2**20 for kind, size in sorted(kinds.items())},
        }
        for what, figure in rows.items():
            print(
                f"{name:15} {runs} part{'s' * (runs > 1):1} {what:28} {figure:>10.2f}", flush=True
            )


def weights(stores: Stores, folder: str) -> dict[str, float]:
    """Return the bytes of the database and of the blobs beside parts, by kind."""
    found: dict[str, float] = defaultdict(float)
    found["database"] = sum(path.stat().st_size for path in Path(folder).glob("states.db*"))
    for info in stores.blob.list(""):
        found[parse_key(info.key).kind.value] += info.size_bytes
    return found


def day(commits: int) -> None:
    """Print what a shard with a commit a second comes to."""
    now = [1_750_000_000_000]
    with tempfile.TemporaryDirectory() as folder:
        store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/states.db")
        stores, settings = open_stores(store, clock=lambda: now[0]), Settings(store)
        Machine(stores).create(spec_of(narrow(0)))
        seen: list[dict[str, float]] = []
        for number in range(1, commits + 1):
            append(stores, number - 1, narrow, 1)
            now[0] += 1000
            if number % 64 == 0:
                compact_shard(stores, SHARD, settings)
            if number % 512 == 0:
                collect(stores, SHARD, settings)
            if number % (commits // 8) == 0:
                seen.append(weights(stores, folder))
                shown = {kind: f"{size / 1e6:.2f}" for kind, size in sorted(seen[-1].items())}
                print(f"{number:>7} commits, MB: {shown}", flush=True)
        half, whole = seen[3], seen[7]
        total = 0.0
        for kind in sorted(whole.keys() - {"parts"}):
            rate = max(whole[kind] - half[kind], 0) / (commits / 2)
            total += whole[kind] + rate * (86_400 - commits)
        print(f"a day beside parts, at most: {total / 1e6:.1f} MB", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=300)
    parser.add_argument("--runs", type=int, nargs="*", default=[1, 2], help="parts of a batch")
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--day", type=int, metavar="COMMITS")
    asked = parser.parse_args()
    if asked.day:
        day(asked.day)
        return
    for runs in asked.runs:
        for name in asked.shapes:
            measure(name, asked.appends, runs)


if __name__ == "__main__":
    main()
