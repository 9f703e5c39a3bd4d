"""What `benchmarks.slopes` measures in one process: each operation on shards of given sizes.

Rows are those of `benchmarks.peers_data`, in CSV files whose ids interleave, so that each file
becomes a run and a merge has work. Parts have their default size. All work is done by the main
thread of one process; Arrow may use both cores.
"""

import gc
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.peers_data import SHAPES, Shape, wide, wide_columns, write
from benchmarks.stages import Stages
from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.runner import Runner, serial
from strata.model.settings import CompactSettings, IngestSettings, Settings, StoreSettings
from strata.model.spec import ShardSpec, parse_spec
from strata.plain.parse import plain_filter
from strata.read.scan import scan
from strata.store.open import open_stores

NAME: Final = "slopes"
RUNS: Final = 8  # files of a table, where nothing else is said
LONG_S: Final = 0.3  # by the clock: what takes less is done again and again in a round
LAST: Final = "at >= timestamp'2013-04-10 00:00:00'"  # the last of 100 days
WAITING: Final = "waiting"  # by the clock and not the processor: for the disk, mostly
NUMBERS: Final = count()


@dataclass
class Costs:
    """What an operation took at one size, a figure a round. Units: seconds for one operation."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    stages: defaultdict[str, float] = field(  # of all rounds together
        default_factory=lambda: defaultdict(float)
    )

    def measure(self, work: Callable[[], Any], *, again: bool = False) -> Any:
        """Do it, and return the last answer; `again`: so often that the stages can be seen."""
        gc.collect()
        stages, answer, times = Stages(), None, 0
        cpu, began = time.process_time(), time.perf_counter()
        with stages.watched():
            while not times or (again and time.perf_counter() < began + LONG_S):
                answer, times = work(), times + 1
        used, took = time.process_time() - cpu, time.perf_counter() - began
        self.cpu.append(used / times)
        self.wall.append(took / times)
        for name, spent in stages.seconds.items():
            self.stages[name] += spent / times
        self.stages[WAITING] += max(0.0, took - used) / times
        return answer

    def mean_stages(self) -> dict[str, float]:
        """Return the seconds of each stage, of an average round."""
        return {name: spent / len(self.cpu) for name, spent in self.stages.items()}


Measured = dict[str, dict[float, Costs]]  # operation, size


def costs_by_size() -> Measured:
    """Return costs to fill."""
    return defaultdict(lambda: defaultdict(Costs))


def shape_of(columns: int) -> Shape:
    """Return a table with this many columns."""
    kinds = wide_columns(columns)
    return Shape(f"{columns} columns", kinds, wide(kinds))


def sources(folder: Path, shape: Shape, rows: int, files: int) -> list[Path]:
    """Write a table as files whose ids interleave, in any order within each; return them."""
    draw, made = np.random.default_rng(7), []
    order = np.concatenate([draw.permutation(np.arange(n, rows, files)) for n in range(files)])
    ends = np.cumsum([0] + [len(range(n, rows, files)) for n in range(files)])
    table = shape.table(order, rows) if rows <= 2_000_000 else None
    for number in range(files):
        start, stop = int(ends[number]), int(ends[number + 1])
        some = table.slice(start, stop - start) if table else shape.table(order[start:stop], rows)
        made.append(folder / f"{number // 1000:03d}" / f"{number:06d}.csv")
        write(some, made[-1])
    return made


def spec_of(shape: Shape) -> ShardSpec:
    """Return the declaration of the shard; rows are not read twice, as after its first week."""
    columns = [{"name": n, "type": t, "nullable": n != "id"} for n, t in shape.columns.items()]
    return parse_spec(
        {
            "name": NAME,
            "columns": columns,
            "key": ["id"],
            "source": {"format": "csv", "verify": "never"},
            "write_format": "structured",
        }
    )


@dataclass
class Home:
    """A store of its own with one shard."""

    folder: Path
    task_bytes: int  # of source files in a task

    def __post_init__(self) -> None:
        """Open the stores."""
        blob, state = f"file://{self.folder}/blob", f"sqlite:///{self.folder}/state.db"
        self.settings = Settings(
            store=StoreSettings(blob, state, str(self.folder.parent)),
            ingest=IngestSettings(task_bytes=self.task_bytes),
            compact=CompactSettings(debt_runs=0),
        )
        self.stores = open_stores(self.settings.store)

    @classmethod
    def beside(cls, paths: Sequence[Path], **options: int) -> "Home":
        """Return a new home for files, each of which is a task."""
        largest = max(path.stat().st_size for path in paths)
        folder = paths[0].parents[1] / f"home-{next(NUMBERS)}"
        folder.mkdir()
        return cls(folder, options.pop("task_bytes", largest), **options)

    def create(self, shape: Shape) -> None:
        """Create the shard, empty."""
        Machine(self.stores).create(spec_of(shape))

    def take(self, paths: Sequence[Path], rows: int, runner: Runner = serial) -> None:
        """Take the files in as one batch."""
        names = sorted({str(path.parent) for path in paths})
        report = ingest(
            self.stores, self.settings, NAME, paths=names, lower=0, upper=1, runner=runner
        )
        assert report.updates == rows, report

    def merge(self, runner: Runner = serial) -> None:
        """Merge all runs."""
        compact_shard(self.stores, NAME, self.settings, runner, full=True)

    def read(self) -> int:
        """Read all rows, and return how many there are."""
        state = Machine(self.stores).load(NAME)
        plan = plan_read(self.stores, state)
        return sum(batch.num_rows for batch in scan(self.stores, state, plan))

    def plan(self) -> int:
        """Plan a read of the last hundredth of time; return how many parts it keeps."""
        return plan_last(self.stores, NAME)

    def commit(self) -> None:
        """Commit an empty interval."""
        commit_empty(self.stores, NAME)

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.folder)


def plan_last(stores: Any, name: str) -> int:
    """Plan a read of the last hundredth of time; return how many parts it keeps."""
    state = Machine(stores).load(name)
    chosen = plain_filter(state.relation, LAST)
    return plan_read(stores, state, filter=chosen, mode="on").parts_fetched


def commit_empty(stores: Any, name: str) -> None:
    """Commit an empty interval at the end of a shard."""
    machine = Machine(stores)
    lower = machine.load(name).upper
    machine.append(name, token=f"empty-{lower}", lower=lower, upper=lower + 1)


def round_of(size: int, shape: Shape, paths: Sequence[Path], rows: int, found: Measured) -> None:
    """Measure every operation once, on a shard that is made of the files."""
    home = Home.beside(paths)
    try:
        home.create(shape)
        found["ingest"][size].measure(lambda: home.take(paths, rows))
        found["merge"][size].measure(home.merge)
        assert found["full read"][size].measure(home.read, again=True) == rows
        found["filtered plan"][size].measure(home.plan, again=True)
        found["commit"][size].measure(home.commit, again=True)
    finally:
        home.remove()


def over_rows(folder: Path, sizes: Sequence[int], rounds: int) -> Measured:
    """Measure shards of `events` of these rows, in turn."""
    shape = SHAPES["events"]
    made = {n: sources(folder / f"rows-{n}", shape, n, RUNS) for n in sizes}
    return in_turn(rounds, {n: partial(round_of, n, shape, made[n], n) for n in sizes})


def over_columns(folder: Path, sizes: Sequence[int], rows: int, rounds: int) -> Measured:
    """Measure shards of the same rows with these columns, in turn."""
    shapes = {n: shape_of(n) for n in sizes}
    made = {n: sources(folder / f"columns-{n}", shapes[n], rows, RUNS) for n in sizes}
    return in_turn(rounds, {n: partial(round_of, n, shapes[n], made[n], rows) for n in sizes})


def over_files(folder: Path, sizes: Sequence[int], rows: int, rounds: int) -> Measured:
    """Measure ingest of the same rows from this many files, in turn; tasks have their default."""
    shape = SHAPES["events"]
    made = {n: sources(folder / f"files-{n}", shape, rows, n) for n in sizes}

    def once(files: int, found: Measured) -> None:
        home = Home.beside(made[files], task_bytes=IngestSettings().task_bytes)
        try:
            home.create(shape)
            found["ingest"][files].measure(lambda: home.take(made[files], rows))
        finally:
            home.remove()

    return in_turn(rounds, {n: partial(once, n) for n in sizes})


def over_parts(folder: Path, sizes: Sequence[int], rows: int, rounds: int) -> Measured:
    """Measure shards of the same rows in this many parts, in turn."""
    from benchmarks import spark_read  # loads PySpark

    stores = {}
    for n in sizes:
        place = folder / f"parts-{n}"
        place.mkdir(parents=True)
        store = StoreSettings(f"file://{place}/blob", f"sqlite:///{place}/state.db")
        spark_read.build(Settings(store), n, rows // n)
        stores[n] = open_stores(store)

    def once(parts: int, found: Measured) -> None:
        here, name = stores[parts], spark_read.NAME

        def read() -> int:
            state = Machine(here).load(name)
            return sum(b.num_rows for b in scan(here, state, plan_read(here, state)))

        assert found["full read"][parts].measure(read, again=True) == rows // parts * parts
        kept = found["filtered plan"][parts].measure(lambda: plan_last(here, name), again=True)
        assert kept < max(2, parts / 20), kept
        found["commit"][parts].measure(lambda: commit_empty(here, name), again=True)

    return in_turn(rounds, {n: partial(once, n) for n in sizes})


def in_turn(rounds: int, turns: Mapping[int, Callable[[Measured], None]]) -> Measured:
    """Return what the turns measure in these rounds, after one of the smallest that warms up."""
    pa.set_cpu_count(2)
    turns[min(turns)](costs_by_size())
    found = costs_by_size()
    for _ in range(rounds):
        for turn in turns.values():
            turn(found)
    return found


def medians(costs: Mapping[float, Costs]) -> dict[str, list[float]]:
    """Return the sizes and the medians of CPU time and clock."""
    sizes = sorted(costs)
    return {
        "sizes": sizes,
        "cpu": [median(costs[n].cpu) for n in sizes],
        "wall": [median(costs[n].wall) for n in sizes],
    }
