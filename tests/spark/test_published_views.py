"""The views over a published table in Spark, with its updates in place of Iceberg's connector."""

import pytest
from pyspark.sql import SparkSession

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.publish.fields import fields_of
from strata.publish.views import views_of
from tests.support.stored import create, memory_stores

UPDATES = [("a", 1), ("a", 1), ("b", 1), ("b", -1), ("c", -1), ("e", 3)]


@pytest.mark.parametrize("name", ["id", "copy", "d", "each_now"])
def test_each_row_comes_as_often_as_it_counts(name: str, spark: SparkSession) -> None:
    """A row that was taken back once too often counts -1, and does not come."""
    relation = Relation(0, (Column(1, name, parse_type("string")),), (1,), ())
    fields = fields_of(create(memory_stores(), relation))
    listed = ", ".join(f"(named_struct('{name}', '{text}'), {d}L)" for text, d in UPDATES)
    spark.sql(f"SELECT * FROM VALUES {listed} AS (key, d)").createOrReplaceTempView("each")
    text = views_of("each", "file:///each", fields, None)["spark.sql"]
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    for statement in filter(str.strip, code.split(";")):
        spark.sql(statement.replace("CREATE VIEW", "CREATE OR REPLACE TEMPORARY VIEW"))

    assert sorted(map(tuple, spark.table("each_now").collect())) == [("a", 2), ("c", -1), ("e", 3)]
    assert sorted(row[0] for row in spark.table("each_rows").collect()) == [*"aaeee"]
    assert spark.table("each_rows").columns == [name]
