"""A job's sign of life says how many of Spark's tasks are done, also from another thread."""

import re
import time
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from strata.spark.progress import tasks_under_way

pytestmark = pytest.mark.spark
PATIENCE = 60.0  # seconds; Spark shows a task's end at its next event, at the latest a heartbeat


def until_there(path: str) -> str:
    """End once a file is there, or when the patience does."""
    end = time.monotonic() + PATIENCE
    while path and not Path(path).exists() and time.monotonic() < end:
        time.sleep(0.05)
    return path


def test_tasks_that_are_done_are_counted_while_others_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    look = partial(tasks_under_way, spark.sparkContext)
    assert look() == "the driver works, Spark has no task"
    gate = tmp_path / "seen"
    work = spark.sparkContext.parallelize(["", "", str(gate)], 3).map(until_there)
    thread = Thread(target=work.collect)
    thread.start()
    seen = set()
    while thread.is_alive():
        seen.add(look())
        if "2 of 3 tasks of Spark are done, 1 run" in seen:
            gate.touch()
        time.sleep(0.05)
    thread.join()
    assert gate.exists(), seen
    counts = re.compile(r"\d of 3 tasks of Spark are done, \d run")
    assert all(counts.fullmatch(line) for line in seen if "3" in line)
