"""A job's sign of life says how many of Spark's tasks are done, also from another thread."""

import re
import time
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from strata.spark.progress import tasks_under_way

pytestmark = pytest.mark.spark


def slept(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_tasks_that_are_done_are_counted_while_others_run(spark: SparkSession) -> None:
    look = tasks_under_way(spark)
    assert look() == "the driver works, Spark has no task"
    work = spark.sparkContext.parallelize([0.01, 0.01, 4.0], 3).map(slept)
    thread = Thread(target=work.collect)
    thread.start()
    seen = set()
    while thread.is_alive():
        seen.add(look())
        time.sleep(0.05)
    thread.join()
    assert "2 of 3 tasks of Spark are done, 1 run" in seen
    counts = re.compile(r"\d of 3 tasks of Spark are done, \d run")
    assert all(counts.fullmatch(line) for line in seen if "3" in line)
