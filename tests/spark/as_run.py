"""Law 2 on the filter as Spark really runs it: code generated or not, conditions derived or not.

`python -m tests.spark.as_run --worlds 4 --filters 500 --seed 1` tries that many in each session.
`tests.spark.pushdown` evaluates hundreds of filters as columns of one job, interpreted: quick,
and blind to what Spark does with a filter. Here each filter is a filter: it runs on the rows of
exactly those parts that it would skip, and may neither accept one nor fail. The filters are made
to tempt Spark: null tests in front of what fails, factors that are repeated, equalities of
columns, Python functions in branches, constants that are no UTF-8.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.prune import decide
from strata.spark.catalyst import analyse
from strata.spark.rowfilter import row_filter
from strata.spark.rows import part_rows, quoted
from strata.spark.session import spark_session
from tests.spark.answers import SESSIONS, session
from tests.spark.predicates import NOW_US, Predicates, stopped
from tests.spark.pushdown import PART, Manifests
from tests.spark.worlds import World, build

NO_UTF8: Final = ("cast(X'ff' as string)", "cast(X'f09f' as string)", "cast(X'eda080' as string)")
POISON: Final = 7  # the Python function fails on ids that are a multiple of it


@dataclass
class Tally:
    """What was tried, and how much of it said something."""

    filters: int = 0
    refused: int = 0
    pruning: Counter[str] = field(default_factory=Counter)  # filters that skip, by who runs them
    shapes: Counter[str] = field(default_factory=Counter)  # of those that skip
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the counts on one line."""
        return (
            f"filters {self.filters:,}, refused {self.refused}, pruning {dict(self.pruning)}, "
            f"wrong {len(self.wrong)}"
        )


class Tempting:
    """Draws filters of shapes that Spark evaluates in another order than they are written."""

    def __init__(self, rng: random.Random, world: World, only: Sequence[str] = ()) -> None:
        """`only`: the names of shapes; none: all of them."""
        self._rng = rng
        self._plain = Predicates(rng, world.state.relation)
        columns = world.state.relation.columns
        self._names = [quoted(c.name) for c in columns]
        leaves = self._plain.leaves
        self._whole = leaves["int"] + leaves["long"]
        self._columns = [text for text in self._whole if text in self._names]
        self._texts = leaves["text"] or ["cast(id as string)"]
        shapes = (
            self._null_first, self._factor, self._absorbed, self._equated, self._repeated,
            self._called, self._bytes, self._branch, self._between, self._plain.filter,
        )  # fmt: skip
        self._shapes = [s for s in shapes if not only or s.__name__.strip("_") in only]

    def filter(self) -> tuple[str, str]:
        """Return the name of a shape, and a filter of it."""
        shape = self._pick(self._shapes)
        return shape.__name__.strip("_"), shape()

    def _pick(self, choices: Sequence) -> object:  # type: ignore[type-arg]
        return self._rng.choice(choices)

    def _failing(self) -> str:
        """Return a condition that fails on some rows."""
        whole, text = self._pick(self._whole), self._pick(self._texts)
        number = self._pick((-1, 0, 1, 2, 5, 9, 12))
        return str(
            self._pick((
                f"1 / ({whole} - {number}) > 0.1", f"cast({text} as int) > {number}",
                f"cast({text} as date) > date'2013-01-01'", f"10 % {whole} = {number}",
                f"cast({whole} * 1000 as smallint) > {number}", self._plain.boolean(2),
            ))
        )  # fmt: skip

    def _proving(self) -> str:
        """Return a condition that statistics decide for many parts."""
        low = self._rng.randrange(0, 190)
        return str(
            self._pick((
                f"id < {low}", f"id > {low}", f"id between {low} and {low + 12}",
                f"id in ({low}, {low + 1})", f"{self._pick(self._names)} is null",
                f"{self._pick(self._names)} is not null", self._plain.boolean(1),
            ))
        )  # fmt: skip

    def _null_first(self) -> str:
        name = self._pick(["added", "later", *self._names])
        test = self._pick((f"{name} is not null", f"not ({name} is null)", f"isnotnull({name})"))
        return f"{test} and {self._proving()} and {self._failing()}"

    def _factor(self) -> str:
        failing = self._failing()
        return f"({self._proving()} and {failing}) or ({self._proving()} and {failing})"

    def _absorbed(self) -> str:
        test = f"coalesce({self._proving()}, false)"
        return f"(not {test} or {self._failing()}) and {test}"

    def _equated(self) -> str:
        one, other = self._pick(self._columns), self._pick(self._columns)
        equal = self._pick((
            f"{one} = {other}", f"not ({one} <> {other})", f"({one} = {other}) = true",
            f"({one} = {other} or {one} = {other})", f"{one} <=> {other}",
        ))  # fmt: skip
        return f"{self._proving()} and {equal} and 1 / ({one} - {self._pick((0, 1, 5))}) > 0.1"

    def _repeated(self) -> str:
        failing, proving = self._failing(), self._proving()
        wrapped = f"({failing} or not ({failing}))"
        return str(
            self._pick((
                f"{proving} and {wrapped}", f"coalesce({proving} and {wrapped}, false)",
                f"not (not ({proving}) or {wrapped})",
            ))
        )  # fmt: skip

    def _called(self) -> str:
        return str(
            self._pick((
                f"(case when {self._proving()} then id else boom(id) end) > 3",
                f"coalesce(id, boom(id)) > 3 and {self._proving()}",
                f"boom(id) > 3 and {self._proving()}", f"{self._proving()} and boom(id) > 3",
                f"if({self._proving()}, id, boom(id)) > 3",
            ))
        )  # fmt: skip

    def _bytes(self) -> str:
        text, constant = self._pick(self._texts), self._pick(NO_UTF8)
        return str(
            self._pick((
                f"{text} < {constant}", f"{text} >= {constant}", f"not ({text} > {constant})",
                f"{text} between 'a' and {constant}", f"startswith({text}, {constant})",
                f"{text} in ('a', {constant})", f"{text} <> {constant} and {self._proving()}",
            ))
        )  # fmt: skip

    def _branch(self) -> str:
        return f"if({self._proving()}, {self._failing()}, {self._pick(('false', 'true', 'null'))})"

    def _between(self) -> str:
        whole = self._pick(self._whole)
        conjuncts = [self._proving(), f"1 / ({whole} - 1) between 0.1 and 5"]
        self._rng.shuffle(conjuncts)
        return " and ".join(conjuncts)


@dataclass(frozen=True)
class Rows:
    """The rows of a world, part by part, as Spark has them."""

    manifests: Manifests
    frame: DataFrame

    @classmethod
    def of(cls, spark: SparkSession, world: World) -> "Rows":
        """Load them; they stay on the driver."""
        manifests, state = Manifests.of(world), world.state
        rows = part_rows(
            spark, world.settings.store, state.relations, manifests.refs, part_column=PART
        )
        return cls(manifests, rows.coalesce(1).localCheckpoint())

    def of_parts(self, keys: Sequence[str]) -> DataFrame:
        """Return the rows of some parts; filters above are not combined with this choice.

        Spark moves neither filters nor projections below what is observed.
        """
        chosen = self.frame.where(self.frame[PART].isin(list(keys)))
        return chosen.observe("rows", F.count(F.lit(1))).drop(PART)


def try_filters(
    spark: SparkSession, world: World, rows: Rows, texts: Sequence[tuple[str, str]], tally: Tally
) -> None:
    """Try filters in this session, run by Strata and run by Spark."""
    relation, manifests = world.state.relation, rows.manifests
    for shape, text in texts:
        tally.filters += 1
        for ordered in (True, False):
            where = stopped(text)
            try:
                filter = analyse(spark, relation, where, now=NOW_US, ordered=ordered)
            except InvalidRequest:
                tally.refused += 1
                break
            skipped = _skipped(filter, world, manifests)
            if not skipped:
                continue
            tally.pruning["ours" if ordered else "spark's"] += 1
            tally.shapes[shape] += 1
            left = rows.of_parts(skipped)
            found = _found(row_filter(spark, left, where, NOW_US) if ordered else left.where(where))
            if found:
                whose = "our filter" if ordered else "Spark's filter"
                tally.wrong.append(f"world {world.seed}: {whose} {found} on skipped parts: {text}")


def _skipped(filter: Filter, world: World, manifests: Manifests) -> list[str]:
    keep = decide(filter, manifests.stats, world.state.relation).keep
    return [ref.key for ref, kept in zip(manifests.refs, keep, strict=True) if not kept]


def _found(frame: DataFrame) -> str:
    """Return what a filter does on rows that it should not touch; empty: nothing.

    What fails while Spark plans, fails whatever parts there are.
    """
    try:
        frame._jdf.queryExecution().optimizedPlan()
    except (PySparkException, Py4JJavaError):
        return ""
    try:
        rows = frame.select("id").collect()
    except (PySparkException, Py4JJavaError) as error:
        return f"fails ({str(error).splitlines()[0][:100]})"
    return f"accepts {len(rows)} rows" if rows else ""


def register(spark: SparkSession) -> None:
    """Register the Python function that the filters call."""

    def boom(number: int) -> int:
        if number % POISON == 0:
            raise ValueError("poison")
        return number

    spark.udf.register("boom", boom, LongType())


def try_world(
    spark: SparkSession, world: World, filters: int, tally: Tally, sessions: Sequence[str]
) -> None:
    """Try random filters on a world, the same in each session."""
    draw = Tempting(random.Random(world.seed), world)
    texts = [draw.filter() for _ in range(filters)]
    rows = Rows.of(spark, world)
    for name in sessions:
        with session(spark, **SESSIONS[name]):
            try_filters(spark, world, rows, texts, tally)


def main(argv: Sequence[str] | None = None) -> int:
    """Try many worlds and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--filters", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--session", choices=[*SESSIONS], action="append")
    options = parser.parse_args(argv)
    from strata.model.settings import SparkSettings

    settings = SparkSettings(master="local[2]", driver_memory_mib=1536, shuffle_partitions=2)
    tally, names = Tally(), options.session or [*SESSIONS]
    with spark_session("as_run", settings) as spark:
        register(spark)
        for seed in range(options.seed, options.seed + options.worlds):
            began, before = time.monotonic(), len(tally.wrong)
            with tempfile.TemporaryDirectory() as folder:
                try_world(spark, build(Path(folder), seed), options.filters, tally, names)
            new = [f"WRONG {what}\n" for what in tally.wrong[before:]]
            report = f"world {seed}: {time.monotonic() - began:.1f} s; {tally}\n"
            sys.stdout.write("".join([report, *new]))
            sys.stdout.flush()
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
