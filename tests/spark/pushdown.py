"""Law 2 through Spark: what is skipped holds no row that a filter accepts or fails on.

`python -m tests.spark.pushdown --worlds 40 --filters 500 --seed 1` tries that many; the tests run
a slice. The filters of a world are judged together: each is analysed, optimised as Spark
optimises it over a scan, and becomes one column that is true, false, null or failed on every row,
rows being tagged with their part. So hundreds of filters cost one Spark job.
"""

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strata.decide.blooms import with_bits
from strata.decide.decision import decide
from strata.decide.descent import load_manifest
from strata.decide.plan import plan_read
from strata.decide.question import known_of
from strata.decide.static import outlook
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.format.manifest import PartRef, part_refs, unify
from strata.session.session import spark_session
from strata.spark import snapshot
from strata.spark.front.catalyst import analyse
from strata.spark.front.rowfilter import row_filter
from strata.spark.rows import part_rows
from strata.state.state import State
from strata.store.open import Stores
from tests.spark.predicates import NOW_US, Predicates, stopped
from tests.spark.worlds import NAME, World, build

PART = "__part"
OPTIMISED = 5  # one filter in so many is judged as Spark optimises it, the others as written
AT_ONCE = 120
WORKER = "PythonException"  # a failure of Strata's own code
_TELLING = re.compile(r"between|nullif|\(`\w+` = ")
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass
class Tally:
    """What was tried, and how much of it said something."""

    filters: int = 0
    refused: int = 0  # by Spark's analysis
    hopeless: int = 0  # a constant in it fails while Spark plans: with any rows, or none
    parts: int = 0
    skipped: int = 0
    pruning: int = 0  # filters that skip some part
    failing: int = 0  # filters that fail on some row
    failing_and_pruning: int = 0
    reads: int = 0  # whole reads with pushdown on and off
    other_errors: int = 0  # of these, where another row was the first to fail
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the counts on one line."""
        shown = {k: v for k, v in vars(self).items() if k != "wrong"}
        return ", ".join(f"{k} {v:,}" for k, v in shown.items()) + f", wrong {len(self.wrong)}"


@dataclass(frozen=True)
class Judged:
    """A filter that Spark accepts, and the parts it accepts rows of or fails on."""

    sql: str
    filter: Filter
    true: frozenset[str]
    failing: frozenset[str]


@dataclass(frozen=True)
class Failure:
    """The error that a read ended with."""

    kind: str
    condition: str


@dataclass(frozen=True)
class Manifests:
    """What is known of all parts of a world, as tables."""

    refs: list[PartRef]
    stats: pa.Table

    @classmethod
    def of(cls, stores: Stores, state: State) -> "Manifests":
        """Load them."""
        tables = [load_manifest(stores, state, b) for b in state.batches if b.manifest]
        refs = [ref for table in tables for ref in part_refs(table)]
        known = unify([known_of(table, state.relations) for table in tables])
        return cls(refs, with_bits(stores.blob, known))


def judge(
    spark: SparkSession, world: World, parts: Manifests, texts: Sequence[str], tally: Tally
) -> list[Judged]:
    """Evaluate filters on all rows of a world; errors stay with their row and filter."""
    state = world.state
    rows = part_rows(spark, world.settings.store, state.relations, parts.refs, part_column=PART)
    frame = rows.coalesce(1).localCheckpoint()
    found: list[tuple[str, Filter, Column]] = []
    for number, text in enumerate(texts):
        tally.filters += 1
        try:
            filter = analyse(spark, state.relation, text, now=NOW_US)
        except InvalidRequest:
            tally.refused += 1
            continue
        # Common expressions (of between, nullif) would be evaluated outside of the guard; what
        # a column equals, Spark writes in its place.
        optimised = number % OPTIMISED == 0 or bool(_TELLING.search(text))
        try:
            conditions = _optimised(spark, frame, text) if optimised else [F.expr(stopped(text))]
        except (Py4JJavaError, PySparkException):
            tally.hopeless += 1
            continue
        found.append((text, filter, _guarded(spark, conditions)))
    chunks = [found[start : start + AT_ONCE] for start in range(0, len(found), AT_ONCE)]
    return [one for chunk in chunks for one in _answers(frame, chunk, tally)]


def _answers(
    frame: DataFrame, chunk: Sequence[tuple[str, Filter, Column]], tally: Tally
) -> Iterator[Judged]:
    """Yield what one Spark job says of some filters, or several if one of them is hopeless."""
    try:
        yield from _of_job(frame, chunk)
    except PySparkException:
        if len(chunk) == 1:
            tally.hopeless += 1
            return
        half = len(chunk) // 2
        yield from _answers(frame, chunk[:half], tally)
        yield from _answers(frame, chunk[half:], tally)


def _of_job(frame: DataFrame, chunk: Sequence[tuple[str, Filter, Column]]) -> Iterator[Judged]:
    failed = [g.isNull().alias(f"f{n}") for n, (_, _, g) in enumerate(chunk)]
    true = [g.getField("v").alias(f"v{n}") for n, (_, _, g) in enumerate(chunk)]
    table = frame.select(PART, *failed, *true).toArrow()
    for n, (text, filter, _) in enumerate(chunk):
        yield Judged(text, filter, *(_keys(table[PART], table[f"{c}{n}"]) for c in "vf"))


def _keys(parts: pa.ChunkedArray, where: pa.ChunkedArray) -> frozenset[str]:
    return frozenset(parts.filter(where).to_pylist())


def _guarded(spark: SparkSession, conditions: Sequence[Column]) -> Column:
    """Return the first condition in a struct; null where any of them fails."""
    jvm = spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    boxed = F.struct(*(c.alias("v" if n == 0 else f"e{n}") for n, c in enumerate(conditions)))
    inner = jvm.classic.ExpressionUtils.expression(boxed._jc)
    return Column(jvm.classic.ExpressionUtils.column(jvm.catalyst.expressions.TryEval(inner)))


def _optimised(spark: SparkSession, frame: DataFrame, text: str) -> list[Column]:
    """Return what Spark makes of a filter on a scan, then what it evaluates before the filter.

    Conditions that it moves below a common expression leave rows out before that is evaluated.
    """
    plan = row_filter(spark, frame, text, NOW_US)._jdf.queryExecution().optimizedPlan()
    # A projection drops the common expressions again; the sample is a fence, of all rows.
    while plan.nodeName() in ("Project", "Sample"):
        plan = plan.child()
    if plan.nodeName() == "LocalRelation":  # folded: nothing passes
        return [F.lit(False)]
    if plan.nodeName() != "Filter":  # folded: everything passes
        return [F.lit(True)]
    nodes = [plan]
    while nodes[-1].child().nodeName() in ("Filter", "Project", "Sample"):
        nodes.append(nodes[-1].child())
    nodes = [node for node in nodes if node.nodeName() != "Sample"]
    passed, before, aliases = None, [], {}
    for node in reversed(nodes):  # as a row goes, from the scan up
        trees = [node.condition()] if node.nodeName() == "Filter" else _named(node, aliases)
        columns = [_as_column(spark, _spelt(spark, tree, aliases)) for tree in trees]
        if passed is not None:
            columns = [F.when(passed, column) for column in columns]
        if node.nodeName() == "Filter":
            passed = columns[0]
        else:
            before += columns
    assert passed is not None
    return [passed, *before]


def _named(project: JavaObject, aliases: dict[int, JavaObject]) -> list[JavaObject]:
    """Return the expressions that a projection gives a name to, which are noted."""
    named = project.projectList()
    chosen = [named.apply(i) for i in range(named.size())]
    found = {n.exprId().id(): n.child() for n in chosen if n.nodeName() == "Alias"}
    aliases |= found
    return list(found.values())


def _spelt(spark: SparkSession, node: JavaObject, aliases: dict[int, JavaObject]) -> JavaObject:
    """Return an expression with common expressions in place of the names invented for them."""
    if not aliases:
        return node
    if node.getClass().getSimpleName() == "AttributeReference" and node.exprId().id() in aliases:
        return _spelt(spark, aliases[node.exprId().id()], aliases)
    children = node.children()
    spelt = [_spelt(spark, children.apply(i), aliases) for i in range(children.size())]
    return node.withNewChildren(spark._jvm.PythonUtils.toSeq(spelt))  # type: ignore[union-attr]


def _as_column(spark: SparkSession, expression: JavaObject) -> Column:
    utils = spark._jvm.org.apache.spark.sql.classic.ExpressionUtils  # type: ignore[union-attr]
    return Column(utils.column(expression))


def check(world: World, parts: Manifests, judged: Sequence[Judged], tally: Tally) -> None:
    """Decide every filter, and see that no part is skipped that it accepts or fails on a row of.

    One in so many is planned as a read is planned, with its batches and whatever else is there.
    """
    stores, state = world.stores, world.state
    for number, one in enumerate(judged):
        if number % OPTIMISED:
            keep = decide(one.filter, parts.stats, state.relation).keep
            fetched = {ref.key for ref, kept in zip(parts.refs, keep, strict=True) if kept}
        else:
            plan = plan_read(stores, state, filter=one.filter, mode="on")
            fetched = {ref.key for ref in plan.fetched}
        prunes = len(fetched) < len(parts.refs)
        tally.parts += len(parts.refs)
        tally.skipped += len(parts.refs) - len(fetched)
        tally.pruning += prunes
        tally.failing += bool(one.failing)
        tally.failing_and_pruning += bool(one.failing) and prunes
        if prunes and not outlook(one.filter).could_skip:
            tally.wrong.append(f"world {world.seed}: prunes, though it never could: {one.sql}")
        for what, needed in (("accepts a row", one.true), ("fails on a row", one.failing)):
            lost = sorted(needed - fetched)
            if lost:
                tally.wrong.append(f"world {world.seed}: {what} of {lost[0]}: {one.sql}")


def whole_reads(spark: SparkSession, world: World, texts: Sequence[str], tally: Tally) -> None:
    """Read with pushdown on and off, all the way; rows or error must be the same."""
    for text in texts:
        results = {}
        for pushdown in ("off", "on"):
            results[pushdown] = _read(spark, world, text, pushdown)
        tally.reads += 1
        failed = [isinstance(r, Failure) and r.kind != WORKER for r in results.values()]
        if all(failed):  # several rows fail, and it is a race which task tells first
            tally.other_errors += results["on"] != results["off"]
        elif results["on"] != results["off"]:
            tally.wrong.append(f"world {world.seed}: {results['off']} -> {results['on']}: {text}")


def _read(spark: SparkSession, world: World, text: str, pushdown: str) -> Any:
    try:
        frame = snapshot(
            spark,
            NAME,
            where=text,
            columns=["id"],
            pushdown=pushdown,
            config=world.settings,
            now=NOW_US,
        )
        return sorted((row.id, row.d) for row in frame.collect())
    except PySparkException as error:
        return Failure(type(error).__name__, _condition_of(error))
    except Py4JJavaError as error:  # what Java raises itself, Spark hands on as it is
        causes = re.findall(r"^(?:Caused by: )?[\w.]*\.(\w+(?:Exception|Error))", str(error), re.M)
        return Failure(causes[-1] if causes else "Java", "")
    except InvalidRequest as error:
        return "refused", str(error)


def _condition_of(error: PySparkException) -> str:
    """Return the class of an error's message, without the values in it."""
    return error.getCondition() or re.sub(r"\d+", "N", str(error).splitlines()[0])[:60]


def try_world(spark: SparkSession, world: World, filters: int, reads: int, tally: Tally) -> None:
    """Try random filters on a world, some of them as whole reads."""
    draw = Predicates(random.Random(world.seed), world.state.relation)
    texts = [draw.filter() for _ in range(filters)]
    parts = Manifests.of(world.stores, world.state)
    judged = judge(spark, world, parts, texts, tally)
    check(world, parts, judged, tally)
    # Filters that both fail and prune say most about errors, so they are read first.
    telling = sorted(judged, key=lambda one: not one.failing)
    whole_reads(spark, world, [one.sql for one in telling[:reads]], tally)


def main(argv: Sequence[str] | None = None) -> int:
    """Try many worlds and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--filters", type=int, default=500)
    parser.add_argument("--reads", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    from strata.model.settings import SparkSettings

    settings = SparkSettings(master="local[2]", driver_memory_mib=1536, shuffle_partitions=2)
    tally = Tally()
    with spark_session("pushdown", settings, INTERPRETED) as spark:
        for seed in range(options.seed, options.seed + options.worlds):
            began, before = time.monotonic(), len(tally.wrong)
            with tempfile.TemporaryDirectory() as folder:
                world = build(Path(folder), seed)
                try_world(spark, world, options.filters, options.reads, tally)
            new = [f"WRONG {what}\n" for what in tally.wrong[before:]]
            report = f"world {seed}: {time.monotonic() - began:.1f} s; {tally}\n"
            sys.stdout.write("".join([report, *new]))
            sys.stdout.flush()
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
