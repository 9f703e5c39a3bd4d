"""The text of a filter is parsed as one expression by Spark; nothing ever concatenates it."""

import pytest
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.spark.front.catalyst import analyse

pytestmark = [pytest.mark.spark, pytest.mark.long]

RELATION = Relation(
    0, (Column(1, "id", parse_type("int64")), Column(2, "s", parse_type("string"))), (1,), ()
)
STATEMENTS = [
    "id = 1; DROP TABLE victim",
    "1 = 1) UNION SELECT * FROM victim --",
    "DROP TABLE victim",
    "id = 1 GROUP BY id",
    "id = 1 ORDER BY (SELECT 1) LIMIT 1",
    "'; DELETE FROM victim; --",
    "id = 1 /* open",
    "",
    "\0",
]


@pytest.fixture
def victim(spark: SparkSession):
    spark.range(3).createOrReplaceTempView("victim")
    yield "victim"
    spark.catalog.dropTempView("victim")


@pytest.mark.parametrize("where", STATEMENTS)
def test_a_text_that_is_more_than_one_expression_is_refused(
    spark: SparkSession, victim: str, where: str
) -> None:
    with pytest.raises(InvalidRequest):
        analyse(spark, RELATION, where, now=0)
    assert spark.table(victim).count() == 3


@pytest.mark.parametrize(
    "where",
    ["s = '''; DROP TABLE victim; --'", "s = 'x\\'; --'", "s like '%' -- ) or (1=1", 's = "a\'b"'],
)
def test_hostile_characters_inside_a_constant_stay_a_constant(
    spark: SparkSession, victim: str, where: str
) -> None:
    assert analyse(spark, RELATION, where, now=0).sql == where
    assert spark.table(victim).count() == 3
