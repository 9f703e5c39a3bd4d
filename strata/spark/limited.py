"""Abandon work on Spark that takes too long.

A filter can take for ever on a few rows, for example by a regular expression that backtracks. Spark
cancels its jobs. A computation in the driver, or one that ignores the cancellation, cannot be
stopped, but nothing waits for it, and it ends with the process.
"""

import threading
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

from pyspark.sql import SparkSession

from strata.session.session import activate

T = TypeVar("T")


class TooLong(Exception):
    """The work has not ended in time."""


def run_within(spark: SparkSession, seconds: float, work: Callable[[], T]) -> T:
    """Return the result of `work`, run in another thread, within a number of seconds.

    Raises: TooLong; and as `work`.
    """
    tag, done, failed = f"strata-{uuid4().hex}", [], []

    def run() -> None:
        try:
            activate(spark)
            spark.sparkContext.addJobTag(tag)
            done.append(work())
        except BaseException as error:
            failed.append(error)
        finally:
            spark.sparkContext.removeJobTag(tag)

    thread = threading.Thread(target=run, name=tag, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        spark.sparkContext.cancelJobsWithTag(tag)
        raise TooLong(f"not done within {seconds:g} s")
    if failed:
        raise failed[0]
    return done[0]
