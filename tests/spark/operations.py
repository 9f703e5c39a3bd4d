"""Law 2 between operations: a random walk over a small shard, filters tried after each step.

`python -m tests.spark.operations --walks 20 --steps 30 --seed 1` walks that often. A step appends,
retracts, changes the columns or the sort order, collects or trims statistics, compacts or migrates.
Then filters are tried as `tests.spark.as_run` tries them, on each row group that the read of the
shard as it is now leaves out; some are asked with pushdown off and on, on every way there is.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.format.columns import D, T, updates_schema
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Selection
from strata.maintain.schema import change_schema
from strata.maintain.trim import trim_shard
from strata.model.schema import Column, Relation
from strata.model.settings import CompactSettings, Settings, StoreSettings
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.read.scan import scan
from strata.session.session import spark_session
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, SortBy, WidenColumn
from strata.state.state import State
from strata.store.open import open_stores
from tests.spark.answers import PUSHED, SESSIONS, WAYS, Shard, answer, read, session
from tests.spark.as_run import COLLECTOR, Net, Tally
from tests.spark.tempting import Tempting, register
from tests.spark.together import Rows, remembered_names
from tests.spark.worlds import random_updates
from tests.support.shards import let_skip
from tests.support.stored import append, create

COLUMNS: Final = {
    "id": "int64",
    "n": "int32",
    "s": "string",
    "at": "timestamptz",
    "j": "jsonb",
    "l": "list<int32>",
    "x": "float32",
}
ADDED: Final = (
    AddColumn("added", parse_type("int32"), default=5),
    AddColumn("later", parse_type("timestamptz")),
    AddColumn("word", parse_type("string"), default="k1"),
    AddColumn("word", parse_type("string")),
    AddColumn("b", parse_type("int64"), nullable=False, default=50),
)
WIDER: Final = {"int32": "int64", "float32": "float64"}
SORTED: Final = frozenset({"n", "s", "at", "id"})
REFUSED: Final = 20  # changes in a row
SPAN: Final = 100  # times of a batch
MOST: Final = 4  # batches after which the walk compacts by itself
AGAIN: Final = 0.7  # of backfills: few parts lack statistics, and those are soon merged
STREAMED: Final = "stream"


class Walk:
    """A shard on disk, and the operations that may come next."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Create the shard, with some rows in it."""
        self.seed, self._rng, self._batches, self._ids = seed, random.Random(seed), 0, 0
        self.filters = random.Random(f"filters of {seed}")  # the draw of those who ask
        self.steps: list[str] = []
        self.collected = 0  # parts of which a backfill has collected the statistics
        columns = [
            Column(i, n, parse_type(t), n != "id") for i, (n, t) in enumerate(COLUMNS.items(), 1)
        ]
        relation = Relation(0, tuple(columns), (1,), ())
        where = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
        config = folder / "strata.toml"
        config.write_text(f'[store]\nblob = "{where.blob}"\nconsensus = "{where.consensus}"\n')
        self.shard = Shard(Settings(where), str(config), "walk")
        self.stores = open_stores(where)
        self.machine = Machine(self.stores)
        budget = self._rng.choice((60, 300, 100_000))
        create(
            self.stores,
            relation,
            name=self.shard.name,
            part_bytes=8192,
            row_group_bytes=1024,
            stats=StatsSpec(budget_bytes=budget),
        )
        let_skip(self.stores, self.shard.name)
        self.append()

    @property
    def state(self) -> State:
        """Return the newest state."""
        return self.machine.load(self.shard.name)

    def step(self) -> str:
        """Do what comes next, and say what it was."""
        operations: Mapping[str, Callable[[], object]] = {
            "append": self.append,
            "retract": self.retract,
            "evolve": self.evolve,
            "backfill": self.backfill,
            "trim": self.trim,
            "compact": self.compact,
            "migrate": self.migrate,
        }
        name = self._rng.choice((*operations, "append", "retract", "evolve"))
        if len(self.state.batches) > MOST:
            name = self._rng.choice(("compact", "migrate"))
        said = operations[name]()
        self.steps.append(f"{name} {said}" if isinstance(said, str) else name)
        return name

    def append(self) -> str:
        """Append a batch of new rows, in runs that overlap or not."""
        relation = self.state.relation
        runs = []
        for _ in range(self._rng.choice((1, 2, 3))):
            runs.append(random_updates(relation, self._lower, self._ids, 12, self._rng, SPAN))
            self._ids += 12 if self._rng.random() < 0.8 else 3
        return self._written(runs)

    def retract(self) -> str:
        """Take rows back that are there, and put others in their place."""
        state = self.state
        schema, plan = updates_schema(state.relation), plan_read(self.stores, state)
        found = list(scan(self.stores, state, plan, consolidate=True, stored=True))
        if not sum(batch.num_rows for batch in found):
            return self.append()
        rows = pa.Table.from_batches(found).rename_columns(schema.names)
        chosen = rows.take(self._rng.sample(range(rows.num_rows), min(rows.num_rows, 9)))
        times = pa.array([self._lower + self._rng.randrange(SPAN)] * chosen.num_rows, pa.int64())
        chosen = chosen.set_column(chosen.schema.get_field_index(T), T, times)
        chosen = chosen.set_column(chosen.schema.get_field_index(D), D, pc.negate(chosen[D]))
        chosen = chosen.cast(schema)
        # Alone in its part, or among rows that come: statistics have to know it in both.
        new = random_updates(state.relation, self._lower, self._ids, 6, self._rng, SPAN)
        self._ids += 6
        apart = self._rng.random() < 0.5
        return self._written([chosen, new] if apart else [pa.concat_tables([chosen, new])])

    def evolve(self) -> str:
        """Change the columns, or the order in which rows are sorted."""
        for _ in range(REFUSED):
            change = self._change(self.state.relation)
            try:
                change_schema(self.machine, self.shard.name, change)
            except InvalidRequest:  # the rows are in this order already, say
                continue
            return str(change)
        raise AssertionError("a shard refuses every change")

    def _change(self, relation: Relation) -> Change:
        free = [c for c in relation.columns if c.id not in (*relation.order, *relation.key)]
        new = [a for a in ADDED if a.name not in relation.by_name]
        wider = [c for c in free if str(c.type) in WIDER]
        draws: list[Callable[[], Change]] = [
            lambda: self._rng.choice(new),
            lambda: self._rng.choice(new),
            lambda: DropColumn(self._rng.choice(free).name),
            lambda: self._renamed(self._rng.choice(free)),
            lambda: self._widened(self._rng.choice(wider)),
            lambda: SortBy(tuple(self._rng.sample(sorted(SORTED & relation.by_name.keys()), 2))),
        ]
        for draw in self._rng.sample(draws, len(draws)):
            try:
                return draw()
            except IndexError:  # there is nothing to choose from
                continue
        raise AssertionError("there is always another order")

    @staticmethod
    def _renamed(column: Column) -> Change:
        name = column.name.removesuffix("_new")
        return RenameColumn(column.name, f"{name}_new" if name == column.name else name)

    @staticmethod
    def _widened(column: Column) -> Change:
        return WidenColumn(column.name, parse_type(WIDER[str(column.type)]))

    def backfill(self) -> str:
        """Collect the statistics that are not there, or all of them again."""
        again = self._rng.random() < AGAIN
        report = backfill_shard(self.stores, self.shard.name, Selection(again=again))
        self.collected += report.parts_changed
        return f"{report.parts_changed} parts"

    def trim(self) -> str:
        """Make statistics fit a smaller budget."""
        budget = self._rng.choice((0, 60, 120, 200, 400))
        trim_shard(self.stores, self.shard.name, budget_bytes=budget)
        return str(budget)

    def compact(self) -> str:
        """Merge what is due, or everything; times that are old enough are no longer told apart."""
        full, history = self._rng.random() < 0.5, self._rng.choice((None, SPAN, 3 * SPAN))
        self._compact(history, full=full)
        return f"full={full} history={history}"

    def migrate(self) -> None:
        """Rewrite what is in older columns, another layout or another order."""
        self._compact(None, migrate=True)

    def _compact(self, history: int | None, *, full: bool = False, migrate: bool = False) -> None:
        settings = Settings(self.shard.settings.store, compact=CompactSettings(history_ms=history))
        compact_shard(self.stores, self.shard.name, settings, full=full, migrate=migrate)

    @property
    def _lower(self) -> int:
        return self._batches * SPAN

    def _written(self, runs: Sequence[pa.Table]) -> str:
        layout = self._rng.choice(("row", "both", "structured", "structured", "structured"))
        append(self.stores, self.shard.name, self._lower, self._lower + SPAN, runs, layout)
        self._batches += 1
        return layout


def try_walk(
    spark: SparkSession,
    walk: Walk,
    steps: int,
    tally: Tally,
    filters: int = 10,
    ways: Sequence[str] = (*WAYS, STREAMED),
) -> None:
    """Try filters after each step, in the sessions one after the other; ask some on every way.

    `ways`: none, and no read is asked as a whole.
    """
    for _ in range(steps):
        number = len(walk.steps)
        walk.step()
        tally.shapes[walk.steps[-1].split()[0]] += 1
        where = f"walk {walk.seed} after {walk.steps[-1]} (step {number + 1})"
        with tally.timed("loading"):
            rows = Rows(spark, walk.stores, walk.state)
        draw = Tempting(walk.filters, walk.state.relation)
        texts = [draw.filter() for _ in range(filters)]
        name = [*SESSIONS][number % len(SESSIONS)]
        Net(rows, tally, where, planned=1).try_filters(texts, [name])
        if ways:
            way = ways[number % len(ways)]
            _, text = walk.filters.choice(texts)
            with tally.timed("reading"), session(spark, **SESSIONS[name]):
                off, on = answers(spark, walk.shard, text, way)
            tally.pruning["reads"] += 1
            # Where several rows fail, it is a race which is the first.
            if off != on and not (isinstance(off, str) and isinstance(on, str)):
                tally.wrong.append(f"{where}, {name}, {way}: {off} -> {on}: {text}")


def answers(spark: SparkSession, shard: Shard, text: str, way: str) -> tuple[Any, Any]:
    """Return what comes of a filter, pushdown off and on: how often each id is there, or why not.

    A stream has no pushdown: its filtered changes add up to the filtered snapshot.
    """
    off_way = "snapshot" if way == STREAMED else way
    with session(spark, **{PUSHED: str(way == "source").lower()}):
        off = _counted(answer(lambda: read(spark, shard, text, "off", off_way).select("id", "d")))
        if way == STREAMED:
            on = streamed(spark, shard, text)
            # Rows that were taken back since are in the stream, and may fail.
            return (off, on) if isinstance(off, Counter) and isinstance(on, Counter) else ("", "")
        on = _counted(answer(lambda: read(spark, shard, text, "on", way).select("id", "d")))
    return off, on


def _counted(found: Any) -> Any:
    if not isinstance(found, list):
        return found
    counts: Counter[int] = Counter()
    for number, diff in found:
        counts[number] += diff
    return Counter({number: count for number, count in counts.items() if count})


def streamed(spark: SparkSession, shard: Shard, text: str) -> Any:
    """Return what the filtered changes of a shard add up to, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        stream = spark.readStream.format("strata").options(shard=shard.name, config=shard.config)

        def ask() -> Any:
            query = (
                stream.load()
                .where(text)
                .select("id", "d")
                .writeStream.format("parquet")
                .trigger(availableNow=True)
                .option("checkpointLocation", f"{folder}/checkpoint")
                .start(f"{folder}/out")
            )
            query.awaitTermination()
            return spark.read.schema("id bigint, d bigint").parquet(f"{folder}/out")

        return _counted(answer(ask))


def main(argv: Sequence[str] | None = None) -> int:
    """Walk often and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=20)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--filters", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    from strata.model.settings import SparkSettings

    settings = SparkSettings(master="local[1]", driver_memory_mib=1536, shuffle_partitions=1)
    tally = Tally()
    with remembered_names(), spark_session("operations", settings, COLLECTOR) as spark:
        register(spark)
        for seed in range(options.seed, options.seed + options.walks):
            began, before = time.monotonic(), len(tally.wrong)
            with tempfile.TemporaryDirectory() as folder:
                walk = Walk(Path(folder), seed)
                try_walk(spark, walk, options.steps, tally, options.filters)
            new = [f"WRONG {what}\n" for what in tally.wrong[before:]]
            report = f"walk {seed}: {time.monotonic() - began:.1f} s; {tally}\n"
            sys.stdout.write("".join([report, *new]))
            sys.stdout.flush()
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
