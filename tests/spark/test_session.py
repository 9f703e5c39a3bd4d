"""A session in a process of its own: what its end waits for."""

import subprocess
import sys

SESSION = """
import threading, time
from strata.model.settings import SparkSettings
from strata.session.session import spark_session

WAIT = 5  # seconds that the server takes to end

with spark_session("test", SparkSettings()) as spark:
    spark.sparkContext.parallelize([0], 1).map(int).collect()
    server = spark.sparkContext._accumulatorServer
    shut, ended = server.shutdown, threading.Event()
    server.shutdown = lambda: (time.sleep(WAIT), shut(), ended.set())
    began = time.monotonic()
took = time.monotonic() - began
assert ended.wait(3 * WAIT), "the server of accumulators is still there"
print(took < WAIT)
with spark_session("again", SparkSettings()) as spark:
    assert spark.range(3).count() == 3
"""


def test_the_end_waits_for_no_accumulators_and_another_session_can_follow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SESSION], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True"], done.stderr[-2000:]
