"""In a session that lets Spark derive conditions, none of the errors they raise is skipped over."""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strata.decide.static import outlook
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.spark.front.catalyst import analyse
from strata.spark.front.derived import SETTING
from strata.spark.front.rowfilter import row_filter

pytestmark = pytest.mark.spark
RELATION = Relation(
    0, tuple(Column(i, name, parse_type("string")) for i, name in enumerate("ab", 1)), (1,), ()
)
CAST = "cast(a as int) > 5"
FAILING = f"a = b and {CAST}"


@pytest.fixture
def deriving(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.set(SETTING, before)


def test_spark_evaluates_what_it_derives_first(deriving: SparkSession) -> None:
    """The fact this rests on: the row is out by `a = b`, and its b is cast all the same."""
    rows = deriving.createDataFrame(
        deriving.sparkContext.parallelize([("5", "x")]), "a string, b string"
    )

    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        rows.filter(FAILING).collect()
    deriving.conf.set(SETTING, "false")
    assert rows.filter(FAILING).collect() == []


def test_such_a_filter_hides_no_error(deriving: SparkSession) -> None:
    """Whatever the session says now: it may say otherwise when the filter runs."""
    for allowed in ("true", "false"):
        deriving.conf.set(SETTING, allowed)
        for equating in (FAILING, f"not (a <> b) and {CAST}", f"(a = b or a = b) and {CAST}"):
            assert not outlook(analyse(deriving, RELATION, equating, ordered=False)).could_skip
        for harmless in ("a = b and a > 'x'", "a = 'x' and cast(b as int) > 5"):
            assert outlook(analyse(deriving, RELATION, harmless, ordered=False)).could_skip


def test_from_a_filter_that_strata_runs_nothing_is_derived(deriving: SparkSession) -> None:
    rows = deriving.createDataFrame(
        deriving.sparkContext.parallelize([("5", "x")]), "a string, b string"
    )

    assert row_filter(deriving, rows, FAILING, 0).collect() == []
    assert outlook(analyse(deriving, RELATION, FAILING, now=0)).could_skip
