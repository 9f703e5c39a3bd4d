"""Law 2: a read with pushdown equals a read without, rows and errors, on every filter tried.

Here a slice of `python -m tests.spark.pushdown`, which tries any number.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.decide.differences import PairInterpreter
from strata.expr.interpret import Environment
from strata.expr.nodes import Expr
from strata.expr.spec import NO, Spec
from tests.spark.pushdown import INTERPRETED, Manifests, Tally, judge, try_world
from tests.spark.worlds import World, build
from tests.support.sizes import tries

pytestmark = pytest.mark.spark
SEED = 1
FILTERS = tries(40, 500)
_TESTS = ("id < 0", "id >= 0")


class _Careless(PairInterpreter):
    """An interpreter that knows no errors."""

    def evaluate(
        self, expr: Expr, environment: Environment, trace: dict[int, Spec] | None = None
    ) -> Spec:
        spec = super().evaluate(expr, environment, trace)
        return Spec(spec.values, spec.null, NO)


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session with expressions interpreted: compiling hundreds takes minutes."""
    before = {name: spark.conf.get(name, None) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("world"), SEED)


def test_nothing_that_a_filter_needs_is_skipped(interpreted: SparkSession, world: World) -> None:
    tally = Tally()
    try_world(interpreted, world, FILTERS, tries(1, 3), tally)

    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.refused == 0, "the generator writes filters that Spark understands"
    assert tally.hopeless < 10
    # A pruner that keeps everything, or filters that never fail, would show nothing.
    assert tally.pruning > FILTERS / 2
    assert tally.failing_and_pruning > FILTERS / 13


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_twenty_thousand_filters(interpreted: SparkSession, tmp_path: Path) -> None:
    tally = Tally()
    for seed in range(100, 140):
        try_world(interpreted, build(tmp_path / str(seed), seed), 500, 5, tally)

    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.filters >= 20_000


def test_conditions_below_a_common_expression_are_judged(
    interpreted: SparkSession, world: World
) -> None:
    """Spark moves them into a filter of their own; rows that it leaves out were once counted."""
    texts = [f"nullif(c7, timestamp'1970-01-01') is not null and {test}" for test in _TESTS]
    none, some = judge(interpreted, world, Manifests.of(world.stores, world.state), texts, Tally())

    assert not none.true
    assert some.true


def test_a_lie_is_found(
    interpreted: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The net itself: an interpreter that overlooks errors is caught by a few filters."""
    monkeypatch.setattr(import_module("strata.decide.decision"), "PairInterpreter", _Careless)
    tally = Tally()
    try_world(interpreted, world, tries(20, 40), 0, tally)

    assert any("fails on a row" in line for line in tally.wrong)
