"""In a session that lets Spark derive conditions, none of the errors they raise is skipped over."""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.prune import outlook
from strata.spark.catalyst import analyse
from strata.spark.derived import SETTING

pytestmark = pytest.mark.spark
RELATION = Relation(
    0, tuple(Column(i, name, parse_type("string")) for i, name in enumerate("ab", 1)), (1,), ()
)
FAILING = "a = b and cast(a as int) > 5"


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
    assert not outlook(analyse(deriving, RELATION, FAILING, now=0)).could_skip
    for harmless in ("a = b and a > 'x'", "a = 'x' and cast(b as int) > 5"):
        assert outlook(analyse(deriving, RELATION, harmless, now=0)).could_skip

    deriving.conf.set(SETTING, "false")
    assert outlook(analyse(deriving, RELATION, FAILING, now=0)).could_skip
