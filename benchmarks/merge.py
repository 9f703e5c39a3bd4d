"""Compaction against its floor and against DuckDB: the same runs, interleaved in one process.

    python benchmarks/merge.py [--rows 2000000] [--runs 8] [--rounds 3]

The data are those of the design notes, scaled: sorted runs of (int64, 16 hex characters) keys
and (float64, timestamp, short string, int32) values, a fifth of the rows in pairs that cancel or
combine. Contenders, all reading the same Parquet files and writing zstd level 1:

    floor     read the files and write their rows again, in one core
    kernel    read, merge, consolidate, write, with the floor's reader and writer
    engine    a whole compaction task: also digests, statistics, split points, checks
    duckdb    GROUP BY all columns, HAVING sum(d) <> 0, ORDER BY, on all cores

Ratios are what counts: CPU to the floor's, wall to the floor's, medians of interleaved rounds.
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strata.compact import manifests_of
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.spec import ShardSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.rewrite import run_task, tasks
from strata.state.spine import MergeRequest, full_request
from strata.state.state import State
from strata.store.keys import part_prefix
from strata.store.open import Stores, open_stores
from strata.updates.consolidate import consolidate
from strata.updates.merge import merge
from strata.updates.order import sort_updates
from strata.write import write_batch, write_parts

SINCE, LAST = 900, 1000
MEMORY = 1024 * 1024 * 1024
WRITER = {
    "compression": "zstd", "compression_level": 1, "use_dictionary": ["5", "6", "t", "d"],
}  # fmt: skip
COLUMNS = {
    "id": "int64", "hex": "string", "amount": "float64", "at": "timestamp", "status": "string",
    "count": "int32",
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a contender found; all must agree."""

    rows: int
    diffs: int
    times: int


@dataclass(frozen=True)
class Bench:
    """The stored shard and its merge."""

    stores: Stores
    state: State
    request: MergeRequest
    files: list[list[Path]]  # the parts of each run
    folder: Path

    def out(self, name: str) -> Path:
        """Return where a contender writes."""
        return self.folder / f"{name}.parquet"


def spec() -> ShardSpec:
    """Return the declaration of the shard."""
    columns = [{"name": n, "type": t} for n, t in COLUMNS.items()]
    return parse_spec(
        {"name": "bench", "columns": columns, "key": ["id", "hex"], "write_format": "structured"}
    )


def updates(rows: int, schema: pa.Schema) -> pa.Table:
    """Return random updates: of 20 rows 16 alone, 2 that cancel, 2 that combine."""
    chance = np.random.default_rng(1)
    base = rows * 18 // 20
    hexes = [f"{n:016x}" for n in chance.integers(0, 2**62, min(base, 1_000_000))]
    once = pa.table(
        [
            pa.array(chance.integers(0, 4 * rows, base)),
            pa.array(hexes).take(pa.array(chance.integers(0, len(hexes), base))),
            pa.array(chance.random(base)),
            pa.array(chance.integers(0, 10**15, base)).cast(pa.timestamp("us")),
            pa.array(["open", "shut", "lost"]).take(pa.array(chance.integers(0, 3, base))),
            pa.array(chance.integers(0, 100, base).astype(np.int32)),
            pa.array(chance.integers(0, SINCE, base)),  # advancing makes pairs meet
            pa.array(np.ones(base, np.int64)),
        ],
        schema=schema,
    )
    pairs = once.slice(0, rows - base)
    half = pairs.num_rows // 2
    minus = pairs.slice(0, half).set_column(7, schema.field(7), pa.array(np.full(half, -1)))
    late = pc.add(once["t"], LAST - SINCE)
    return pa.concat_tables([once.set_column(6, schema.field(6), late), minus, pairs.slice(half)])


def build(folder: Path, rows: int, runs: int) -> Bench:
    """Write the shard: one batch of `runs` sorted runs, their rows drawn at random."""
    blob = folder / "blob"
    settings = StoreSettings(f"file://{blob}", f"sqlite:///{folder}/consensus.db")
    stores = open_stores(settings)
    machine = Machine(stores)
    state = machine.create(spec())
    relation = state.relation
    whole = updates(rows, updates_schema(relation))
    owner = np.random.default_rng(2).integers(0, runs, whole.num_rows)
    parts, files = [], []
    for run in range(runs):
        mine = sort_updates(whole.filter(pa.array(owner == run)), relation)
        written = write_parts(
            stores.blob, part_prefix("bench"), [consolidate(mine, relation)], relation,
            layout="structured", description=Description(0, LAST, MIN_TIME),
            part_bytes=state.spec.part_bytes, row_group_bytes=state.spec.row_group_bytes,
            stats_spec=state.spec.stats, run=run,
        )  # fmt: skip
        parts += written
        files.append([blob / part.ref.key for part in written])
    batch = write_batch(stores.blob, "bench", parts, 0, LAST, MIN_TIME)
    machine.append("bench", token="bench", lower=0, upper=LAST, batch=batch)
    state = replace(machine.load("bench"), since=SINCE)
    request = full_request(state.spine, SINCE)
    assert request is not None
    return Bench(stores, state, request, files, folder)


def batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Yield a part's rows as updates, read by Arrow alone."""
    for batch in pq.ParquetFile(file).iter_batches(65_536):
        table = pa.Table.from_batches([batch]).flatten()
        names = [name.rsplit(".", 1)[-1] for name in table.column_names]
        table = table.rename_columns(names)
        yield from table.select([*sorted(n for n in names if n.isdigit()), "t", "d"]).to_batches()


def write(bench: Bench, name: str, tables: Iterator[pa.Table | pa.RecordBatch]) -> Result:
    """Write what a contender yields and count it."""
    schema = updates_schema(bench.state.relation)
    rows = diffs = times = 0
    with pq.ParquetWriter(bench.out(name), schema, **WRITER) as writer:
        for table in tables:
            plain = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
            writer.write_table(plain.cast(schema))
            rows += plain.num_rows
            diffs += pc.sum(plain["d"]).as_py()
            times += pc.sum(plain["t"]).as_py()
    return Result(rows, diffs, times)


def floor(bench: Bench) -> Result:
    """Read and write again."""
    files = [file for run in bench.files for file in run]
    return write(bench, "floor", (batch for file in files for batch in batches(file)))


def kernel(bench: Bench) -> Result:
    """Merge with the floor's reader and writer."""
    runs = [(batch for file in run for batch in batches(file)) for run in bench.files]
    return write(bench, "kernel", merge(runs, bench.state.relation, since=SINCE))


def engine(bench: Bench) -> Result:
    """Run the compaction's task; its output is removed, so that each round writes it."""
    stores, state = bench.stores, bench.state
    manifests = manifests_of(stores, state, bench.request)
    (task,) = tasks(state, bench.request, manifests, stores.settings, MEMORY)
    parts = run_task(task).parts
    result = Result(
        sum(p.ref.rows for p in parts), sum(p.ref.diffs_sum for p in parts),
        sum(_sum_of_times(bench, p.ref.key) for p in parts),
    )  # fmt: skip
    for part in parts:
        stores.blob.delete(part.ref.key)
    return result


def _sum_of_times(bench: Bench, key: str) -> int:
    times = pq.read_table(bench.folder / "blob" / key, columns=["t"])["t"]
    return int(pc.sum(times).as_py())


def duck(bench: Bench) -> Result:
    """Let DuckDB do it in SQL."""
    names = [f"c{i}" for i in range(1, 7)]
    sides = ["k_s"] * 2 + ["v_s"] * 4
    columns = ", ".join(f'{side}."{i}" AS c{i}' for i, side in enumerate(sides, 1))
    files = [str(file) for run in bench.files for file in run]
    keys = ", ".join([*names, "t"])
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {keys}, sum(d)::BIGINT AS d FROM (SELECT {columns}, "
            f"greatest(t, {SINCE}) AS t, d FROM read_parquet({files})) GROUP BY {keys} "
            f"HAVING sum(d) <> 0 ORDER BY {keys}) TO '{bench.out('duckdb')}' "
            "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
        )
        found = connection.execute(
            f"SELECT count(*), sum(d), sum(t) FROM '{bench.out('duckdb')}'"
        ).fetchone()
    assert found is not None
    return Result(*map(int, found))


CONTENDERS: dict[str, Callable[[Bench], Result]] = {
    "floor": floor, "kernel": kernel, "engine": engine, "duckdb": duck,
}  # fmt: skip


def main() -> None:
    """Build the data, run the rounds, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    pa.set_cpu_count(1)  # one core for Arrow, so that CPU and wall can be compared
    with tempfile.TemporaryDirectory() as folder:
        bench = build(Path(folder), asked.rows, asked.runs)
        cpu: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        wall: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        results: dict[str, Result] = {}
        for _ in range(asked.rounds):
            for name, contender in CONTENDERS.items():
                began, used = time.monotonic(), time.process_time()
                results[name] = contender(bench)
                cpu[name].append(time.process_time() - used)
                wall[name].append(time.monotonic() - began)
    print(f"{asked.rows:,} rows in {asked.runs} runs, {asked.rounds} rounds")
    print(
        f"{'':8} {'wall s':>8} {'CPU s':>8} {'wall/floor':>11} {'CPU/floor':>10} {'rows out':>12}"
    )
    for name in CONTENDERS:
        w, c = statistics.median(wall[name]), statistics.median(cpu[name])
        base_w, base_c = statistics.median(wall["floor"]), statistics.median(cpu["floor"])
        print(
            f"{name:8} {w:8.2f} {c:8.2f} {w / base_w:11.2f} {c / base_c:10.2f} "
            f"{results[name].rows:12,}"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak RSS of the process: {peak:,} MiB")
    assert results["kernel"] == results["engine"] == results["duckdb"], results
    print("kernel, engine and DuckDB agree on rows, sum of d and sum of t")


if __name__ == "__main__":
    main()
