"""Law 2 on the filter as Spark really runs it: code generated or not, conditions derived or not.

`python -m tests.spark.as_run --worlds 40 --filters 500 --seed 200` tries 20,000 in each session.
`tests.spark.pushdown` evaluates hundreds of filters as columns of one job, interpreted: quick,
and blind to what Spark does with a filter. Here each filter is a filter: it runs on the rows of
exactly what it would skip, and may neither accept one nor fail. It is tried twice in each session:
as Strata runs it (`strata.spark.snapshot`), and as Spark runs it where the decision comes with the
option `where`. What a filter does on rows that are read is the same, skipping or not.

Cost: 0.1 s of a processor for a filter in a session, once the JVM is warm; two thirds of it Spark's
(analysis, optimiser, generated code), one third Python's. `tests.spark.together` says what keeps
it there.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from strata.decide.decision import decide
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.expr.exprjson import dump_filter, load_filter
from strata.expr.filter import Filter
from strata.session.session import spark_session
from strata.spark.front.catalyst import analyse
from strata.spark.front.rowfilter import row_filter
from tests.spark.answers import SESSIONS, session
from tests.spark.predicates import NOW_US, stopped
from tests.spark.tempting import Tempting, register
from tests.spark.together import Asked, Piece, Rows, remembered_names, troubles
from tests.spark.worlds import World, build

COLLECTOR: Final = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}  # no threads beside
PLANNED: Final = 5  # one filter in so many is planned as a read is planned
AT_ONCE: Final = 20  # filters of one Spark job


@dataclass
class Tally:
    """What was tried, and how much of it said something."""

    filters: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    seconds: Counter[str] = field(default_factory=Counter)
    pruning: Counter[str] = field(default_factory=Counter)  # filters that skip, by who runs them
    shapes: Counter[str] = field(default_factory=Counter)  # of those that skip
    wrong: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Count the seconds that something takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[what] += time.monotonic() - began

    def __str__(self) -> str:
        """Return the counts on one line."""
        return (
            f"filters {dict(self.filters)}, refused {self.refused}, pruning {dict(self.pruning)}, "
            f"wrong {len(self.wrong)}, seconds { {k: round(v) for k, v in self.seconds.items()} }"
        )


class Net:
    """Tries filters on the rows of a shard, in some sessions, run by Strata and run by Spark."""

    def __init__(self, rows: Rows, tally: Tally, where: str, planned: int = PLANNED) -> None:
        """`where` names the shard; one filter in `planned` is planned as a read plans it."""
        self._spark, self._rows, self._tally, self._where = rows.spark, rows, tally, where
        self._planned = planned
        self._known: dict[tuple[str, bool], Filter] = {}  # of the session before, by text

    def try_filters(self, texts: Sequence[tuple[str, str]], sessions: Sequence[str]) -> None:
        """Try filters, each the text of a shape.

        The sessions take turns with a few filters: what they generate alike is compiled once.
        """
        for start in range(0, len(texts), AT_ONCE):
            for name in sessions:
                with session(self._spark, **SESSIONS[name]):
                    self._try(texts[start : start + AT_ONCE], name)
            self._known.clear()

    def _try(self, texts: Sequence[tuple[str, str]], name: str) -> None:
        asked: list[Asked] = []
        for number, (shape, text) in enumerate(texts):
            self._tally.filters[name] += 1
            found = list(self._asked(text, 2 * number, name))
            self._tally.shapes[shape] += len(found)
            asked += found
        with self._tally.timed("running"):
            for one, trouble in troubles(self._spark, asked):
                said = f"{self._where}, {name}: {trouble} of what is skipped: {one.what}"
                self._tally.wrong.append(said)

    def _asked(self, text: str, number: int, name: str) -> Iterator[Asked]:
        """Yield a filter on what it skips, as Strata runs it and as Spark does."""
        for ordered in (True, False):
            try:
                with self._tally.timed("analysing"):
                    filter = self._analysed(text, name, number, ordered=ordered)
            except InvalidRequest:
                self._tally.refused += 1
                return
            left_out = self._left_out(filter, number)
            if not left_out:
                continue
            self._tally.pruning["ours" if ordered else "spark's"] += 1
            with self._tally.timed("asking"):
                left = self._rows.of_pieces(left_out)
                if ordered:
                    what, frame = "our filter", row_filter(self._spark, left, text, NOW_US)
                else:
                    what, frame = "Spark's filter", left.where(stopped(text))
            yield Asked(number + (not ordered), f"{what} {text}", frame)

    def _analysed(self, text: str, name: str, number: int, *, ordered: bool) -> Filter:
        """Return what a session makes of a filter, as it is handed over to whoever decides.

        Whether code is generated says nothing to the analysis: one in ten is compared.
        """
        known = self._known.get((text, ordered)) if name == "uncompiled" else None
        if known is not None and number % 20:
            return known
        filter = analyse(self._spark, self._rows.state.relation, text, now=NOW_US, ordered=ordered)
        if not ordered:
            filter = _given_as_option(filter)
        # As text: NaN is not equal to itself.
        if known is not None and dump_filter(known) != dump_filter(filter):
            self._tally.wrong.append(f"{self._where}: analysed otherwise uncompiled: {text}")
        if name == "stock":
            self._known[text, ordered] = filter
        return filter

    def _left_out(self, filter: Filter, number: int) -> list[Piece]:
        """Return what is not read: of all parts by their statistics, or of batches and row groups.

        Units: number counts by two.
        """
        rows = self._rows
        if number // 2 % self._planned == 0:
            return rows.left_out(plan_read(rows.stores, rows.state, filter=filter, mode="on"))
        keep = decide(filter, rows.manifests.stats, rows.state.relation).keep
        refs = rows.manifests.refs
        gone = {ref.key for ref, kept in zip(refs, keep, strict=True) if not kept}
        return [piece for piece in rows.pieces if piece[0] in gone]


def _given_as_option(filter: Filter) -> Filter:
    """Return a filter as the option `where` hands it over."""
    return load_filter(dump_filter(filter))


def try_world(
    spark: SparkSession, world: World, filters: int, tally: Tally, sessions: Sequence[str]
) -> None:
    """Try random filters on a world, the same in each session."""
    draw = Tempting(random.Random(world.seed), world.state.relation)
    texts = [draw.filter() for _ in range(filters)]
    with tally.timed("loading"):
        rows = Rows(spark, world.stores, world.state)
    Net(rows, tally, f"world {world.seed}").try_filters(texts, sessions)


def main(argv: Sequence[str] | None = None) -> int:
    """Try many worlds and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--filters", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--session", choices=[*SESSIONS], action="append")
    options = parser.parse_args(argv)
    from strata.model.settings import SparkSettings

    settings = SparkSettings(master="local[1]", driver_memory_mib=1536, shuffle_partitions=1)
    tally, names = Tally(), options.session or [*SESSIONS]
    with remembered_names(), spark_session("as_run", settings, COLLECTOR) as spark:
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
