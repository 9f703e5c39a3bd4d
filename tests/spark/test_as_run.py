"""Law 2 in three sessions, on filters as Spark runs them; and that each mended fault is found.

Here a slice of `python -m tests.spark.as_run`, which tries any number.
"""

import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from strata.expr.nodes import Expr
from tests.spark.answers import SESSIONS, session
from tests.spark.as_run import Rows, Tally, Tempting, register, try_filters, try_world
from tests.spark.worlds import World, build

pytestmark = pytest.mark.spark
SEED, AT_ONCE = 1, 10
ENOUGH = 200  # of one shape, which is one of ten in 2,000 filters


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    register(spark)
    return build(tmp_path_factory.mktemp("world"), SEED)


def test_what_is_skipped_is_not_needed_however_spark_runs_it(
    spark: SparkSession, world: World
) -> None:
    tally = Tally()
    try_world(spark, world, 30, tally, [*SESSIONS])

    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.refused == 0, "the generator writes filters that Spark understands"
    # A planner that keeps everything would show nothing.
    assert min(tally.pruning["ours"], tally.pruning["spark's"]) > 30


@pytest.mark.long
@pytest.mark.timeout(8 * 3600)
def test_twenty_thousand_filters_as_spark_runs_them(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    tally = Tally()
    for seed in range(200, 240):
        try_world(spark, build(tmp_path / str(seed), seed), 500, tally, [*SESSIONS])

    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.filters >= 3 * 20_000


def _as_it_is(expr: Expr, **_: Any) -> Expr:
    return expr


def _nothing(*_: Any) -> None:
    return None


def _replaced(value: Any) -> str:
    return bytes(value.getBytes()).decode(errors="replace")


def _unordered(spark: SparkSession, plan: Any, condition: Any) -> DataFrame:
    from strata.spark.ordered import frame_of

    return frame_of(spark, plan.copy(condition, plan.child()))


# What was wrong once: the session and the shape of filters that show it; what stood where.
FAULTS: dict[str, tuple[str, str, list[tuple[str, str, Callable[..., Any]]]]] = {
    "texts that are no UTF-8 become others": (
        "own", "bytes", [("strata.spark.constants", "text_of", _replaced)]
    ),
    "filters run in Spark's order, judged in ours": (
        "own", "null_first", [("strata.spark.rowfilter", "run_in_order", _unordered)]
    ),
    "null tests are taken for evaluated where they stand": (
        "own", "null_first", [("strata.spark.catalyst", "null_tests_last", _as_it_is)]
    ),
    "the optimised form is not judged": (
        "own", "absorbed", [("strata.spark.catalyst._Judge", "_optimised", _nothing)]
    ),
    "what is derived is not judged": (
        "stock", "equated",
        [("strata.spark.catalyst._Judge", "_optimised", _nothing),
         ("strata.spark.catalyst", "with_derived", _as_it_is)],
    ),
    "repeated parts are taken for evaluated where they stand": (
        "uncompiled", "repeated", [("strata.spark.catalyst", "with_repeated", _as_it_is)]
    ),
    "Python functions are taken for evaluated where they stand": (
        "own", "called",
        [("strata.spark.ordered", "_is_outside", lambda node: False),
         ("strata.spark.catalyst._Judge", "_optimised", _nothing)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, world: World) -> Rows:
    return Rows.of(spark, world)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_was_mended_would_be_found(
    spark: SparkSession, world: World, rows: Rows, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    name, shape, places = FAULTS[fault]
    for where, what, instead in places:
        monkeypatch.setattr(_owner(where), what, instead)
    tally, draw = Tally(), Tempting(random.Random(SEED), world, [shape])
    with session(spark, **SESSIONS[name]):
        while not tally.wrong and tally.filters < ENOUGH:
            try_filters(spark, world, rows, [draw.filter() for _ in range(AT_ONCE)], tally)

    assert tally.wrong, tally


def _owner(where: str) -> object:
    """Return a module, or a class in one."""
    try:
        return import_module(where)
    except ModuleNotFoundError:
        module, name = where.rsplit(".", 1)
        return getattr(import_module(module), name)
