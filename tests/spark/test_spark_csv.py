"""CSV as Spark writes it by default comes in as the values that Spark has."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.ingest.readers.infer import infer
from tests.unit.ingest.test_csv_with_escapes import TEXTS, world_of

pytestmark = pytest.mark.spark
SIGNS = '"\\,;a ä{}:\t#'


def test_what_spark_writes_is_taken_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    draw = random.Random(7)
    texts = [*TEXTS, *("".join(draw.choices(SIGNS, k=draw.randint(1, 9))) for _ in range(300))]
    values = [None if draw.random() < 0.05 else text for text in texts]
    world = world_of(tmp_path, nulls=[""])
    frame = spark.createDataFrame(list(enumerate(values)), "id bigint, text string")
    exact = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
    frame.coalesce(1).write.csv(str(tmp_path / "out"), header=True, **exact)
    [file] = (tmp_path / "out").glob("*.csv")

    report = world.ingest(str(file), lower=0, upper=1)

    assert report["updates"] == len(values)
    assert sorted(row[:2] for row in world.rows()) == list(enumerate(values))
    assert infer(world.settings, "t", str(file)).declaration["source"]["escape"] == "\\"
