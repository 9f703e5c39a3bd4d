"""Law 2 in three sessions, on filters as Spark runs them; and that each mended fault is found.

Here a slice of `python -m tests.spark.as_run` and of `python -m tests.spark.operations`, which try
any number.
"""

import random
import re
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from strata.spark.front.rowfilter import row_filter
from tests.spark.answers import SESSIONS, session
from tests.spark.as_run import Net, Tally, try_world
from tests.spark.operations import Walk, try_walk
from tests.spark.planted import (
    FAULTS,
    OPERATION_FAULTS,
    filters_until_found,
    planted,
    steps_until_found,
)
from tests.spark.predicates import NOW_US, STOPPED, stopped
from tests.spark.tempting import Tempting, register
from tests.spark.together import UNION, Asked, Rows, troubles, united
from tests.spark.worlds import World, build
from tests.support.sizes import tries

pytestmark = pytest.mark.spark
SEED = 1
FILTERS = tries(6, 30)


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    register(spark)
    return build(tmp_path_factory.mktemp("world"), SEED)


@pytest.fixture(scope="module")
def rows(spark: SparkSession, world: World) -> Rows:
    return Rows(spark, world.stores, world.state)


def test_what_is_skipped_is_not_needed_however_spark_runs_it(rows: Rows) -> None:
    tally, draw = Tally(), Tempting(random.Random(SEED), rows.state.relation)
    Net(rows, tally, "slice").try_filters([draw.filter() for _ in range(FILTERS)], [*SESSIONS])

    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.refused == 0, "the generator writes filters that Spark understands"
    # A planner that keeps everything would show nothing.
    assert min(tally.pruning["ours"], tally.pruning["spark's"]) > FILTERS


def test_operations_change_nothing_of_it(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    tally, walk = Tally(), Walk(tmp_path, SEED)
    try_walk(spark, walk, 5, tally, filters=tries(2, 4))  # one step for each way to ask

    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.refused == 0
    assert tally.pruning["ours"] > tries(5, 10)
    assert tally.pruning["reads"] == 5


@pytest.mark.parametrize("clock", STOPPED)
def test_a_clock_is_stopped_for_spark_as_it_is_for_us(spark: SparkSession, clock: str) -> None:
    one, said = spark.range(1), f"{clock.upper()}( )"
    same = f"typeof({said}) = typeof({STOPPED[clock]}) and {said} = {STOPPED[clock]}"

    assert row_filter(spark, one, same, NOW_US).count() == 1
    assert one.where(stopped(same)).count() == 1


@pytest.mark.parametrize("name", SESSIONS)
def test_a_filter_among_others_is_run_as_it_is_alone(
    spark: SparkSession, rows: Rows, name: str
) -> None:
    """One job for many filters: Spark optimises each and generates its code as if it were alone."""
    draw = Tempting(random.Random(SEED), rows.state.relation)
    frame = rows.of_pieces(rows.pieces)
    asked = [Asked(n, "", frame.where(draw.filter()[1])) for n in range(12)]
    with session(spark, **SESSIONS[name], **UNION):
        alone = [united(spark, [one])._jdf.queryExecution() for one in asked]
        together = united(spark, asked)._jdf.queryExecution()

        plans = [_shown(qe.optimizedPlan()) for qe in alone]
        union = together.optimizedPlan()
        while union.nodeName() != "Union":
            union = union.child()
        children = [_shown(child) for child in _each(union.children())]
        codes = [code for qe in alone for code in _codes(spark, qe)]
        assert sorted(children) == sorted(plan for plan in plans if "LogicalRDD" in plan)
        assert len(children) > 8
        assert sorted(_codes(spark, together)) == sorted(codes)
        assert bool(codes) == (name != "uncompiled")


def _shown(plan: JavaObject) -> str:
    return str(plan.canonicalized().treeString())


def _each(some: JavaObject) -> list[JavaObject]:
    return [some.apply(i) for i in range(some.size())]


def _codes(spark: SparkSession, execution: JavaObject) -> list[str]:
    """Return what is generated for each stage, but for its number."""
    debug = getattr(spark._jvm.org.apache.spark.sql.execution.debug, "package$")  # type: ignore[union-attr]
    found = getattr(debug, "MODULE$").codegenStringSeq(execution.executedPlan())
    return [
        re.sub(r"(CodegenStage|codegenStageId=|Stage )\d+", r"\1N", one._2())
        for one in _each(found)
    ]


def test_those_that_fail_or_accept_rows_are_named_among_many(
    spark: SparkSession, rows: Rows
) -> None:
    frame = rows.of_pieces(rows.pieces[:4])
    texts = {
        0: "id < 0",
        3: "1 / (id - 3) > 9",
        4: "id between 2 and 4",
        7: "id is null",
        8: "1 / 0 > id",
        9: "id < -5",
        10: "cast(concat('x', id) as int) = 2",
    }
    asked = [Asked(number, text, frame.where(text)) for number, text in texts.items()]

    found = {one.number: trouble for one, trouble in troubles(spark, asked)}

    assert found.keys() == {3, 4, 10}, "a constant that fails, fails whatever rows there are"
    assert found[4] == "accepts 3 rows"
    assert "DIVIDE_BY_ZERO" in found[3]
    assert "CAST_INVALID_INPUT" in found[10]


@pytest.mark.long
@pytest.mark.timeout(8 * 3600)
def test_twenty_thousand_filters_as_spark_runs_them(spark: SparkSession, tmp_path: Path) -> None:
    """20,000 filters in each session: 100 minutes of one core, at 0.1 s a filter and session.

    All of them ran on commit 36400eb, in two halves side by side: none was wrong.
    """
    register(spark)
    tally = Tally()
    for seed in range(200, 240):
        try_world(spark, build(tmp_path / str(seed), seed), 500, tally, [*SESSIONS])

    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.filters == dict.fromkeys(SESSIONS, 20_000)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("seed", range(10))
def test_long_walks_change_nothing_of_it(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    register(spark)
    tally = Tally()
    walk = Walk(tmp_path, 100 + seed)
    try_walk(spark, walk, 40, tally)

    assert walk.collected, "a backfill has something to do"
    assert not tally.wrong, "\n".join(tally.wrong)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_was_mended_would_be_found(rows: Rows, fault: str) -> None:
    filters, said = filters_until_found(rows, fault)

    assert filters, f"not in 2,000 filters of the general draw; {said}"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", OPERATION_FAULTS)
def test_a_fault_of_an_operation_would_be_found(
    spark: SparkSession, tmp_path: Path, fault: str
) -> None:
    """Each within 16 steps of ten filters."""
    register(spark)
    steps, _ = steps_until_found(spark, tmp_path, fault)

    assert steps


def test_each_fault_has_a_place_that_is_still_there() -> None:
    """A place whose name has changed would end the run that is to find the fault."""
    places = [*OPERATION_FAULTS.values(), *(found for _, _, found in FAULTS.values())]
    for one in places:
        with planted(one):
            pass
