"""Compaction against its floor and against DuckDB: the same runs, interleaved in one process.

    python benchmarks/merge.py [--rows 2000000] [--runs 8] [--rounds 3] [--data mixed] [--spark]

The data are those of the design notes, scaled: sorted runs of (int64, 16 hex characters) keys
and (float64, timestamp, short string, int32) values, a fifth of the rows in pairs that cancel or
combine. `mixed` has a third of the rows under one key, a tenth of the numbers and texts null,
texts of 20 to 220 characters that begin alike, and a list in the key. Contenders, all reading
the same Parquet files and writing zstd level 1:

    floor     read the files and write their rows again, in one core, flat and without checksums
    rewrite   read the files and write them as they are: the same columns, encodings, row groups
              and checksums, which the tasks' files have
    kernel    read, merge, consolidate, write, with the floor's reader and writer
    engine    a whole compaction task: also digests, statistics, split points, checks
    duckdb    GROUP BY all columns, HAVING sum(d) <> 0, ORDER BY, on all cores
    job       the same tasks as `engine` as tasks of Spark on two cores; also what of its CPU
              is used within them, which leaves out Spark itself
    spark     Spark's own plan with one shuffle: repartitionByRange, groupBy, sort within partitions

Ratios are what counts: CPU to the floor's (of all processes), wall to the floor's. Rounds are
interleaved, and each figure is the median over rounds, a ratio that of the ratios within a round: a
machine's speed changes from one minute to the next. To read back what was written, so that all can
be compared, is not counted.
"""

import argparse
import gc
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from benchmarks.cpu import cpu_seconds
from strata.compact import manifests_of
from strata.compact.tasks import MergeTask, TaskOutput, merge_slice, merge_tasks
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.format.part_settings import sample_of, writer_settings
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.spec import ShardSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import WrittenPart, write_batch, write_parts
from strata.session.session import WORKERS
from strata.spark.runner import spark_runner
from strata.state.spine import MergeRequest, full_request
from strata.state.state import State
from strata.store.keys import part_prefix
from strata.store.open import Stores, open_stores
from strata.updates.consolidate import consolidate
from strata.updates.merge import merge
from strata.updates.order import sort_updates

SINCE, LAST = 900, 1000
MEMORY = 1024 * 1024 * 1024
WRITER = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["5", "6", "t", "d"],
}
COLUMNS = {
    "id": "int64",
    "hex": "string",
    "amount": "float64",
    "at": "timestamp",
    "status": "string",
    "count": "int32",
}
MIXED = {
    "id": "int64",
    "url": "string",
    "tags": "list<int32>",
    "amount": "float64",
    "at": "timestamp",
    "count": "int32",
}


@dataclass(frozen=True)
class Result:
    """What a contender found; all must agree."""

    rows: int
    diffs: int
    times: int


Found = Callable[[], Result]  # reads back what was written, outside of the time


@dataclass(frozen=True)
class Bench:
    """The stored shard and its merge."""

    stores: Stores
    state: State
    request: MergeRequest
    files: list[list[Path]]  # the parts of each run
    folder: Path
    in_tasks: list[float] = field(default_factory=list)  # CPU s of the tasks of each job

    def out(self, name: str) -> Path:
        """Return where a contender writes."""
        return self.folder / f"{name}.parquet"


def spec(mixed: bool) -> ShardSpec:
    """Return the declaration of the shard."""
    columns = [{"name": n, "type": t} for n, t in (MIXED if mixed else COLUMNS).items()]
    key = ["id", "url", "tags"] if mixed else ["id", "hex"]
    return parse_spec(
        {"name": "bench", "columns": columns, "key": key, "write_format": "structured"}
    )


def mixed_columns(chance: np.random.Generator, count: int) -> list[pa.Array]:
    """Return skewed ids, long texts and lists, with nulls in all of them."""
    ids = chance.integers(0, 4 * count, count)
    ids[chance.random(count) < 1 / 3] = 7
    sites = [f"https://example.org/{'path/' * (n % 41)}{n:012x}" for n in range(200_000)]
    urls = pa.array(sites).take(
        pa.array(chance.integers(0, len(sites), count), mask=chance.random(count) < 0.1)
    )
    lengths = chance.integers(0, 4, count)
    ends = pa.array(np.r_[0, np.cumsum(lengths)].astype(np.int32))
    items = pa.array(chance.integers(0, 50, int(lengths.sum())).astype(np.int32))
    return [
        pa.array(ids, mask=chance.random(count) < 0.1),
        urls,
        pa.ListArray.from_arrays(ends, items),
    ]


def updates(rows: int, schema: pa.Schema, mixed: bool) -> pa.Table:
    """Return random updates: of 20 rows 16 alone, 2 that cancel, 2 that combine."""
    chance = np.random.default_rng(1)
    base = rows * 18 // 20
    hexes = [f"{n:016x}" for n in chance.integers(0, 2**62, min(base, 1_000_000))]
    ids = pa.array(chance.integers(0, 4 * rows, base))
    texts = pa.array(hexes).take(pa.array(chance.integers(0, len(hexes), base)))
    amount = pa.array(chance.random(base))
    at = pa.array(chance.integers(0, 10**15, base)).cast(pa.timestamp("us"))
    status = pa.array(["open", "shut", "lost"]).take(pa.array(chance.integers(0, 3, base)))
    number = pa.array(chance.integers(0, 100, base).astype(np.int32))
    columns = [ids, texts, amount, at, status, number]
    if mixed:
        columns = [*mixed_columns(chance, base), amount, at, number]
    once = pa.table(
        [
            *(column.cast(f.type) for column, f in zip(columns, schema, strict=False)),
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


def build(folder: Path, rows: int, runs: int, mixed: bool = False) -> Bench:
    """Write the shard: one batch of `runs` sorted runs, their rows drawn at random."""
    blob = folder / "blob"
    settings = StoreSettings(f"file://{blob}", f"sqlite:///{folder}/consensus.db")
    stores = open_stores(settings)
    machine = Machine(stores)
    state = machine.create(spec(mixed))
    relation = state.relation
    whole = updates(rows, updates_schema(relation), mixed)
    owner = np.random.default_rng(2).integers(0, runs, whole.num_rows)
    parts, files = [], []
    for run in range(runs):
        mine = sort_updates(whole.filter(pa.array(owner == run)), relation)
        written = write_parts(
            stores.blob,
            part_prefix("bench"),
            [consolidate(mine, relation)],
            relation,
            layout="structured",
            description=Description(0, LAST, MIN_TIME),
            part_bytes=state.spec.part_bytes,
            row_group_bytes=state.spec.group_bytes,
            stats_spec=state.spec.stats,
            run=run,
        )
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


def write(bench: Bench, name: str, tables: Iterator[pa.Table | pa.RecordBatch]) -> Found:
    """Write what a contender yields."""
    schema = updates_schema(bench.state.relation)
    with pq.ParquetWriter(bench.out(name), schema, **WRITER) as writer:
        for table in tables:
            plain = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
            writer.write_table(plain.cast(schema))
    return lambda: counted([bench.out(name)])


def counted(files: Iterable[Path | str]) -> Result:
    """Count what is in some files."""
    tables = [pq.read_table(file, columns=["t", "d"]) for file in files]
    return Result(
        sum(table.num_rows for table in tables),
        sum(pc.sum(table["d"]).as_py() for table in tables),
        sum(pc.sum(table["t"]).as_py() for table in tables),
    )


def floor(bench: Bench) -> Found:
    """Read and write again."""
    files = [file for run in bench.files for file in run]
    return write(bench, "floor", (batch for file in files for batch in batches(file)))


def rewrite(bench: Bench) -> Found:
    """Read each file and write it again, as it is."""
    out = []
    for number, path in enumerate(file for run in bench.files for file in run):
        file = pq.ParquetFile(path, page_checksum_verification=True)
        rows = file.metadata.num_rows
        out.append(bench.out(f"rewrite-{number}"))
        first = file.read_row_group(0)
        settings = writer_settings(sample_of(first), rows, "structured")
        with pq.ParquetWriter(out[-1], first.schema, **settings) as writer:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group) if group else first
                writer.write_table(table, row_group_size=table.num_rows)
    return lambda: counted(out)


def kernel(bench: Bench) -> Found:
    """Merge with the floor's reader and writer."""
    runs = [(batch for file in run for batch in batches(file)) for run in bench.files]
    return write(bench, "kernel", merge(runs, bench.state.relation, since=SINCE))


def engine(bench: Bench) -> Found:
    """Run the compaction's tasks in turn."""
    parts = [part for task in cut_of(bench) for part in merge_slice(task).parts]
    return partial(taken_away, bench, parts)


def cut_of(bench: Bench) -> list[MergeTask]:
    """Return the tasks of the compaction."""
    stores, state = bench.stores, bench.state
    manifests = manifests_of(stores, state, bench.request)
    return merge_tasks(state, bench.request, manifests, stores.settings, MEMORY)


def taken_away(bench: Bench, parts: Sequence[WrittenPart]) -> Result:
    """Count what is in parts and remove them, so that the next round writes them again."""
    keys = [part.ref.key for part in parts]
    result = counted(bench.folder / "blob" / key for key in keys)
    for key in keys:
        bench.stores.blob.delete(key)
    return result


def sides_of(bench: Bench) -> list[str]:
    """Return the struct that holds each column."""
    keys = len(bench.state.relation.key_columns)
    return ["k_s"] * keys + ["v_s"] * (6 - keys)


def job(bench: Bench) -> Found:
    """Run the compaction's tasks in Spark, two at a time."""
    found = list(spark_runner(session())(timed, cut_of(bench)))
    bench.in_tasks.append(sum(used for _, used in found))
    parts = [part for done, _ in found for part in done.parts]
    return partial(taken_away, bench, parts)


def timed(task: MergeTask) -> tuple[TaskOutput, float]:
    """Run a task, and return the CPU seconds of its process."""
    began = time.process_time()
    return merge_slice(task), time.process_time() - began


def plain_spark(bench: Bench) -> Found:
    """Let Spark do it, with the plan that shuffles once."""
    names = [f"c{i}" for i in range(1, 7)]
    files = [str(file) for run in bench.files for file in run]
    columns = [fn.col(f"{side}.`{i}`").alias(f"c{i}") for i, side in enumerate(sides_of(bench), 1)]
    rows = session().read.parquet(*files)
    rows = rows.select(*columns, fn.greatest("t", fn.lit(SINCE)).alias("t"), "d")
    rows = rows.repartitionByRange(2, *names[: sides_of(bench).count("k_s")])
    rows = rows.groupBy(*names, "t").agg(fn.sum("d").alias("d")).where("d <> 0")
    out = str(bench.out("spark"))
    rows.sortWithinPartitions(*names, "t").write.mode("overwrite").parquet(out, compression="zstd")
    return lambda: counted([out])


@cache
def session() -> SparkSession:
    """Return Spark on two cores, begun at the first call; its workers run this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.log.level": "ERROR",
        "spark.sql.parquet.enableVectorizedReader": "true",
        "spark.python.daemon.module": "strata.spark.daemon",  # as strata's own sessions have it
        **{f"spark.executorEnv.{name}": value for name, value in WORKERS.items()},
    }
    return SparkSession.builder.master("local[2]").config(map=options).getOrCreate()


def duck(bench: Bench) -> Found:
    """Let DuckDB do it in SQL."""
    names = [f"c{i}" for i in range(1, 7)]
    sides = sides_of(bench)
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
    return lambda: counted([bench.out("duckdb")])


CONTENDERS: dict[str, Callable[[Bench], Found]] = {
    "floor": floor,
    "rewrite": rewrite,
    "kernel": kernel,
    "engine": engine,
    "duckdb": duck,
}
IN_SPARK = {"job": job, "spark": plain_spark}


def ratio(times: Mapping[str, Sequence[float]], name: str, to: str) -> float:
    """Return the median of one contender's times to another's of the same round."""
    return statistics.median(a / b for a, b in zip(times[name], times[to], strict=True))


def main() -> None:
    """Build the data, run the rounds, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", choices=["plain", "mixed"], default="plain")
    parser.add_argument("--spark", action="store_true", help="also the contenders in Spark")
    asked = parser.parse_args()
    pa.set_cpu_count(1)  # one core for Arrow, so that CPU and wall can be compared
    with tempfile.TemporaryDirectory() as folder:
        bench = build(Path(folder), asked.rows, asked.runs, asked.data == "mixed")
        contenders = CONTENDERS | (IN_SPARK if asked.spark else {})
        cpu: dict[str, list[float]] = {name: [] for name in contenders}
        wall: dict[str, list[float]] = {name: [] for name in contenders}
        results = {name: contender(bench)() for name, contender in contenders.items()}  # warm
        gc.freeze()  # as `strata.spark.daemon` does for tasks
        for _ in range(asked.rounds):
            for name, contender in contenders.items():
                os.sync()  # none waits for what another wrote
                # Processes of Spark that end take their time with them: it counts for its own only.
                clock = cpu_seconds if name in IN_SPARK else time.process_time
                began, used = time.monotonic(), clock()
                found = contender(bench)
                cpu[name].append(clock() - used)
                wall[name].append(time.monotonic() - began)
                results[name] = found()
    load = os.getloadavg()[0]
    print(
        f"{asked.rows:,} {asked.data} rows in {asked.runs} runs, {asked.rounds} rounds, "
        f"load {load:.0f}"
    )
    print(
        f"{'':8} {'wall s':>8} {'CPU s':>8} {'wall/floor':>11} {'CPU/floor':>10} {'rows out':>12}"
    )
    for name in contenders:
        print(
            f"{name:8} {statistics.median(wall[name]):8.2f} {statistics.median(cpu[name]):8.2f} "
            f"{ratio(wall, name, 'floor'):11.2f} {ratio(cpu, name, 'floor'):10.2f} "
            f"{results[name].rows:12,}"
        )
    if asked.spark:
        cpu["its tasks"] = bench.in_tasks[-asked.rounds :]
        used, part = statistics.median(cpu["its tasks"]), ratio(cpu, "its tasks", "floor")
        print(f"of job in its tasks {used:.2f} CPU s, {part:.2f} of the floor's")
    pairs = ("engine", "rewrite"), ("job", "rewrite"), ("duckdb", "engine"), ("duckdb", "job")
    for peer, ours in (*pairs, ("spark", "job")):
        if peer in contenders and ours in contenders:
            print(f"{peer} / {ours}: wall {ratio(wall, peer, ours):.2f}, ", end="")
            print(f"CPU {ratio(cpu, peer, ours):.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak RSS of the process: {peak:,} MiB")
    merged = {n: result for n, result in results.items() if n not in ("floor", "rewrite")}
    assert results["floor"] == results["rewrite"]
    assert len(set(merged.values())) == 1, merged
    print(f"{', '.join(merged)} agree on rows, sum of d and sum of t")


if __name__ == "__main__":
    main()
