"""While a job's workers start, little work is done in the driver; all other work goes to tasks."""

import os
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest
from strata.session import session as sessions
from strata.spark.runner import LITTLE_BYTES, spark_runner


@dataclass(frozen=True)
class Item:
    read_bytes: int


def process(_: object) -> int:
    return os.getpid()


def refused(_: object) -> int:
    raise InvalidRequest("not this one")


@pytest.fixture
def starting(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    monkeypatch.setattr(sessions, "_starting", {str(spark.sparkContext.applicationId)})
    return spark


def test_little_work_does_not_wait_for_workers(starting: SparkSession) -> None:
    run = spark_runner(starting)
    assert [*run(process, [Item(LITTLE_BYTES - 1), Item(1)])] == [os.getpid()] * 2
    with pytest.raises(InvalidRequest, match="not this one"):
        next(run(refused, [Item(1)]))


@pytest.mark.parametrize("items", [[Item(LITTLE_BYTES), Item(1)], [Item(1), "of unknown size"]])
def test_other_work_goes_to_tasks(starting: SparkSession, items: list[object]) -> None:
    assert os.getpid() not in spark_runner(starting)(process, items)


def test_little_work_goes_to_workers_that_are_there(spark: SparkSession) -> None:
    assert os.getpid() not in spark_runner(spark)(process, [Item(1)])
