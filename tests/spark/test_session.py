"""A session in a process of its own: what is loaded beside it, and what its end waits for."""

import subprocess
import sys
from importlib import import_module

import pytest

from strata.session.session import _beside

SESSION = """
import sys, threading, time
from strata.model.settings import SparkSettings
from strata.session.session import spark_session

WAIT = 5  # seconds that the server takes to end

with spark_session("test", SparkSettings(), workers=True, engine={engine!r}) as spark:
    loaded = {engine!r} in sys.modules
    spark.sparkContext.parallelize([0], 1).map(int).collect()
    server = spark.sparkContext._accumulatorServer
    shut, ended = server.shutdown, threading.Event()
    server.shutdown = lambda: (time.sleep(WAIT), shut(), ended.set())
    began = time.monotonic()
took = time.monotonic() - began
assert ended.wait(3 * WAIT), "the server of accumulators is still there"
print(loaded, took < WAIT)
"""


def test_the_engine_is_there_with_the_session_and_the_end_waits_for_no_accumulators() -> None:
    look = SESSION.format(engine="strata.jobs.stats.work")
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr[-2000:]


def test_an_engine_that_cannot_be_loaded_is_left_to_who_imports_it() -> None:
    with _beside("strata.no_such_module"):
        began = True
    assert began
    with pytest.raises(ModuleNotFoundError):
        import_module("strata.no_such_module")


def test_workers_start_until_they_are_there() -> None:
    look = (
        "import time; from strata.model.settings import SparkSettings as S;"
        "from strata.session.session import spark_session as s, workers_start as w\n"
        "with s('test', S(), workers=True) as spark:\n"
        "    found = [w(spark.sparkContext)]\n"
        "    until = time.monotonic() + 120\n"
        "    while w(spark.sparkContext) and time.monotonic() < until: time.sleep(0.1)\n"
        "    print(*found, w(spark.sparkContext))\n"
        "with s('again', S()) as spark: assert spark.range(3).count() == 3"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr[-2000:]
